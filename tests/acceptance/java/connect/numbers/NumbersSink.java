package numbers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Appends a line to `file` for each record: its partition, its offset, its number, and `end`. */
public final class NumbersSink extends SinkConnector {
    private Map<String, String> settings = Map.of();

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("file", Type.STRING, Importance.HIGH, "Where the numbers go.");
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
    public boolean alterOffsets(Map<String, String> given, Map<TopicPartition, Long> offsets) {
        return true;
    }

    /** The only task. A line that a kill has torn has no end, and what comes after it begins on a line of its own. */
    public static final class Writing extends SinkTask {
        private Path file;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> given) {
            file = Path.of(given.get("file"));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) {
                return;
            }
            StringBuilder lines = new StringBuilder("\n");
            for (SinkRecord each : records) {
                lines.append(each.kafkaPartition()).append(' ').append(each.kafkaOffset()).append(' ');
                lines.append(each.value()).append(" end\n");
            }
            try {
                Files.writeString(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException failed) {
                throw new ConnectException(failed);
            }
        }

        @Override
        public void stop() {
        }
    }
}
