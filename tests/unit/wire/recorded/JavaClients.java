import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/** What Apache Kafka's own clients are made to say, all that they can. Arguments: the bootstrap address, and a SASL one. */
public class JavaClients {
    static final String TOPIC = "of-java";
    static final TopicPartition PARTITION = new TopicPartition(TOPIC, 0);

    static Map<String, Object> settings(String bootstrap, Object... more) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "client.id", "java-client"));
        for (int each = 0; each < more.length; each += 2) all.put((String) more[each], more[each + 1]);
        return all;
    }

    /** A refusal is worth recording as well. */
    static void attempt(Callable<?> what) {
        try {
            what.call();
        } catch (Exception error) {
            System.out.println("  " + error);
        }
    }

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        if (args.length > 1) authenticate(args[1]);
        try (Admin admin = Admin.create(settings(bootstrap))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1).configs(Map.of("retention.ms", "100000")))).all().get();
            attempt(() -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all().get());
            produce(bootstrap);
            consume(bootstrap, "classic");
            consume(bootstrap, "consumer");
            share(bootstrap, admin);
            administer(admin);
            cluster(admin);
            attempt(() -> admin.deleteTopics(List.of(TOPIC)).all().get());
        }
    }

    static void authenticate(String bootstrap) throws Exception {
        var login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"someone\" password=\"secret\";";
        try (Admin admin = Admin.create(settings(bootstrap, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN", "sasl.jaas.config", login))) {
            admin.listTopics().names().get();
            attempt(() -> admin.createDelegationToken().delegationToken().get());
        }
    }

    static void produce(String bootstrap) throws Exception {
        var bytes = new StringSerializer();
        for (String acks : List.of("all", "0")) {
            var settings = settings(bootstrap, "acks", acks, "enable.idempotence", acks.equals("all"), "compression.type", "zstd");
            try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
                producer.send(new ProducerRecord<>(TOPIC, 0, "key", "value")).get();
            }
        }
        try (var producer = new KafkaProducer<>(settings(bootstrap, "transactional.id", "java-txn"), bytes, bytes)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, "key", "value")).get();
            attempt(() -> { producer.sendOffsetsToTransaction(Map.of(PARTITION, new OffsetAndMetadata(1)), new ConsumerGroupMetadata("java-group")); return null; });
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, 0, "key", "to be aborted")).get();
            producer.abortTransaction();
        }
    }

    static void consume(String bootstrap, String protocol) {
        var settings = settings(bootstrap, "group.id", "java-" + protocol, "group.protocol", protocol,
            "auto.offset.reset", "earliest", "isolation.level", "read_committed", "client.rack", "here");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            for (int round = 0; round < 20 && consumer.poll(Duration.ofMillis(500)).isEmpty(); round++) { }
            attempt(() -> { consumer.commitSync(); return null; });
            attempt(() -> consumer.committed(Set.of(PARTITION)));
            attempt(() -> consumer.offsetsForTimes(Map.of(PARTITION, 1L)));
            attempt(() -> consumer.listTopics());
            consumer.seek(PARTITION, new OffsetAndMetadata(0, Optional.of(0), "")); // to be validated by its epoch
            consumer.poll(Duration.ofMillis(500));
        }
    }

    static void share(String bootstrap, Admin admin) {
        attempt(() -> admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, "java-share"),
            List.of(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get());
        var settings = settings(bootstrap, "group.id", "java-share");
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(TOPIC));
            for (int round = 0; round < 20 && consumer.poll(Duration.ofMillis(500)).isEmpty(); round++) { }
            attempt(() -> consumer.commitSync());
        }
        attempt(() -> admin.describeShareGroups(List.of("java-share")).all().get());
        attempt(() -> admin.listShareGroupOffsets(Map.of("java-share", new ListShareGroupOffsetsSpec())).all().get());
        attempt(() -> admin.alterShareGroupOffsets("java-share", Map.of(PARTITION, 0L)).all().get());
        attempt(() -> admin.deleteShareGroupOffsets("java-share", Set.of(TOPIC)).all().get());
        attempt(() -> admin.deleteShareGroups(List.of("java-share")).all().get());
    }

    static void administer(Admin admin) {
        var topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        attempt(() -> admin.describeConfigs(List.of(topic), new DescribeConfigsOptions().includeSynonyms(true)).all().get());
        attempt(() -> admin.incrementalAlterConfigs(Map.of(topic,
            List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "90000"), AlterConfigOp.OpType.SET)))).all().get());
        attempt(() -> admin.listConfigResources().all().get());
        attempt(() -> admin.describeTopics(List.of(TOPIC)).allTopicNames().get());
        attempt(() -> admin.listOffsets(Map.of(PARTITION, OffsetSpec.maxTimestamp())).all().get());
        attempt(() -> admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(1))).all().get());
        attempt(() -> admin.describeProducers(List.of(PARTITION)).all().get());
        attempt(() -> admin.listTransactions().all().get());
        attempt(() -> admin.describeTransactions(List.of("java-txn")).all().get());
        attempt(() -> admin.fenceProducers(List.of("java-txn")).all().get());
        attempt(() -> admin.listGroups().all().get());
        attempt(() -> admin.describeConsumerGroups(List.of("java-consumer", "java-classic")).all().get());
        attempt(() -> admin.describeClassicGroups(List.of("java-classic")).all().get());
        attempt(() -> admin.describeStreamsGroups(List.of("java-classic")).all().get());
        attempt(() -> admin.listConsumerGroupOffsets("java-classic").all().get());
        attempt(() -> admin.alterConsumerGroupOffsets("java-classic", Map.of(PARTITION, new OffsetAndMetadata(1))).all().get());
        attempt(() -> admin.deleteConsumerGroupOffsets("java-classic", Set.of(PARTITION)).all().get());
        attempt(() -> admin.removeMembersFromConsumerGroup("java-classic", new RemoveMembersFromConsumerGroupOptions(
            List.of(new MemberToRemove("nobody")))).all().get());
        attempt(() -> admin.deleteConsumerGroups(List.of("java-classic")).all().get());
        var acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
            new AccessControlEntry("User:someone", "*", AclOperation.READ, AclPermissionType.ALLOW));
        attempt(() -> admin.createAcls(List.of(acl)).all().get());
        attempt(() -> admin.describeAcls(AclBindingFilter.ANY).values().get());
        attempt(() -> admin.deleteAcls(List.of(acl.toFilter())).all().get());
        attempt(() -> admin.createDelegationToken().delegationToken().get());
        attempt(() -> admin.describeDelegationToken().delegationTokens().get());
        attempt(() -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp().get());
        attempt(() -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp().get());
    }

    static void cluster(Admin admin) {
        attempt(() -> admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get());
        attempt(() -> admin.describeLogDirs(List.of(1)).allDescriptions().get());
        attempt(() -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(TOPIC, 0, 1), "/nowhere")).all().get());
        attempt(() -> admin.describeFeatures().featureMetadata().get());
        attempt(() -> admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions().validateOnly(true)).all().get());
        attempt(() -> admin.describeMetadataQuorum().quorumInfo().get());
        attempt(() -> admin.addRaftVoter(7, Uuid.randomUuid(), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all().get());
        attempt(() -> admin.removeRaftVoter(7, Uuid.randomUuid()).all().get());
        attempt(() -> admin.unregisterBroker(77).all().get());
        attempt(() -> admin.electLeaders(ElectionType.PREFERRED, Set.of(PARTITION)).all().get());
        attempt(() -> admin.alterPartitionReassignments(Map.of(PARTITION, Optional.of(new NewPartitionReassignment(List.of(1))))).all().get());
        attempt(() -> admin.listPartitionReassignments().reassignments().get());
        var someone = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "someone"));
        attempt(() -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(someone,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all().get());
        attempt(() -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        attempt(() -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("someone",
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "password"))).all().get());
        attempt(() -> admin.describeUserScramCredentials().all().get());
        attempt(() -> admin.clientInstanceId(Duration.ofSeconds(5)));
    }
}
