import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer in a rack reads partition 0 of a topic from its beginning; prints "read COUNT in order", and
 * "preferred BROKER" as its own metric has it (-1: the leader).
 */
public final class NearestReplica {
    private static final long PATIENCE_MS = 30_000;

    private NearestReplica() {}

    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int wanted = Integer.parseInt(arguments[3]);
        Properties properties = new Properties();
        properties.putAll(Map.of(
            "bootstrap.servers", arguments[0],
            "client.rack", arguments[2],
            "max.poll.records", "50",
            "max.partition.fetch.bytes", "20000"));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long count = 0;
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            while (count < wanted && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (record.offset() != count++) {
                        throw new IllegalStateException("offset " + record.offset() + " after " + count + " records");
                    }
                }
            }
            System.out.println("read " + count + " in order");
            System.out.println("preferred " + preferred(consumer.metrics()));
        }
    }

    private static long preferred(Map<MetricName, ? extends Metric> metrics) {
        for (Map.Entry<MetricName, ? extends Metric> metric : metrics.entrySet()) {
            if (metric.getKey().name().equals("preferred-read-replica")) {
                return ((Number) metric.getValue().metricValue()).longValue();
            }
        }
        return -2;
    }
}
