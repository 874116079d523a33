import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams counts words, at least once: with a repartition topic, a changelog, a second instance, a lost disk. */
public final class WordCount {
    private static final List<String> SENTENCE = List.of("now", "is", "the", "time", "the", "time", "is", "now", "the");

    private final Checks checks;
    private final String input;
    private final String output;
    private final Map<String, Long> expected = new HashMap<>();

    private WordCount(Checks checks) {
        this.checks = checks;
        input = checks.name("sentences");
        output = checks.name("counts");
    }

    public static void main(String[] arguments) {
        new WordCount(new Checks(arguments)).run();
        System.exit(0);
    }

    private void run() {
        checks.add("word-count", () -> {
            createTopics();
            try (Instance one = new Instance()) {
                countSentences(20);
            }
        });
        checks.add("two-instances", () -> {
            try (Instance one = new Instance()) {
                try (Instance two = new Instance()) {
                    Checks.until(() -> one.hasTasks() && two.hasTasks(), "both instances have tasks");
                    countSentences(20);
                }
                countSentences(20);
            }
        });
        checks.add("state-restored", () -> {
            try (Instance another = new Instance()) {
                countSentences(20);
            }
        });
        checks.run(AppInfoParser.getVersion());
    }

    private void createTopics() throws Exception {
        try (Admin admin = Admin.create(checks.properties())) {
            admin.createTopics(List.of(
                    new NewTopic(input, Checks.PARTITIONS, checks.replication),
                    new NewTopic(output, 1, checks.replication))).all().get();
        }
    }

    /** Counts are at least these, and exactly these while nothing is done twice: nothing fails here. */
    private void countSentences(int sentences) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(checks.properties(), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < sentences; number++) {
                producer.send(new ProducerRecord<>(input, number % Checks.PARTITIONS, null, String.join(" ", SENTENCE)));
            }
        }
        SENTENCE.forEach(word -> expected.merge(word, (long) sentences, Long::sum));
        Map<String, Long> counts = new HashMap<>();
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(checks.properties(), new StringDeserializer(), new LongDeserializer())) {
            TopicPartition partition = new TopicPartition(output, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            Checks.until(() -> {
                for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    counts.put(record.key(), record.value());
                }
                return counts.equals(expected);
            }, "counts " + expected, Checks.PATIENCE.multipliedBy(4));
        } catch (AssertionError error) {
            throw new AssertionError(error.getMessage() + ", but they are " + counts);
        }
    }

    /** Each has a directory of its own, so that what it knows comes from the changelog. */
    private final class Instance implements AutoCloseable {
        private final KafkaStreams streams;

        Instance() throws Exception {
            Path directory = Files.createTempDirectory("word-count");
            Properties properties = checks.properties(
                    "application.id", checks.name("word-count"),
                    "replication.factor", Short.toString(checks.replication),
                    "state.dir", directory.toString(),
                    "commit.interval.ms", "200",
                    "processing.guarantee", "at_least_once",
                    "default.key.serde", Serdes.StringSerde.class.getName(),
                    "default.value.serde", Serdes.StringSerde.class.getName());
            StreamsBuilder builder = new StreamsBuilder();
            builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                    .flatMapValues(sentence -> List.of(sentence.split(" ")))
                    .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                    .count(Materialized.as("counts"))
                    .toStream()
                    .to(output, Produced.with(Serdes.String(), Serdes.Long()));
            streams = new KafkaStreams(builder.build(), properties);
            streams.start();
        }

        boolean hasTasks() {
            return streams.state() == KafkaStreams.State.RUNNING
                    && streams.metadataForLocalThreads().stream().anyMatch(thread -> !thread.activeTasks().isEmpty());
        }

        @Override
        public void close() {
            KafkaStreams.CloseOptions leaves = new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Checks.PATIENCE);
            Checks.isTrue(streams.close(leaves), "the instance stops in time");
        }
    }
}
