import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Has Flink count the records of each key, exactly once: {@code Counts BOOTSTRAP NAME STATE}. Its cluster is in this
 * process, and its checkpoints are in the directory STATE, where it goes on from the last one. A task fails once.
 */
public class Counts {
    private static final int PARALLELISM = 2;
    private static final long FAILS_AT = 8_000;
    /** Slow enough that a kill finds most of the records still to be counted. */
    private static final int MILLISECONDS_A_RECORD = 1;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String name = arguments[1];
        Path state = Path.of(arguments[2]).toAbsolutePath();
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.dir", state.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "1000");
        settings.setString("restart-strategy.fixed-delay.delay", "1 s");
        last(state.resolve("checkpoints"))
            .ifPresent(each -> settings.setString("execution.state-recovery.path", each.toUri().toString()));
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, settings);
        environment.enableCheckpointing(Duration.ofMillis(500).toMillis());
        KafkaSource<Tuple2<String, String>> records = KafkaSource.<Tuple2<String, String>>builder()
            .setBootstrapServers(bootstrap)
            .setTopics(name + "-input")
            .setGroupId(name)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new KeysAndValues())
            .build();
        KafkaSink<Tuple2<String, String>> results = KafkaSink.<Tuple2<String, String>>builder()
            .setBootstrapServers(bootstrap)
            .setRecordSerializer(new Results(name + "-output"))
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(name)
            .setProperty("transaction.timeout.ms", "120000")
            .build();
        environment
            .fromSource(records, WatermarkStrategy.noWatermarks(), "records")
            .uid("records")
            .keyBy(each -> each.f0)
            .process(new Count(state.resolve("failed")))
            .uid("counts")
            .sinkTo(results)
            .uid("results");
        environment.execute(name);
    }

    /** Return the last checkpoint that was completed. */
    private static Optional<Path> last(Path checkpoints) throws IOException {
        if (!Files.exists(checkpoints)) {
            return Optional.empty();
        }
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files
                .filter(each -> each.endsWith("_metadata"))
                .max(Comparator.comparing(Counts::modified))
                .map(Path::getParent);
        }
    }

    private static long modified(Path path) {
        try {
            return Files.getLastModifiedTime(path).toMillis();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static final class Count extends KeyedProcessFunction<String, Tuple2<String, String>, Tuple2<String, String>> {
        private final String failed;
        private transient ValueState<Long> seen;

        Count(Path failed) {
            this.failed = failed.toString();
        }

        @Override
        public void open(OpenContext context) {
            seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Types.LONG));
        }

        @Override
        public void processElement(
                Tuple2<String, String> record, Context context, Collector<Tuple2<String, String>> results)
                throws Exception {
            long number = Long.parseLong(record.f1.replaceAll("[^0-9]", ""));
            long count = seen.value() == null ? 1 : seen.value() + 1;
            seen.update(count);
            results.collect(Tuple2.of(record.f0, "{\"number\": " + number + ", \"count\": " + count + "}"));
            if (number == FAILS_AT && isTheFirstTime()) {
                throw new IllegalStateException("fails once at record " + number);
            }
            Thread.sleep(MILLISECONDS_A_RECORD);
        }

        private boolean isTheFirstTime() throws IOException {
            try {
                Files.createFile(Path.of(failed));
                return true;
            } catch (FileAlreadyExistsException before) {
                return false;
            }
        }
    }

    private static final class KeysAndValues implements KafkaRecordDeserializationSchema<Tuple2<String, String>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<String, String>> records) {
            records.collect(Tuple2.of(text(record.key()), text(record.value())));
        }

        private static String text(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }

        @Override
        public TypeInformation<Tuple2<String, String>> getProducedType() {
            return Types.TUPLE(Types.STRING, Types.STRING);
        }
    }

    private static final class Results implements KafkaRecordSerializationSchema<Tuple2<String, String>> {
        private final String topic;

        Results(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple2<String, String> result, KafkaSinkContext context, Long timestamp) {
            byte[] key = result.f0.getBytes(StandardCharsets.UTF_8);
            return new ProducerRecord<>(topic, key, result.f1.getBytes(StandardCharsets.UTF_8));
        }
    }
}
