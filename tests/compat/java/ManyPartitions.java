import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;

/**
 * Kafka's own clients with a topic of very many partitions: described in pages, produced to, and consumed in one fetch
 * session whose polls name only what has changed; partitions are added to it and taken out of it, records deleted, and
 * positions validated by leader epochs. Prints one line for each of these; anything unexpected is an exception.
 */
public class ManyPartitions {
    private static final int RECORDS_EACH = 2;
    private static final int FEW = 10;
    private static final long DEADLINE_MS = 60_000;

    private final String topic = "many-partitions";
    private final int partitions;
    private final Map<String, Object> common;
    private KafkaConsumer<Integer, Integer> consumer;

    private ManyPartitions(String bootstrap, int partitions) {
        this.partitions = partitions;
        this.common = Map.of("bootstrap.servers", bootstrap);
    }

    public static void main(String[] arguments) throws Exception {
        new ManyPartitions(arguments[0], Integer.parseInt(arguments[1])).run();
    }

    private void run() throws Exception {
        Map<String, Object> consuming = new HashMap<>(common);
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("max.poll.records", 10_000);
        try (Admin admin = Admin.create(common);
                KafkaProducer<Integer, Integer> producer =
                        new KafkaProducer<>(common, new IntegerSerializer(), new IntegerSerializer());
                KafkaConsumer<Integer, Integer> opened =
                        new KafkaConsumer<>(consuming, new IntegerDeserializer(), new IntegerDeserializer())) {
            consumer = opened;
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
            describe(admin);
            produce(producer, 0, partitions, RECORDS_EACH);
            consumer.assign(range(0, partitions));
            expect("all", partitions * RECORDS_EACH, range(0, partitions));
            System.out.println("consumed " + partitions * RECORDS_EACH);

            for (int round = 0; round < 3; round++) {
                produce(producer, round * FEW, FEW, 1);
                expect("round " + round, FEW, range(round * FEW, FEW));
            }
            System.out.println("trickle ok");

            consumer.assign(range(FEW, partitions - FEW));
            produce(producer, 0, 2 * FEW, 1);
            expect("without the first", FEW, range(FEW, FEW));
            consumer.assign(range(0, partitions));
            consumer.seek(new TopicPartition(topic, 0), RECORDS_EACH);
            System.out.println("reassigned ok");
            validate();
            delete(admin);
        }
    }

    /** Pages of 500: DescribeTopicPartitions and its cursor. */
    private void describe(Admin admin) throws Exception {
        DescribeTopicsOptions pages = new DescribeTopicsOptions().partitionSizeLimitPerResponse(500);
        TopicDescription description = admin.describeTopics(List.of(topic), pages).allTopicNames().get().get(topic);
        int expected = 0;
        for (TopicPartitionInfo info : description.partitions()) {
            if (info.partition() != expected++ || info.leader() == null || info.isr().size() != 1) {
                throw new IllegalStateException("described: " + info);
            }
        }
        System.out.println("described " + description.partitions().size());
    }

    /** A seek with a leader epoch has the consumer ask OffsetForLeaderEpoch before it fetches. */
    private void validate() {
        TopicPartition first = new TopicPartition(topic, 0);
        consumer.seek(first, new OffsetAndMetadata(0, Optional.of(0), ""));
        int again = 0;
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (again == 0 && System.currentTimeMillis() < deadline) {
            again = consumer.poll(Duration.ofMillis(200)).records(first).size();
        }
        System.out.println("validated " + (again > 0));
    }

    private void delete(Admin admin) throws Exception {
        TopicPartition first = new TopicPartition(topic, 0);
        long low = admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1)))
                .lowWatermarks().get(first).get().lowWatermark();
        consumer.seekToBeginning(List.of(first));
        System.out.println("deleted to " + low + ", beginning " + consumer.position(first));
    }

    private void produce(KafkaProducer<Integer, Integer> producer, int from, int count, int each) {
        for (int index = 0; index < each; index++) {
            for (int partition = from; partition < from + count; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, partition));
            }
        }
        producer.flush();
    }

    private void expect(String what, int count, Collection<TopicPartition> from) {
        Set<Integer> seen = new TreeSet<>();
        int records = 0;
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (records < count && System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<Integer, Integer> record : consumer.poll(Duration.ofMillis(200))) {
                if (record.value() != record.partition()) {
                    throw new IllegalStateException(what + ": " + record);
                }
                seen.add(record.partition());
                records++;
            }
        }
        if (records != count || seen.size() != from.size()) {
            throw new IllegalStateException(what + ": " + records + " records of " + seen.size() + " partitions");
        }
    }

    private List<TopicPartition> range(int from, int count) {
        List<TopicPartition> range = new ArrayList<>();
        for (int partition = from; partition < from + count; partition++) {
            range.add(new TopicPartition(topic, partition));
        }
        return range;
    }
}
