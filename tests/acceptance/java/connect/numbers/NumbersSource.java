package numbers;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Writes the numbers from 0 up to `records`, at a steady pace, to the partitions in turn; its offset is the next number. */
public final class NumbersSource extends SourceConnector {
    private static final Map<String, String> PARTITION = Map.of("source", "numbers");
    private static final String NEXT = "next";
    private static final int BATCH = 20;
    private static final long PAUSE_MS = 100;

    private Map<String, String> settings = Map.of();

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", Type.STRING, Importance.HIGH, "Where the numbers go.")
                .define("partitions", Type.INT, Importance.HIGH, "How many partitions the topic has.")
                .define("records", Type.LONG, Importance.HIGH, "How many numbers there are.");
    }

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Writing.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int tasksMax) {
        return List.of(settings);
    }

    @Override
    public void stop() {
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        offsets.forEach((partition, offset) -> {
            if (!PARTITION.equals(partition) || (offset != null && !(offset.get(NEXT) instanceof Number))) {
                throw new ConnectException(partition + " at " + offset + " is no offset of numbers");
            }
        });
        return true;
    }

    /** The only task. */
    public static final class Writing extends SourceTask {
        private String topic;
        private int partitions;
        private long records;
        private long next;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            partitions = Integer.parseInt(settings.get("partitions"));
            records = Long.parseLong(settings.get("records"));
            Map<String, Object> offset = context.offsetStorageReader().offset(PARTITION);
            next = offset == null ? 0 : ((Number) offset.get(NEXT)).longValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(PAUSE_MS);
            List<SourceRecord> batch = new ArrayList<>();
            while (next < records && batch.size() < BATCH) {
                int partition = (int) (next % partitions);
                String number = Long.toString(next);
                next++;
                batch.add(new SourceRecord(PARTITION, Map.of(NEXT, next), topic, partition,
                        Schema.STRING_SCHEMA, "numbers", Schema.STRING_SCHEMA, number));
            }
            return batch.isEmpty() ? null : batch;
        }

        @Override
        public void stop() {
        }
    }
}
