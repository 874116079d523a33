import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer and consumer, with assigned partitions: for each mode creates a topic, produces, reads back,
 * looks offsets up by time, and prints "MODE ok TOPIC" or "MODE failed: why".
 */
public final class RoundTrip {
    private static final int PARTITIONS = 2;
    private static final int RECORDS = 1000;
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String bootstrap;

    private RoundTrip(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) {
        RoundTrip roundTrip = new RoundTrip(arguments[0]);
        for (Map.Entry<String, Map<String, String>> mode : modes().entrySet()) {
            String topic = "java-" + mode.getKey() + "-" + UUID.randomUUID();
            try {
                roundTrip.run(topic, mode.getValue());
                System.out.println(mode.getKey() + " ok " + topic);
            } catch (Exception error) {
                System.out.println(mode.getKey() + " failed: " + error);
            }
        }
    }

    private static Map<String, Map<String, String>> modes() {
        Map<String, Map<String, String>> modes = new LinkedHashMap<>();
        modes.put("defaults", Map.of());
        modes.put("acks-0", Map.of("acks", "0", "enable.idempotence", "false"));
        modes.put("acks-1", Map.of("acks", "1", "enable.idempotence", "false"));
        modes.put("acks-all", Map.of("acks", "all", "enable.idempotence", "false"));
        modes.put("idempotent", Map.of("acks", "all", "enable.idempotence", "true"));
        for (String compression : List.of("gzip", "snappy", "lz4", "zstd")) {
            modes.put(compression, Map.of("compression.type", compression));
        }
        return modes;
    }

    private void run(String topic, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(common())) {
            admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        }
        produce(topic, settings);
        for (int partition = 0; partition < PARTITIONS; partition++) {
            check(topic, partition);
        }
    }

    private void produce(String topic, Map<String, String> settings) throws Exception {
        Properties properties = common();
        properties.putAll(settings);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    byte[] key = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
                    ProducerRecord<byte[], byte[]> record =
                            new ProducerRecord<>(topic, partition, key, value(partition, number));
                    record.headers().add("number", key);
                    sent.add(producer.send(record));
                }
            }
            producer.flush();
            for (Future<RecordMetadata> result : sent) {
                result.get();
            }
        }
    }

    private void check(String topic, int partition) {
        TopicPartition assigned = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(common(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(assigned));
            consumer.seekToBeginning(List.of(assigned));
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            int number = 0;
            List<Long> timestamps = new ArrayList<>();
            while (number < RECORDS && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    checkRecord(record, partition, number);
                    timestamps.add(record.timestamp());
                    number++;
                }
            }
            long end = consumer.endOffsets(List.of(assigned)).get(assigned);
            if (number != RECORDS || end != RECORDS) {
                throw new AssertionError(assigned + ": " + number + " records read, log end offset " + end);
            }
            checkTimes(consumer, assigned, timestamps);
        }
    }

    private static void checkTimes(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition assigned, List<Long> timestamps) {
        for (int number = 0; number < RECORDS; number += 199) {
            long wanted = timestamps.get(number);
            int first = 0;
            while (timestamps.get(first) < wanted) {
                first++;
            }
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(assigned, wanted)).get(assigned);
            if (found == null || found.offset() != first || found.timestamp() != timestamps.get(first)) {
                throw new AssertionError(assigned + " at " + wanted + ": " + found + ", not offset " + first);
            }
        }
        long later = Collections.max(timestamps) + 1;
        if (consumer.offsetsForTimes(Map.of(assigned, later)).get(assigned) != null) {
            throw new AssertionError(assigned + ": an offset past the last timestamp");
        }
    }

    private static void checkRecord(ConsumerRecord<byte[], byte[]> record, int partition, int number) {
        byte[] key = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
        boolean isEqual = record.offset() == number
                && java.util.Arrays.equals(record.key(), key)
                && java.util.Arrays.equals(record.value(), value(partition, number))
                && java.util.Arrays.equals(record.headers().lastHeader("number").value(), key);
        if (!isEqual) {
            throw new AssertionError("record " + number + " is another one: " + record);
        }
    }

    private static byte[] value(int partition, int number) {
        return (partition + "/" + number + "/" + "x".repeat(number % 113)).getBytes(StandardCharsets.UTF_8);
    }

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }
}
