import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeLogDirsResult;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own producer, consumer and admin. What is not of records is what Kafka without an authorizer answers. */
public final class JavaClients {
    private final Checks checks;
    private final Admin admin;
    private final String topic;
    private final String shared;
    private final String group;
    private final TopicPartition first;

    private JavaClients(Checks checks) {
        this.checks = checks;
        admin = Admin.create(checks.properties());
        topic = checks.name("topic");
        shared = checks.name("shared");
        group = checks.name("group");
        first = new TopicPartition(topic, 0);
    }

    public static void main(String[] arguments) {
        new JavaClients(new Checks(arguments)).run();
        System.exit(0);
    }

    private void run() {
        checks.add("create-topic", () -> {
            create(topic);
            create(shared);
        });
        checks.add("list-topics", () -> Checks.isTrue(admin.listTopics().names().get().containsAll(List.of(topic, shared)), "listed"));
        checks.add("describe-topics", () -> {
            Checks.equal(described(topic).partitions().size(), Checks.PARTITIONS);
            Checks.equal(described(topic).partitions().get(0).replicas().size(), (int) checks.replication);
        });
        checks.add("produce", () -> roundTrip("produce", "enable.idempotence", "false"));
        checks.add("produce-acks-0", () -> roundTrip("acks-0", "acks", "0", "enable.idempotence", "false"));
        checks.add("produce-acks-1", () -> roundTrip("acks-1", "acks", "1", "enable.idempotence", "false"));
        checks.add("produce-idempotent", () -> roundTrip("idempotent", "enable.idempotence", "true"));
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            checks.add("produce-" + codec, () -> roundTrip(codec, "compression.type", codec));
        }
        checks.add("consume-assigned", () -> {
            produce(topic, Checks.valuesOf("seek", Checks.RECORDS), 1);
            int half = Checks.RECORDS / 2;
            Checks.equal(consume(topic, half, half), Checks.valuesOf("seek", Checks.RECORDS).subList(half, Checks.RECORDS));
        });
        checks.add("list-offsets", () -> {
            Checks.equal(offset(OffsetSpec.earliest()), 0L);
            Checks.equal(offset(OffsetSpec.latest()), (long) Checks.RECORDS);
            Checks.isTrue(offset(OffsetSpec.maxTimestamp()) >= 0, "the offset of the largest timestamp");
        });
        checks.add("offsets-by-time", this::offsetsByTime);
        checks.add("group-share", () -> groupShare("org.apache.kafka.clients.consumer.RangeAssignor"));
        checks.add("group-cooperative", () -> groupShare("org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        checks.add("static-member", this::staticMember);
        checks.add("group-resume", this::groupResume);
        new TransactionChecks(checks, this::create, (producer, offsets, id) ->
                producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(id))).addAll();
        addGroupAdministration();
        addTopicAdministration();
        addClusterAdministration();
        addSecurity();
        checks.add("delete-topic", () -> {
            admin.deleteTopics(List.of(topic)).all().get();
            Checks.until(() -> !admin.listTopics().names().get().contains(topic), "the topic is gone");
        });
        checks.run(RecentCalls.version());
    }

    private void addGroupAdministration() {
        checks.add("list-groups", () -> {
            Checks.isTrue(RecentCalls.groupIds(admin).contains(group), "of all types");
            Checks.isTrue(
                    admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), "of consumers");
        });
        checks.add("describe-groups", this::describeGroups);
        checks.add("remove-members", this::removeMembers);
        checks.add("list-group-offsets", () -> Checks.equal(committed().get(first).offset(), (long) Checks.RECORDS));
        checks.add("alter-group-offsets", () -> {
            admin.alterConsumerGroupOffsets(group, Map.of(first, new OffsetAndMetadata(7, Optional.empty(), "seven"))).all().get();
            Checks.equal(committed().get(first), new OffsetAndMetadata(7, Optional.empty(), "seven"));
        });
        checks.add("delete-group-offsets", () -> {
            admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
            Checks.isTrue(!committed().containsKey(first), "the offset is gone");
        });
        checks.add("delete-groups", () -> {
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Checks.isTrue(!RecentCalls.groupIds(admin).contains(group), "the group is gone");
        });
    }

    private void addTopicAdministration() {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        checks.add("describe-configs", () -> {
            Checks.equal(config(resource).get("cleanup.policy").value(), "delete");
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(nodes().get(0).id()));
            Checks.isTrue(!config(broker).entries().isEmpty(), "a broker has configs");
        });
        checks.add("alter-configs", () -> {
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "123456"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            Checks.until(() -> config(resource).get("retention.ms").value().equals("123456"), "the config is returned");
        });
        RecentCalls.addTo(checks, admin, resource);
        checks.add("delete-records", () -> {
            Map<TopicPartition, RecordsToDelete> before = Map.of(first, RecordsToDelete.beforeOffset(10));
            Checks.equal(admin.deleteRecords(before).lowWatermarks().get(first).get().lowWatermark(), 10L);
            Checks.equal(consume(topic, Checks.RECORDS - 10, 10), Checks.valuesOf("seek", Checks.RECORDS).subList(10, Checks.RECORDS));
        });
        checks.add("create-partitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(Checks.PARTITIONS + 2))).all().get();
            Checks.until(() -> described(topic).partitions().size() == Checks.PARTITIONS + 2, "two partitions more");
        });
        checks.add("elect-leaders", () -> {
            Optional<Throwable> error = admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get().get(first);
            Checks.isTrue(error.isEmpty() || error.get() instanceof ElectionNotNeededException, "elected, or not needed: " + error);
        });
        checks.add("reassignments", () -> {
            List<Integer> replicas = described(topic).partitions().get(0).replicas().stream().map(Node::id).toList();
            admin.alterPartitionReassignments(Map.of(first, Optional.of(new NewPartitionReassignment(replicas)))).all().get();
            Checks.until(() -> admin.listPartitionReassignments().reassignments().get().isEmpty(), "nothing moves");
        });
        checks.add("describe-producers", () -> admin.describeProducers(List.of(first)).partitionResult(first).get());
    }

    private void addClusterAdministration() {
        checks.add("describe-cluster", () -> {
            Checks.isTrue(nodes().size() >= checks.replication, "all brokers");
            Checks.isTrue(!admin.describeCluster().clusterId().get().isEmpty(), "a cluster id");
        });
        checks.add("describe-log-dirs", () -> {
            DescribeLogDirsResult directories = admin.describeLogDirs(nodes().stream().map(Node::id).toList());
            Checks.equal(directories.allDescriptions().get().size(), nodes().size());
        });
        checks.add("describe-features", () -> admin.describeFeatures().featureMetadata().get());
        checks.add("update-features", () -> {
            Map<String, FeatureUpdate> unknown = Map.of("no.such.feature", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE));
            String refusal = Checks.refusalOf(() -> admin.updateFeatures(unknown, new UpdateFeaturesOptions()).all().get());
            Checks.equal(refusal, "InvalidUpdateVersionException");
        });
        checks.add("describe-quorum", () -> Checks.isTrue(admin.describeMetadataQuorum().quorumInfo().get().leaderId() >= 0, "a leader"));
        checks.add("list-transactions", () -> admin.listTransactions().all().get());
        checks.add("client-metrics", () -> Checks.isTrue(admin.listClientMetricsResources().all().get().isEmpty(), "none"));
    }

    private void addSecurity() {
        checks.add("acls", () -> {
            AclBinding binding = new AclBinding(
                    new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
                    new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
            String disabled = "SecurityDisabledException";
            Checks.equal(Checks.refusalOf(() -> admin.describeAcls(AclBindingFilter.ANY).values().get()), disabled);
            Checks.equal(Checks.refusalOf(() -> admin.createAcls(List.of(binding)).all().get()), disabled);
            Checks.equal(Checks.refusalOf(() -> admin.deleteAcls(List.of(binding.toFilter())).all().get()), disabled);
        });
        checks.add("quotas", () -> Checks.isTrue(admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().isEmpty(), "none"));
        checks.add("alter-quotas", this::alterQuotas);
        checks.add("scram", () -> Checks.isTrue(admin.describeUserScramCredentials().all().get().isEmpty(), "none"));
        checks.add("alter-scram", this::alterScram);
        checks.add("delegation-tokens", () -> {
            String notAllowed = "UnsupportedByAuthenticationException";
            Checks.equal(Checks.refusalOf(() -> admin.describeDelegationToken().delegationTokens().get()), notAllowed);
            Checks.equal(Checks.refusalOf(() -> admin.createDelegationToken().delegationToken().get()), notAllowed);
        });
    }

    private void create(String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, Checks.PARTITIONS, checks.replication))).all().get();
    }

    private TopicDescription described(String name) throws Exception {
        return admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
    }

    private List<Node> nodes() throws Exception {
        return new ArrayList<>(admin.describeCluster().nodes().get());
    }

    private Config config(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private long offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(first, spec)).partitionResult(first).get().offset();
    }


    private Map<TopicPartition, OffsetAndMetadata> committed() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private void produce(String name, List<String> values, int partitions, String... settings) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(checks.properties(settings), new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < values.size(); number++) {
                sent.add(producer.send(new ProducerRecord<>(name, number % partitions, null, values.get(number))));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private KafkaConsumer<String, String> consumer(String... settings) {
        Properties properties = checks.properties("auto.offset.reset", "earliest", "heartbeat.interval.ms", "500");
        properties.putAll(checks.properties(settings));
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private List<String> consume(String name, int count, long offset) {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(name, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            return poll(consumer, count);
        }
    }

    private static List<String> poll(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + Checks.PATIENCE.toNanos();
        while (values.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                values.add(record.value());
            }
        }
        return values;
    }

    private void roundTrip(String of, String... settings) throws Exception {
        create(checks.name(of));
        List<String> values = Checks.valuesOf(of, Checks.RECORDS);
        produce(checks.name(of), values, 1, settings);
        Checks.equal(consume(checks.name(of), Checks.RECORDS, 0), values);
    }

    /** A consumer of a group on a thread of its own. */
    private final class Member implements AutoCloseable {
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        volatile int partitions;
        private volatile boolean over;
        private final Thread thread;

        Member(String groupId, String... settings) {
            KafkaConsumer<String, String> consumer = consumer(settings);
            thread = new Thread(() -> consume(consumer));
            thread.start();
        }

        private void consume(KafkaConsumer<String, String> consumer) {
            try (consumer) {
                consumer.subscribe(List.of(shared));
                while (!over) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                        seen.add(record.value());
                    }
                    partitions = consumer.assignment().size();
                }
            }
        }

        @Override
        public void close() throws InterruptedException {
            over = true;
            thread.join();
        }
    }

    private void groupShare(String assignor) throws Exception {
        String id = checks.name("share-" + assignor.substring(assignor.lastIndexOf('.') + 1));
        String[] settings = {"group.id", id, "partition.assignment.strategy", assignor};
        List<String> values = Checks.valuesOf(id, 3 * Checks.RECORDS);
        produce(shared, values.subList(0, Checks.RECORDS), Checks.PARTITIONS);
        try (Member one = new Member(id, settings)) {
            Set<String> seen = new HashSet<>();
            Checks.until(() -> one.partitions == Checks.PARTITIONS && one.seen.containsAll(values.subList(0, Checks.RECORDS)), "one has all");
            Member two = new Member(id, settings);
            try (two) {
                int half = Checks.PARTITIONS / 2;
                Checks.until(() -> one.partitions == half && two.partitions == half, "both have half");
                produce(shared, values.subList(Checks.RECORDS, 2 * Checks.RECORDS), Checks.PARTITIONS);
                Checks.until(() -> covers(values.subList(0, 2 * Checks.RECORDS), seen, one, two), "both together read all");
                Checks.isTrue(!two.seen.isEmpty(), "the second member reads");
            }
            produce(shared, values.subList(2 * Checks.RECORDS, 3 * Checks.RECORDS), Checks.PARTITIONS);
            Checks.until(() -> covers(values, seen, one, two), "who is left reads all");
        }
    }

    private static boolean covers(List<String> values, Set<String> seen, Member... members) {
        for (Member member : members) {
            seen.addAll(member.seen);
        }
        return seen.containsAll(values);
    }

    /** Who comes back within its session has what it had, in the same generation. */
    private void staticMember() throws Exception {
        String id = checks.name("static");
        int half = Checks.PARTITIONS / 2;
        try (Member one = new Member(id, "group.id", id, "group.instance.id", "one")) {
            try (Member two = new Member(id, "group.id", id, "group.instance.id", "two")) {
                Checks.until(() -> one.partitions == half && two.partitions == half, "both have half");
            }
            try (Member two = new Member(id, "group.id", id, "group.instance.id", "two")) {
                Checks.until(() -> two.partitions == half, "who came back has half");
                Checks.equal(one.partitions, half);
            }
        }
    }

    private void offsetsByTime() throws Exception {
        TopicPartition timed = new TopicPartition(checks.name("timed"), 0);
        create(timed.topic());
        long begin = System.currentTimeMillis() - 3_600_000;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(checks.properties(), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < Checks.RECORDS; number++) {
                producer.send(new ProducerRecord<>(timed.topic(), 0, begin + 10L * number, null, "timed " + number)).get();
            }
        }
        for (long number : new long[] {0, 7, Checks.RECORDS - 1, Checks.RECORDS}) {
            OffsetSpec at = OffsetSpec.forTimestamp(begin + 10 * number - 3);
            long expected = number < Checks.RECORDS ? number : -1;
            Checks.equal(admin.listOffsets(Map.of(timed, at)).partitionResult(timed).get().offset(), expected);
        }
    }

    private void groupResume() {
        List<String> values = Checks.valuesOf("seek", Checks.RECORDS);
        int half = Checks.RECORDS / 2;
        Checks.equal(readSome(half), values.subList(0, half));
        Checks.equal(readSome(half), values.subList(half, Checks.RECORDS));
    }

    private List<String> readSome(int count) {
        String most = Integer.toString(count);
        try (KafkaConsumer<String, String> consumer =
                consumer("group.id", group, "enable.auto.commit", "false", "max.poll.records", most)) {
            consumer.subscribe(List.of(topic));
            List<String> values = poll(consumer, count);
            consumer.commitSync();
            return values;
        }
    }

    private void describeGroups() throws Exception {
        String id = checks.name("described");
        try (Member member = new Member(id, "group.id", id)) {
            Checks.until(() -> member.partitions == Checks.PARTITIONS, "the member has all");
            ConsumerGroupDescription description = admin.describeConsumerGroups(List.of(id)).all().get().get(id);
            Checks.equal(description.members().size(), 1);
            Checks.equal(description.members().iterator().next().assignment().topicPartitions().size(), Checks.PARTITIONS);
            RecentCalls.checkState(admin, description);
        }
    }

    private void removeMembers() throws Exception {
        String id = checks.name("removed");
        try (Member member = new Member(id, "group.id", id, "group.instance.id", "one")) {
            Checks.until(() -> member.partitions == Checks.PARTITIONS, "the member has all");
        }
        List<MemberToRemove> removed = List.of(new MemberToRemove("one"));
        admin.removeMembersFromConsumerGroup(id, new RemoveMembersFromConsumerGroupOptions(removed)).all().get();
        Checks.equal(admin.describeConsumerGroups(List.of(id)).all().get().get(id).members().size(), 0);
    }

    /** No user is left: what another client finds is checked, too. */
    private void alterScram() throws Exception {
        String user = checks.name("user");
        ScramCredentialInfo information = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
        admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, information, "secret"))).all().get();
        Checks.until(() -> hasScram(user), "the user is described");
        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get();
        Checks.until(() -> !hasScram(user), "the user is gone");
    }

    private boolean hasScram(String user) throws Exception {
        return admin.describeUserScramCredentials().all().get().containsKey(user);
    }

    private void alterQuotas() throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, checks.name("client")));
        for (Double value : new Double[] {1000.0, null}) {
            ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op("producer_byte_rate", value);
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
        }
    }
}
