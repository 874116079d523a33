import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What Java's producers and consumers do since 0.10.2, with the calls of that version alone. */
final class RecordChecks {
    private static final long FIRST_TIMESTAMP = System.currentTimeMillis() - 3_600_000;

    final String topic;
    final String shared;
    final String group;
    final TopicPartition first;
    private final Checks checks;
    private final Checks.Topics topics;

    RecordChecks(Checks checks, Checks.Topics topics) {
        this.checks = checks;
        this.topics = topics;
        topic = checks.name("topic");
        shared = checks.name("shared");
        group = checks.name("group");
        first = new TopicPartition(topic, 0);
    }

    void addMetadata() {
        checks.add("list-topics", () -> {
            try (KafkaConsumer<String, String> consumer = consumer()) {
                Checks.isTrue(consumer.listTopics().keySet().containsAll(List.of(topic, shared)), "listed");
            }
        });
        checks.add("describe-topics", () -> {
            try (KafkaConsumer<String, String> consumer = consumer()) {
                Checks.equal(consumer.partitionsFor(topic).size(), Checks.PARTITIONS);
                Checks.equal(consumer.partitionsFor(topic).get(0).replicas().length, (int) checks.replication);
            }
        });
    }

    void addProduce(String... codecs) {
        checks.add("produce", () -> roundTrip("produce", "acks", "all"));
        checks.add("produce-acks-0", () -> roundTrip("acks-0", "acks", "0"));
        checks.add("produce-acks-1", () -> roundTrip("acks-1", "acks", "1"));
        for (String codec : codecs) {
            checks.add("produce-" + codec, () -> roundTrip(codec, "acks", "all", "compression.type", codec));
        }
    }

    void addConsume() {
        checks.add("consume-assigned", () -> {
            produce(topic, Checks.valuesOf("seek", Checks.RECORDS), 1, "acks", "all");
            int half = Checks.RECORDS / 2;
            Checks.equal(consume(topic, half, half), Checks.valuesOf("seek", Checks.RECORDS).subList(half, Checks.RECORDS));
        });
        checks.add("list-offsets", () -> {
            try (KafkaConsumer<String, String> consumer = consumer()) {
                Checks.equal(consumer.beginningOffsets(List.of(first)).get(first), 0L);
                Checks.equal(consumer.endOffsets(List.of(first)).get(first), (long) Checks.RECORDS);
            }
        });
        checks.add("offsets-by-time", this::offsetsByTime);
        checks.add("group-share", this::groupShare);
        checks.add("group-resume", this::groupResume);
    }

    /** What a consumer is told of the group that was in `group-resume`; 0.10.2 has no other way to ask. */
    void addCommitted() {
        checks.add("list-group-offsets", () -> {
            try (KafkaConsumer<String, String> consumer = consumer("group.id", group)) {
                Checks.equal(consumer.committed(first), new OffsetAndMetadata(Checks.RECORDS));
            }
        });
    }

    void roundTrip(String of, String... settings) throws Exception {
        topics.create(checks.name(of));
        List<String> values = Checks.valuesOf(of, Checks.RECORDS);
        produce(checks.name(of), values, 1, settings);
        Checks.equal(consume(checks.name(of), Checks.RECORDS, 0), values);
    }

    private void offsetsByTime() throws Exception {
        TopicPartition timed = new TopicPartition(checks.name("timed"), 0);
        topics.create(timed.topic());
        try (KafkaProducer<String, String> producer = producer("acks", "all")) {
            for (int number = 0; number < Checks.RECORDS; number++) {
                producer.send(new ProducerRecord<>(timed.topic(), 0, FIRST_TIMESTAMP + 10L * number, null, "timed " + number)).get();
            }
        }
        try (KafkaConsumer<String, String> consumer = consumer()) {
            for (long number : new long[] {0, 7, Checks.RECORDS - 1}) {
                long at = FIRST_TIMESTAMP + 10 * number;
                Checks.equal(consumer.offsetsForTimes(Collections.singletonMap(timed, at - 3)).get(timed).offset(), number);
                Checks.equal(consumer.offsetsForTimes(Collections.singletonMap(timed, at)).get(timed).timestamp(), at);
            }
            long late = FIRST_TIMESTAMP + 10L * Checks.RECORDS;
            Checks.equal(consumer.offsetsForTimes(Collections.singletonMap(timed, late)).get(timed), null);
        }
    }

    private KafkaProducer<String, String> producer(String... settings) {
        return new KafkaProducer<>(checks.properties(settings), new StringSerializer(), new StringSerializer());
    }

    void produce(String name, List<String> values, int partitions, String... settings) throws Exception {
        try (KafkaProducer<String, String> producer = producer(settings)) {
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

    List<String> consume(String name, int count, long offset) {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            TopicPartition partition = new TopicPartition(name, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            return valuesOf(poll(consumer, count));
        }
    }

    /** At least so many records, or fewer where they do not come in time. */
    private static List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.nanoTime() + Checks.PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < deadline) {
            consumer.poll(200L).forEach(records::add);
        }
        return records;
    }

    private static List<String> valuesOf(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).collect(Collectors.toList());
    }

    Member join(String groupId) {
        return new Member(consumer("group.id", groupId), shared);
    }

    /** A consumer of a group on a thread of its own. */
    static final class Member implements AutoCloseable {
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        volatile int partitions;
        private volatile boolean over;
        private final Thread thread;

        private Member(KafkaConsumer<String, String> consumer, String topic) {
            thread = new Thread(() -> consume(consumer, topic));
            thread.setDaemon(true);
            thread.start();
        }

        private void consume(KafkaConsumer<String, String> consumer, String topic) {
            try (consumer) {
                consumer.subscribe(List.of(topic));
                while (!over) {
                    for (ConsumerRecord<String, String> record : consumer.poll(100L)) {
                        seen.add(record.value());
                    }
                    partitions = consumer.assignment().size();
                }
            }
        }

        @Override
        public void close() throws InterruptedException {
            over = true;
            thread.join(Checks.PATIENCE.toMillis());
        }
    }

    private void groupShare() throws Exception {
        String id = checks.name("share");
        List<String> values = Checks.valuesOf(id, 3 * Checks.RECORDS);
        produce(shared, values.subList(0, Checks.RECORDS), Checks.PARTITIONS);
        try (Member one = join(id)) {
            Set<String> seen = new HashSet<>();
            Checks.until(() -> one.partitions == Checks.PARTITIONS && one.seen.containsAll(values.subList(0, Checks.RECORDS)), "one has all");
            Member two = join(id);
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

    private void groupResume() {
        List<String> values = Checks.valuesOf("seek", Checks.RECORDS);
        int half = Checks.RECORDS / 2;
        Checks.equal(readSome(half), values.subList(0, half));
        Checks.equal(readSome(half), values.subList(half, Checks.RECORDS));
    }

    /** Of `topic`, whose records are all in its first partition; what it has read beyond `count` is not committed. */
    private List<String> readSome(int count) {
        try (KafkaConsumer<String, String> consumer = consumer("group.id", group, "enable.auto.commit", "false")) {
            consumer.subscribe(List.of(topic));
            List<ConsumerRecord<String, String>> records = poll(consumer, count).subList(0, count);
            consumer.commitSync(Collections.singletonMap(first, new OffsetAndMetadata(records.get(count - 1).offset() + 1)));
            return valuesOf(records);
        }
    }
}
