import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writers and copiers with Kafka's own transactional producer: see tests/faults/transactions/java_clients.py.
 *
 * <p>Arguments: bootstrap servers, topic, partitions, transaction timeout in ms, seconds of a producer's life, seed, names
 * of clients. A line "stop NAME" on standard input ends a client. Lines on standard output are an event, the client's
 * name and a value: invoke, ok and fail of a transaction; copied; zombie-ok and zombie-fail of a producer whose
 * successor has begun; ended.
 */
public final class TransactionalClients {
    private static final double ABORTED_SHARE = 0.15;
    private static final long PATIENCE_NS = 60_000_000_000L;
    private static final int CALL_MS = 5_000;

    public static void main(String[] arguments) throws Exception {
        Map<String, Client> clients = new HashMap<>();
        for (int index = 6; index < arguments.length; index++) {
            String name = arguments[index];
            long seed = Long.parseLong(arguments[5]) * 1000 + index;
            clients.put(name, name.startsWith("copier") ? new Copier(name, arguments, seed) : new Writer(name, arguments, seed));
        }
        clients.values().forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            clients.get(line.substring("stop ".length())).stopping = true;
        }
        clients.values().forEach(each -> each.stopping = true);
    }

    private static final class GivenUpException extends Exception {
        GivenUpException(Exception cause) {
            super(cause);
        }
    }

    private static final class AbortedException extends Exception {}

    private interface Call {
        void run();
    }

    private abstract static class Client extends Thread {
        final String name;
        final String bootstrap;
        final String topic;
        final int partitions;
        final Random random;
        volatile boolean stopping;
        int life;
        private final String timeoutMs;
        private final double lifeSeconds;
        private KafkaProducer<byte[], byte[]> leftOpen;
        private String leftValue;

        Client(String name, String[] arguments, long seed) {
            super(name);
            this.name = name;
            this.bootstrap = arguments[0];
            this.topic = arguments[1];
            this.partitions = Integer.parseInt(arguments[2]);
            this.timeoutMs = arguments[3];
            this.lifeSeconds = Double.parseDouble(arguments[4]);
            this.random = new Random(seed);
        }

        /** Works until then, or until it is to stop. Returns the transaction that is left open, null if none is. */
        abstract String live(KafkaProducer<byte[], byte[]> producer, long untilNs) throws GivenUpException;

        /** The transaction that was left open can no longer be committed. */
        abstract void fenced(String value);

        @Override
        public void run() {
            while (!stopping) {
                KafkaProducer<byte[], byte[]> producer = succeed();
                if (producer == null) {
                    continue;
                }
                life++;
                long untilNs = System.nanoTime() + (long) (lifeSeconds * (0.5 + random.nextDouble()) * 1e9);
                String open = null;
                try {
                    open = live(producer, untilNs);
                } catch (GivenUpException reason) {
                    System.err.println(name + " gives up: " + reason.getCause());
                }
                if (open == null) {
                    producer.close(Duration.ZERO);
                } else {
                    leftOpen = producer;
                    leftValue = open;
                }
            }
            if (leftOpen != null) {
                KafkaProducer<byte[], byte[]> last = succeed();
                if (last != null) {
                    last.close(Duration.ZERO);
                }
            }
            say("ended", "");
        }

        /** Returns the next producer, and has the one before it try to commit; null if it can't begin yet. */
        private KafkaProducer<byte[], byte[]> succeed() {
            KafkaProducer<byte[], byte[]> producer = producer();
            try {
                persist(producer::initTransactions);
            } catch (GivenUpException | AbortedException reason) {
                System.err.println(name + " can't begin: " + reason.getCause());
                producer.close(Duration.ZERO);
                return null;
            }
            if (leftOpen != null) {
                fenced(leftValue);
                try {
                    leftOpen.commitTransaction();
                    say("zombie-ok", leftValue);
                } catch (ProducerFencedException | InvalidProducerEpochException refused) {
                    say("zombie-fail", leftValue);
                } catch (KafkaException unknown) {
                    System.err.println(name + ": the one before can't commit: " + unknown);
                }
                leftOpen.close(Duration.ZERO);
                leftOpen = null;
            }
            return producer;
        }

        void commit(KafkaProducer<byte[], byte[]> producer) throws AbortedException, GivenUpException {
            try {
                persist(producer::commitTransaction);
            } catch (AbortedException required) {
                abort(producer);
                throw required;
            }
        }

        void abort(KafkaProducer<byte[], byte[]> producer) throws GivenUpException {
            try {
                persist(producer::abortTransaction);
            } catch (AbortedException reason) {
                throw new GivenUpException(reason);
            }
        }

        /** Repeats a call that has timed out. */
        void persist(Call call) throws AbortedException, GivenUpException {
            long untilNs = System.nanoTime() + PATIENCE_NS;
            while (true) {
                try {
                    call.run();
                    return;
                } catch (TimeoutException late) {
                    if (System.nanoTime() > untilNs) {
                        throw new GivenUpException(late);
                    }
                } catch (ProducerFencedException | InterruptException fatal) {
                    throw new GivenUpException(fatal);
                } catch (KafkaException abortable) {
                    System.err.println(name + " aborts: " + abortable + ", " + abortable.getCause());
                    throw new AbortedException();
                }
            }
        }

        void say(String event, String value) {
            synchronized (System.out) {
                System.out.println(event + " " + name + " " + value);
                System.out.flush();
            }
        }

        private KafkaProducer<byte[], byte[]> producer() {
            Properties properties = properties();
            properties.put("transactional.id", topic + "-" + name);
            properties.put("transaction.timeout.ms", timeoutMs);
            properties.put("delivery.timeout.ms", timeoutMs);
            properties.put("max.block.ms", Integer.toString(CALL_MS));
            properties.put("linger.ms", "2");
            return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        }

        Properties properties() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("request.timeout.ms", Integer.toString(CALL_MS));
            properties.put("reconnect.backoff.max.ms", "500");
            properties.put("socket.connection.setup.timeout.ms", "3000");
            return properties;
        }
    }

    /** Writes each transaction to all partitions, one record each, and aborts some of them. */
    private static final class Writer extends Client {
        Writer(String name, String[] arguments, long seed) {
            super(name, arguments, seed);
        }

        @Override
        String live(KafkaProducer<byte[], byte[]> producer, long untilNs) throws GivenUpException {
            for (int number = 1; !stopping; number++) {
                String value = name + "|" + life + "|" + number;
                say("invoke", value);
                try {
                    persist(producer::beginTransaction);
                    for (int partition = 0; partition < partitions; partition++) {
                        int to = partition;
                        byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
                        persist(() -> producer.send(new ProducerRecord<>(topic + "-all", to, null, bytes)));
                    }
                    if (System.nanoTime() > untilNs) {
                        producer.flush();
                        return value;
                    }
                    if (random.nextDouble() < ABORTED_SHARE) {
                        abort(producer);
                        say("fail", value);
                        continue;
                    }
                } catch (AbortedException required) {
                    abort(producer);
                    say("fail", value);
                    continue;
                }
                try {
                    commit(producer);
                    say("ok", value);
                } catch (AbortedException aborted) {
                    say("fail", value);
                }
                try {
                    Thread.sleep(random.nextInt(100));
                } catch (InterruptedException interrupted) {
                    throw new GivenUpException(interrupted);
                }
            }
            return null;
        }

        @Override
        void fenced(String value) {
            say("fail", value);
        }
    }

    /** Consumes the input in a group, produces each record to the same partition of the output, and commits both. */
    private static final class Copier extends Client {
        Copier(String name, String[] arguments, long seed) {
            super(name, arguments, seed);
        }

        @Override
        String live(KafkaProducer<byte[], byte[]> producer, long untilNs) throws GivenUpException {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
                consumer.subscribe(List.of(topic + "-in"));
                while (!stopping) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(300));
                    if (records.isEmpty()) {
                        continue;
                    }
                    try {
                        persist(producer::beginTransaction);
                        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                        for (ConsumerRecord<byte[], byte[]> record : records) {
                            persist(() -> producer.send(
                                    new ProducerRecord<>(topic + "-out", record.partition(), null, record.value())));
                            TopicPartition from = new TopicPartition(record.topic(), record.partition());
                            offsets.put(from, new OffsetAndMetadata(record.offset() + 1));
                        }
                        if (System.nanoTime() > untilNs) {
                            producer.flush();
                            return name + "|" + life;
                        }
                        persist(() -> producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata()));
                    } catch (AbortedException required) {
                        abort(producer);
                        goBack(consumer);
                        continue;
                    }
                    if (random.nextDouble() < ABORTED_SHARE) {
                        abort(producer);
                        goBack(consumer);
                        continue;
                    }
                    try {
                        commit(producer);
                        say("copied", "");
                    } catch (AbortedException aborted) {
                        goBack(consumer);
                    }
                }
                return null;
            } catch (KafkaException failed) {
                throw new GivenUpException(failed);
            }
        }

        /** Consumes again from where the group's last transaction ended. */
        private void goBack(KafkaConsumer<byte[], byte[]> consumer) {
            Set<TopicPartition> assigned = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> committed =
                    consumer.committed(assigned, Duration.ofNanos(PATIENCE_NS));
            for (TopicPartition each : assigned) {
                OffsetAndMetadata found = committed.get(each);
                consumer.seek(each, found == null ? 0 : found.offset());
            }
        }

        @Override
        void fenced(String value) {
            // Its records are copied by another transaction: the output shows whether any is there twice.
        }

        private KafkaConsumer<byte[], byte[]> consumer() {
            Properties properties = properties();
            properties.put("group.id", topic + "-copiers");
            properties.put("isolation.level", "read_committed");
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            properties.put("session.timeout.ms", "6000");
            properties.put("heartbeat.interval.ms", "1000");
            properties.put("max.poll.records", "50");
            return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }
    }
}
