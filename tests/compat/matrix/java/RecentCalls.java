import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** The calls of JavaClients that 3.9 does not have; older/recent has this class for 3.9. */
final class RecentCalls {
    private RecentCalls() {
    }

    static String version() {
        return AppInfoParser.getVersion();
    }

    static Set<String> groupIds(Admin admin) throws Exception {
        Set<String> ids = new HashSet<>();
        admin.listGroups().all().get().forEach(each -> ids.add(each.groupId()));
        return ids;
    }

    /** The group has a member of the classic protocol. */
    static void checkState(Admin admin, ConsumerGroupDescription description) throws Exception {
        String id = description.groupId();
        Checks.equal(description.groupState().toString(), "Stable");
        Checks.equal(admin.describeClassicGroups(List.of(id)).all().get().get(id).protocol(), "consumer");
    }

    static void addTo(Checks checks, Admin admin, ConfigResource topic) {
        checks.add("list-config-resources", () -> {
            Collection<ConfigResource> listed =
                    admin.listConfigResources(Set.of(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all().get();
            Checks.isTrue(listed.contains(topic), "the topic has configs");
        });
    }
}
