import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of Java's producers from 2.1 on: what was committed is read, what was aborted is not, of records and offsets. */
final class TransactionChecks {
    /** How this version's producer sends offsets of a group within its transaction. */
    interface OffsetSender {
        void send(KafkaProducer<String, String> producer, Map<TopicPartition, OffsetAndMetadata> offsets, String group);
    }

    private final Checks checks;
    private final Checks.Topics topics;
    private final OffsetSender offsetSender;

    TransactionChecks(Checks checks, Checks.Topics topics, OffsetSender offsetSender) {
        this.checks = checks;
        this.topics = topics;
        this.offsetSender = offsetSender;
    }

    void addAll() {
        checks.add("transactions", this::records);
        checks.add("transactional-offsets", this::offsets);
    }

    private void records() throws Exception {
        String topic = checks.name("transactions");
        topics.create(topic);
        List<String> one = Checks.valuesOf("one", Checks.RECORDS);
        List<String> aborted = Checks.valuesOf("aborted", Checks.RECORDS);
        List<String> two = Checks.valuesOf("two", Checks.RECORDS);
        try (KafkaProducer<String, String> producer = producer("records")) {
            send(producer, topic, one);
            producer.commitTransaction();
            send(producer, topic, aborted);
            producer.abortTransaction();
            send(producer, topic, two);
            producer.commitTransaction();
        }
        List<String> committed = new ArrayList<>(one);
        committed.addAll(two);
        Checks.equal(consume(topic, "read_committed", committed.size()), committed);
        List<String> all = new ArrayList<>(one);
        all.addAll(aborted);
        all.addAll(two);
        Checks.equal(consume(topic, "read_uncommitted", all.size()), all);
    }

    private void offsets() throws Exception {
        TopicPartition partition = new TopicPartition(checks.name("transactional-offsets"), 0);
        topics.create(partition.topic());
        String group = checks.name("transactional-group");
        try (KafkaProducer<String, String> producer = producer("offsets")) {
            send(producer, partition.topic(), Checks.valuesOf("offsets", Checks.RECORDS));
            producer.commitTransaction();
            producer.beginTransaction();
            offsetSender.send(producer, Map.of(partition, new OffsetAndMetadata(5)), group);
            producer.abortTransaction();
            Checks.equal(position(partition, group), 0L);
            producer.beginTransaction();
            offsetSender.send(producer, Map.of(partition, new OffsetAndMetadata(7)), group);
            producer.commitTransaction();
        }
        Checks.until(() -> position(partition, group) == 7L, "the group is where its transaction has brought it");
    }

    private KafkaProducer<String, String> producer(String suffix) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
                checks.properties("transactional.id", checks.name(suffix)), new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    /** Begin a transaction and write the values; it stays open. */
    private static void send(KafkaProducer<String, String> producer, String topic, List<String> values) {
        producer.beginTransaction();
        values.forEach(value -> producer.send(new ProducerRecord<>(topic, 0, null, value)));
        producer.flush();
    }

    private KafkaConsumer<String, String> consumer(TopicPartition partition, String... settings) {
        KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(checks.properties(settings), new StringDeserializer(), new StringDeserializer());
        consumer.assign(List.of(partition));
        return consumer;
    }

    private List<String> consume(String topic, String isolation, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(partition, "isolation.level", isolation)) {
            consumer.seek(partition, 0);
            long deadline = System.nanoTime() + Checks.PATIENCE.toNanos();
            while (values.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
        }
        return values;
    }

    /** Where a member of the group would begin: at its committed offset, or at the beginning if there is none. */
    private long position(TopicPartition partition, String group) {
        try (KafkaConsumer<String, String> consumer =
                consumer(partition, "group.id", group, "enable.auto.commit", "false", "auto.offset.reset", "earliest")) {
            return consumer.position(partition);
        }
    }
}
