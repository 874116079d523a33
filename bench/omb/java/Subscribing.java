import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The consumers of a workload, as OpenMessaging Benchmark's: each a client and thread of its own, a group for each
 * subscription, settings as in its driver-kafka/kafka-exactly-once.yaml. Offsets are committed after each poll, without
 * waiting, if no earlier commit is under way: OpenMessaging Benchmark commits always, and more commits pile up in a fast
 * drain than can be sent.
 */
final class Subscribing implements AutoCloseable {
    private final Workload workload;
    private final Statistics statistics;
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean paused;
    private volatile boolean stopped;

    Subscribing(Workload workload, Statistics statistics) {
        this.workload = workload;
        this.statistics = statistics;
        for (int topic = 0; topic < workload.topics(); topic++) {
            for (int subscription = 0; subscription < workload.subscriptionsPerTopic(); subscription++) {
                for (int number = 0; number < workload.consumersPerSubscription(); number++) {
                    String name = workload.topic(topic);
                    String group = name + "-subscription-" + subscription;
                    Thread thread = new Thread(() -> receive(name, group), "subscribing-" + threads.size());
                    thread.setDaemon(true);
                    thread.start();
                    threads.add(thread);
                }
            }
        }
    }

    void pause(boolean pause) {
        paused = pause;
    }

    @Override
    public void close() throws InterruptedException {
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void receive(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.subscribe(List.of(topic));
            Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();
            boolean[] isCommitting = {false};
            while (!stopped) {
                if (paused) {
                    Thread.sleep(5);
                    continue;
                }
                take(consumer.poll(Duration.ofMillis(100)), uncommitted);
                if (!uncommitted.isEmpty() && !isCommitting[0]) {
                    isCommitting[0] = true;
                    consumer.commitAsync(Map.copyOf(uncommitted), (offsets, error) -> {
                        isCommitting[0] = false;
                        if (error != null) {
                            statistics.failed(error);
                        }
                    });
                    uncommitted.clear();
                }
            }
        } catch (Exception error) {
            statistics.failed(error);
        }
    }

    private void take(ConsumerRecords<byte[], byte[]> records, Map<TopicPartition, OffsetAndMetadata> uncommitted) {
        for (TopicPartition partition : records.partitions()) {
            long next = 0;
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                statistics.endToEnd.record(System.nanoTime() - ByteBuffer.wrap(record.value()).getLong());
                statistics.received.increment();
                next = record.offset() + 1;
            }
            uncommitted.put(partition, new OffsetAndMetadata(next));
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group) {
        String deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        return new KafkaConsumer<>(Map.of(
                "bootstrap.servers", workload.bootstrap(),
                "key.deserializer", deserializer,
                "value.deserializer", deserializer,
                "group.id", group,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "max.partition.fetch.bytes", 10_485_760));
    }
}
