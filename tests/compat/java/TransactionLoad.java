import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions as fast as they are committed, by Kafka's own producer; see bench/transactions.
 *
 * <p>rate BOOTSTRAP TOPIC PARTITIONS PRODUCERS RECORDS SECONDS: each producer commits one transaction after the other,
 * with RECORDS records spread over PARTITIONS partitions. A time is from the beginning of a transaction to its commit.
 *
 * <p>visible BOOTSTRAP TOPIC SECONDS: one producer commits records of their own, a consumer of committed records reads
 * them. A time is from the call of commitTransaction to the poll that returns the record.
 *
 * <p>Prints "transactions N seconds S p50 MS p99 MS".
 */
public final class TransactionLoad {
    private static final int RECORD_BYTES = 100;
    private static final long WARM_UP_NS = 1_000_000_000L;
    private static final long PAUSE_MS = 5;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("rate")) {
            rate(
                    arguments[1],
                    arguments[2],
                    Integer.parseInt(arguments[3]),
                    Integer.parseInt(arguments[4]),
                    Integer.parseInt(arguments[5]),
                    Double.parseDouble(arguments[6]));
        } else {
            visible(arguments[1], arguments[2], Double.parseDouble(arguments[3]));
        }
    }

    private static void rate(String bootstrap, String topic, int partitions, int producers, int records, double seconds)
            throws Exception {
        CountDownLatch ready = new CountDownLatch(producers);
        CountDownLatch begin = new CountDownLatch(1);
        AtomicReference<Exception> failed = new AtomicReference<>();
        List<List<Long>> times = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            List<Long> own = new ArrayList<>();
            times.add(own);
            String id = topic + "-" + number;
            Thread thread = new Thread(() -> {
                try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, id)) {
                    producer.initTransactions();
                    ready.countDown();
                    begin.await();
                    long from = System.nanoTime() + WARM_UP_NS;
                    long until = from + (long) (seconds * 1e9);
                    for (long now = System.nanoTime(); now < until; ) {
                        producer.beginTransaction();
                        for (int each = 0; each < records; each++) {
                            producer.send(new ProducerRecord<>(topic, each % partitions, null, new byte[RECORD_BYTES]));
                        }
                        // commitTransaction waits for the batches too, but Kafka's client 4.3.0 sends EndTxn before a batch
                        // if its sender looks for open batches just before the record is added. Transactions of version
                        // 2 have no partition then: INVALID_TXN_STATE, from Apache Kafka as from Barnabas.
                        producer.flush();
                        producer.commitTransaction();
                        long then = System.nanoTime();
                        if (now >= from) {
                            own.add(then - now);
                        }
                        now = then;
                    }
                } catch (Exception error) {
                    failed.set(error);
                    ready.countDown();
                }
            });
            threads.add(thread);
            thread.start();
        }
        ready.await();
        begin.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        report(times.stream().flatMap(List::stream).mapToLong(Long::longValue).toArray(), seconds);
    }

    private static void visible(String bootstrap, String topic, double seconds) throws Exception {
        Map<Long, Long> committed = new ConcurrentHashMap<>();
        List<Long> times = new ArrayList<>();
        AtomicReference<Exception> failed = new AtomicReference<>();
        CountDownLatch reads = new CountDownLatch(1);
        boolean[] ended = {false};
        Thread reader = new Thread(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
                TopicPartition partition = new TopicPartition(topic, 0);
                consumer.assign(List.of(partition));
                consumer.seekToEnd(List.of(partition));
                consumer.position(partition);
                reads.countDown();
                while (!ended[0] || !committed.isEmpty()) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        long now = System.nanoTime();
                        Long called = committed.remove(ByteBuffer.wrap(record.value()).getLong());
                        if (called != null && called > 0) {
                            synchronized (times) {
                                times.add(now - called);
                            }
                        }
                    }
                }
            } catch (Exception error) {
                failed.set(error);
                reads.countDown();
            }
        });
        reader.start();
        reads.await();
        try (KafkaProducer<byte[], byte[]> producer = producer(bootstrap, topic + "-visible")) {
            producer.initTransactions();
            long from = System.nanoTime() + WARM_UP_NS;
            long until = from + (long) (seconds * 1e9);
            long number = 0;
            while (System.nanoTime() < until && failed.get() == null) {
                byte[] value = ByteBuffer.allocate(RECORD_BYTES).putLong(number).array();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                long now = System.nanoTime();
                committed.put(number++, now < from ? 0 : now);
                producer.commitTransaction();
                Thread.sleep(PAUSE_MS);
            }
        } finally {
            ended[0] = true;
        }
        reader.join();
        if (failed.get() != null) {
            throw failed.get();
        }
        report(times.stream().mapToLong(Long::longValue).toArray(), seconds);
    }

    private static void report(long[] times, double seconds) {
        Arrays.sort(times);
        System.out.printf(
                "transactions %d seconds %.3f p50 %.3f p99 %.3f%n",
                times.length, seconds, quantile(times, 0.5), quantile(times, 0.99));
    }

    private static double quantile(long[] sorted, double part) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, sorted.length * part)] / 1e6;
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", "read_committed");
        properties.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
