import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The producers of a workload, as OpenMessaging Benchmark's: each a client of its own, served in turn by as many threads
 * as there are processors, at one rate for all of them. The settings are those of its
 * driver-kafka/kafka-exactly-once.yaml.
 *
 * <p>A record is random bytes, the first eight of which say when it was sent (System.nanoTime, of this process).
 */
final class Publishing implements AutoCloseable {
    private record Target(KafkaProducer<byte[], byte[]> producer, String topic) {}

    private final Workload workload;
    private final Statistics statistics;
    private final List<Target> targets = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicLong sent = new AtomicLong();
    private volatile long nanosecondsBetween;
    private volatile long began;
    private volatile boolean stopped;

    Publishing(Workload workload, Statistics statistics) {
        this.workload = workload;
        this.statistics = statistics;
        for (int number = 0; number < workload.producersPerTopic(); number++) {
            for (int topic = 0; topic < workload.topics(); topic++) {
                targets.add(new Target(producer(), workload.topic(topic)));
            }
        }
    }

    /** Send one record by each producer. */
    void probe() {
        byte[] payload = payload();
        targets.forEach(target -> send(target, payload, System.nanoTime()));
    }

    /** Send so many records a second, in all, until closed; 0: as many as the clients take. */
    void start(long rate) {
        nanosecondsBetween = rate == 0 ? 0 : Math.round(1e9 / rate);
        began = System.nanoTime();
        int count = Math.min(Runtime.getRuntime().availableProcessors(), targets.size());
        for (int number = 0; number < count; number++) {
            List<Target> mine = new ArrayList<>();
            for (int target = number; target < targets.size(); target += count) {
                mine.add(targets.get(target));
            }
            Thread thread = new Thread(() -> sendInTurn(mine), "publishing-" + number);
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
    }

    /** Stop sending, and return when every record is answered. */
    void finish() throws InterruptedException {
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        targets.forEach(target -> target.producer().flush());
    }

    @Override
    public void close() throws InterruptedException {
        finish();
        targets.forEach(target -> target.producer().close());
    }

    private void sendInTurn(List<Target> mine) {
        byte[] payload = payload();
        while (!stopped) {
            for (Target target : mine) {
                long due = nanosecondsBetween == 0 ? System.nanoTime() : waitForTurn();
                if (stopped) {
                    return;
                }
                try {
                    send(target, payload, due);
                } catch (RuntimeException error) {
                    statistics.failed(error);
                }
            }
        }
    }

    private long waitForTurn() {
        long due = began + sent.getAndIncrement() * nanosecondsBetween;
        for (long left = due - System.nanoTime(); left > 0 && !stopped; left = due - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        return due;
    }

    private void send(Target target, byte[] payload, long due) {
        long now = System.nanoTime();
        // The client copies it before `send` returns.
        ByteBuffer.wrap(payload).putLong(now);
        statistics.delay.record(now - due);
        target.producer().send(new ProducerRecord<>(target.topic(), payload), (metadata, error) -> {
            if (error == null) {
                statistics.publish.record(System.nanoTime() - now);
                statistics.published.increment();
            } else {
                statistics.failed(error);
            }
        });
    }

    private byte[] payload() {
        byte[] payload = new byte[workload.recordBytes()];
        new Random(17).nextBytes(payload);
        return payload;
    }

    private KafkaProducer<byte[], byte[]> producer() {
        String serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
        return new KafkaProducer<>(Map.of(
                "bootstrap.servers", workload.bootstrap(),
                "key.serializer", serializer,
                "value.serializer", serializer,
                "enable.idempotence", true,
                "max.in.flight.requests.per.connection", workload.inFlight(),
                "acks", "all",
                "linger.ms", 1,
                "batch.size", 1_048_576));
    }
}
