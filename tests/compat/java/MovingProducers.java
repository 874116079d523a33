import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/**
 * Idempotent producers of Kafka's own client that send to every partition as fast as they are acknowledged, until
 * standard input ends, and write down how each delivery was reported: see tests/faults/moving_leaders/deliveries.py.
 *
 * Arguments: bootstrap servers, topic, partitions, producers, unanswered records per partition, directory.
 */
public class MovingProducers {
    private static final AtomicLong ACKNOWLEDGED = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static volatile boolean stopping;

    public static void main(String[] arguments) throws Exception {
        System.out.println("version " + AppInfoParser.getVersion());
        int producers = Integer.parseInt(arguments[3]);
        List<OneProducer> all = new ArrayList<>();
        for (int number = 0; number < producers; number++) {
            all.add(new OneProducer(number, arguments));
        }
        all.forEach(Thread::start);
        Thread listener = new Thread(MovingProducers::waitForEndOfInput);
        listener.setDaemon(true);
        listener.start();
        for (OneProducer each : all) {
            while (each.isAlive()) {
                each.join(500);
                System.out.println(ACKNOWLEDGED.get() + " " + FAILED.get());
            }
        }
        System.exit(all.stream().allMatch(each -> each.isDone) ? 0 : 1);
    }

    private static void waitForEndOfInput() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException gone) {
            System.err.println(gone);
        }
        stopping = true;
    }

    private static final class OneProducer extends Thread {
        private static final long NAP_NS = 200_000;
        private static final int VALUE_BYTES = 100;

        private final int number;
        private final String topic;
        private final int[] sent;
        private final AtomicIntegerArray unanswered;
        private final int unansweredMax;
        private final BufferedWriter report;
        private final KafkaProducer<byte[], byte[]> client;
        private volatile boolean isDone;

        OneProducer(int number, String[] arguments) throws IOException {
            this.number = number;
            this.topic = arguments[1];
            int partitions = Integer.parseInt(arguments[2]);
            this.sent = new int[partitions];
            this.unanswered = new AtomicIntegerArray(partitions);
            this.unansweredMax = Integer.parseInt(arguments[4]);
            this.report = Files.newBufferedWriter(Path.of(arguments[5], "producer-" + number + ".txt"));
            this.client = new KafkaProducer<>(
                    Map.of(
                            "bootstrap.servers", arguments[0],
                            "client.id", "producer-" + number,
                            "acks", "all",
                            "enable.idempotence", true,
                            "linger.ms", 1,
                            "batch.size", 1000),
                    new ByteArraySerializer(),
                    new ByteArraySerializer());
        }

        @Override
        public void run() {
            while (!stopping) {
                if (!sendToEach()) {
                    LockSupport.parkNanos(NAP_NS);
                }
            }
            client.flush();
            client.close();
            try {
                for (int partition = 0; partition < sent.length; partition++) {
                    report.write("sent " + partition + " " + sent[partition] + "\n");
                }
                report.close();
                isDone = true;
            } catch (IOException lost) {
                System.err.println(lost);
            }
        }

        /** Whether any partition took one. */
        private boolean sendToEach() {
            boolean any = false;
            for (int partition = 0; partition < sent.length; partition++) {
                if (unanswered.get(partition) < unansweredMax) {
                    send(partition);
                    any = true;
                }
            }
            return any;
        }

        private void send(int partition) {
            int sequence = sent[partition]++;
            unanswered.incrementAndGet(partition);
            byte[] name = ("p" + number + "-" + partition + "-" + sequence).getBytes(StandardCharsets.US_ASCII);
            byte[] value = Arrays.copyOf(name, VALUE_BYTES);
            Arrays.fill(value, name.length, VALUE_BYTES, (byte) ' ');
            client.send(
                    new ProducerRecord<>(topic, partition, null, value),
                    (metadata, error) -> answered(partition, sequence, metadata, error));
        }

        private void answered(int partition, int sequence, RecordMetadata metadata, Exception error) {
            unanswered.decrementAndGet(partition);
            String line = System.currentTimeMillis() + " " + partition + " " + sequence + " ";
            if (error == null) {
                ACKNOWLEDGED.incrementAndGet();
                line += metadata.hasOffset() ? metadata.offset() : -1;
            } else {
                FAILED.incrementAndGet();
                line += "- " + error.getClass().getSimpleName();
            }
            try {
                synchronized (report) {
                    report.write(line + "\n");
                }
            } catch (IOException lost) {
                System.err.println(lost);
            }
        }
    }
}
