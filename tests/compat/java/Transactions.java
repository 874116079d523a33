import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's transactional producer.
 *
 * <p>loop BOOTSTRAP TOPIC PARTITIONS ID COUNT PAUSE_MS [FILE]: one transaction after the other, each with a record to
 * every partition and an offset for the group ID; every third is aborted. One that fails is aborted and done again. It
 * ends after COUNT of them, or once FILE exists. Prints "ended COUNT, done again N".
 *
 * <p>fence BOOTSTRAP TOPIC ID: a second producer begins while a transaction of the first is open. Prints what the
 * first one's commit comes to.
 *
 * <p>timeout BOOTSTRAP TOPIC ID TIMEOUT_MS WHAT: waits until a transaction has timed out, then writes to it and aborts
 * it (WHAT is write), aborts it (abort), or commits it (commit); and commits a transaction after it. Prints what each
 * step comes to, and how much the epoch has risen since the transaction that timed out.
 *
 * <p>hang BOOTSTRAP TOPIC ID TIMEOUT_MS: leaves a transaction open, as a producer does that is killed.
 */
public final class Transactions {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "loop":
                loop(arguments);
                break;
            case "fence":
                fence(arguments);
                break;
            case "timeout":
                timeout(arguments);
                break;
            case "hang":
                hang(arguments);
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void loop(String[] arguments) throws Exception {
        String topic = arguments[2];
        String id = arguments[4];
        int partitions = Integer.parseInt(arguments[3]);
        int count = Integer.parseInt(arguments[5]);
        Path end = arguments.length > 7 ? Path.of(arguments[7]) : null;
        int again = 0;
        int number = 0;
        try (KafkaProducer<byte[], byte[]> producer = producer(arguments[1], id, 60_000)) {
            producer.initTransactions();
            while (number < count && (end == null || !Files.exists(end))) {
                boolean commits = number % 3 != 1;
                try {
                    producer.beginTransaction();
                    for (int partition = 0; partition < partitions; partition++) {
                        String value = id + " " + number + (commits ? " commit" : " abort");
                        producer.send(record(topic, partition, value));
                    }
                    producer.sendOffsetsToTransaction(
                            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(number + 1)),
                            new ConsumerGroupMetadata(id, -1, "", Optional.empty()));
                    if (commits) {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                    number++;
                } catch (ProducerFencedException error) {
                    throw error;
                } catch (KafkaException error) {
                    System.out.println("again: " + error + " " + error.getCause());
                    producer.abortTransaction();
                    again++;
                }
                Thread.sleep(Integer.parseInt(arguments[6]));
            }
        }
        System.out.println("ended " + number + ", done again " + again);
    }

    private static void fence(String[] arguments) throws Exception {
        try (KafkaProducer<byte[], byte[]> first = producer(arguments[1], arguments[3], 60_000);
                KafkaProducer<byte[], byte[]> second = producer(arguments[1], arguments[3], 60_000)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(record(arguments[2], 0, "zombie")).get();
            second.initTransactions();
            second.beginTransaction();
            second.send(record(arguments[2], 0, "successor")).get();
            try {
                first.commitTransaction();
                System.out.println("first committed");
            } catch (KafkaException error) {
                System.out.println("first: " + error.getClass().getSimpleName());
            }
            second.commitTransaction();
            System.out.println("second committed");
        }
    }

    private static void timeout(String[] arguments) throws Exception {
        String topic = arguments[2];
        String id = arguments[3];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[1]));
                KafkaProducer<byte[], byte[]> producer =
                        producer(arguments[1], id, Integer.parseInt(arguments[4]))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record(topic, 0, "late")).get();
            int epoch = described(admin, id).producerEpoch();
            while (described(admin, id).state() != TransactionState.COMPLETE_ABORT) {
                Thread.sleep(100);
            }
            if (arguments[5].equals("write")) {
                said("written", () -> producer.send(record(topic, 0, "too late")).get());
            }
            if (arguments[5].equals("commit")) {
                said("committed", producer::commitTransaction);
            } else {
                said("aborted", producer::abortTransaction);
            }
            said("next committed", () -> {
                producer.beginTransaction();
                producer.send(record(topic, 0, "next")).get();
                producer.commitTransaction();
            });
            System.out.println("epochs " + (described(admin, id).producerEpoch() - epoch));
        }
    }

    private static TransactionDescription described(Admin admin, String id) throws Exception {
        return admin.describeTransactions(List.of(id)).description(id).get();
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void said(String step, Step todo) {
        try {
            todo.run();
            System.out.println(step);
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println("not " + step + ": " + cause.getClass().getSimpleName());
        }
    }

    private static void hang(String[] arguments) throws Exception {
        KafkaProducer<byte[], byte[]> producer =
                producer(arguments[1], arguments[3], Integer.parseInt(arguments[4]));
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(record(arguments[2], 0, "hanging")).get();
        producer.close(Duration.ZERO);
        System.out.println("left open");
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8));
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id, int timeoutMs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("transaction.timeout.ms", Integer.toString(timeoutMs));
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("linger.ms", "0");
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
