import java.util.HashSet;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.utils.AppInfoParser;

/** What 3.9 has in place of the calls of 4.4: it lists groups of consumers alone, and no resources by their configs. */
final class RecentCalls {
    private RecentCalls() {
    }

    static String version() {
        return AppInfoParser.getVersion();
    }

    static Set<String> groupIds(Admin admin) throws Exception {
        Set<String> ids = new HashSet<>();
        admin.listConsumerGroups().all().get().forEach(each -> ids.add(each.groupId()));
        return ids;
    }

    /** The group has a member. */
    static void checkState(Admin admin, ConsumerGroupDescription description) {
        Checks.equal(description.state().toString(), "Stable");
    }

    static void addTo(Checks checks, Admin admin, ConfigResource topic) {
        // No call.
    }
}
