import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.utils.AppInfoParser;

/** Java's clients 2.1, the oldest that Kafka 4 serves (KIP-896), with the admin calls of that version. */
public final class Clients21 {
    private final Checks checks;
    private final AdminClient admin;
    private final RecordChecks records;

    private Clients21(Checks checks) {
        this.checks = checks;
        admin = AdminClient.create(checks.properties());
        records = new RecordChecks(checks, this::create);
    }

    public static void main(String[] arguments) {
        new Clients21(new Checks(arguments)).run();
        System.exit(0);
    }

    private void run() {
        checks.add("create-topic", () -> {
            create(records.topic);
            create(records.shared);
        });
        checks.add("list-topics", () -> Checks.isTrue(topicNames().containsAll(List.of(records.topic, records.shared)), "listed"));
        checks.add("describe-topics", () -> {
            Checks.equal(described().partitions().size(), Checks.PARTITIONS);
            Checks.equal(described().partitions().get(0).replicas().size(), (int) checks.replication);
        });
        records.addProduce("gzip", "snappy", "lz4", "zstd");
        checks.add("produce-idempotent", () -> records.roundTrip("idempotent", "enable.idempotence", "true"));
        records.addConsume();
        new TransactionChecks(
                checks, this::create, (producer, offsets, group) -> producer.sendOffsetsToTransaction(offsets, group)).addAll();
        addGroups();
        addTopics();
        addCluster();
        checks.add("delete-topic", () -> {
            admin.deleteTopics(List.of(records.topic)).all().get();
            Checks.until(() -> !topicNames().contains(records.topic), "the topic is gone");
        });
        checks.run(AppInfoParser.getVersion());
    }

    private void addGroups() {
        checks.add("list-groups", () -> Checks.isTrue(groupIds().contains(records.group), "listed"));
        checks.add("describe-groups", this::describeGroups);
        checks.add("list-group-offsets", () -> {
            Map<TopicPartition, OffsetAndMetadata> committed =
                    admin.listConsumerGroupOffsets(records.group).partitionsToOffsetAndMetadata().get();
            Checks.equal(committed.get(records.first).offset(), (long) Checks.RECORDS);
        });
        checks.add("delete-groups", () -> {
            admin.deleteConsumerGroups(List.of(records.group)).all().get();
            Checks.isTrue(!groupIds().contains(records.group), "the group is gone");
        });
    }

    private void addTopics() {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, records.topic);
        checks.add("describe-configs", () -> {
            Checks.equal(config(resource).get("cleanup.policy").value(), "delete");
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(nodes().get(0).id()));
            Checks.isTrue(!config(broker).entries().isEmpty(), "a broker has configs");
        });
        checks.add("alter-configs", () -> {
            Config wanted = new Config(List.of(new ConfigEntry("retention.ms", "123456")));
            admin.alterConfigs(Collections.singletonMap(resource, wanted)).all().get();
            Checks.until(() -> config(resource).get("retention.ms").value().equals("123456"), "the config is returned");
        });
        checks.add("delete-records", () -> {
            Map<TopicPartition, RecordsToDelete> before = Map.of(records.first, RecordsToDelete.beforeOffset(10));
            Checks.equal(admin.deleteRecords(before).lowWatermarks().get(records.first).get().lowWatermark(), 10L);
            List<String> left = Checks.valuesOf("seek", Checks.RECORDS).subList(10, Checks.RECORDS);
            Checks.equal(records.consume(records.topic, Checks.RECORDS - 10, 10), left);
        });
        checks.add("create-partitions", () -> {
            admin.createPartitions(Map.of(records.topic, NewPartitions.increaseTo(Checks.PARTITIONS + 2))).all().get();
            Checks.until(() -> described().partitions().size() == Checks.PARTITIONS + 2, "two partitions more");
        });
    }

    private void addCluster() {
        checks.add("describe-cluster", () -> {
            Checks.isTrue(nodes().size() >= checks.replication, "all brokers");
            Checks.isTrue(!admin.describeCluster().clusterId().get().isEmpty(), "a cluster id");
        });
        checks.add("describe-log-dirs", () -> {
            List<Integer> ids = new ArrayList<>();
            nodes().forEach(node -> ids.add(node.id()));
            Checks.equal(admin.describeLogDirs(ids).all().get().size(), ids.size());
        });
        checks.add("acls", () -> {
            AclBinding binding = new AclBinding(
                    new ResourcePattern(ResourceType.TOPIC, records.topic, PatternType.LITERAL),
                    new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
            String disabled = "SecurityDisabledException";
            Checks.equal(Checks.refusalOf(() -> admin.describeAcls(AclBindingFilter.ANY).values().get()), disabled);
            Checks.equal(Checks.refusalOf(() -> admin.createAcls(List.of(binding)).all().get()), disabled);
            Checks.equal(Checks.refusalOf(() -> admin.deleteAcls(List.of(binding.toFilter())).all().get()), disabled);
        });
        checks.add("delegation-tokens", () -> {
            String notAllowed = "UnsupportedByAuthenticationException";
            Checks.equal(Checks.refusalOf(() -> admin.describeDelegationToken().delegationTokens().get()), notAllowed);
            Checks.equal(Checks.refusalOf(() -> admin.createDelegationToken().delegationToken().get()), notAllowed);
        });
    }

    private void create(String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, Checks.PARTITIONS, checks.replication))).all().get();
    }

    private Set<String> topicNames() throws Exception {
        return admin.listTopics().names().get();
    }

    private TopicDescription described() throws Exception {
        return admin.describeTopics(List.of(records.topic)).all().get().get(records.topic);
    }

    private List<Node> nodes() throws Exception {
        return new ArrayList<>(admin.describeCluster().nodes().get());
    }

    private Config config(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private Set<String> groupIds() throws Exception {
        Set<String> ids = new HashSet<>();
        admin.listConsumerGroups().all().get().forEach(each -> ids.add(each.groupId()));
        return ids;
    }

    private void describeGroups() throws Exception {
        String id = checks.name("described");
        try (RecordChecks.Member member = records.join(id)) {
            Checks.until(() -> member.partitions == Checks.PARTITIONS, "the member has all");
            ConsumerGroupDescription description = admin.describeConsumerGroups(List.of(id)).all().get().get(id);
            Checks.equal(description.state().toString(), "Stable");
            Checks.equal(description.members().size(), 1);
            Checks.equal(description.members().iterator().next().assignment().topicPartitions().size(), Checks.PARTITIONS);
        }
    }
}
