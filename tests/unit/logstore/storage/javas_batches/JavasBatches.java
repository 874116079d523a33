import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/** Says of each batch, a line of hexadecimal digits: "read", "unreadable" (by a consumer), or the broker's error code. */
public class JavasBatches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(outcome(HexFormat.of().parseHex(line)));
        }
    }

    private static String outcome(byte[] batch) {
        CompressionType codec = CompressionType.forId(batch[22] & 7);
        try {
            new LogValidator(
                    records(batch), new TopicPartition("topic", 0), Time.SYSTEM, codec, Compression.of(codec).build(),
                    false, RecordBatch.CURRENT_MAGIC_VALUE, TimestampType.CREATE_TIME, Long.MAX_VALUE, 3600000L, 0,
                    AppendOrigin.CLIENT)
                .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Unmetered(), BufferSupplier.NO_CACHING);
        } catch (RecordValidationException refused) {
            return "" + Errors.forException(refused.invalidException()).code();
        } catch (Throwable fault) {
            return "" + Errors.forException(fault).code();
        }
        try {
            for (RecordBatch each : records(batch).batches()) {
                try (var read = each.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (read.hasNext()) {
                        read.next();
                    }
                }
            }
        } catch (RuntimeException fault) {
            return "unreadable";
        }
        return "read";
    }

    private static MemoryRecords records(byte[] batch) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(batch.clone()));
    }

    private static class Unmetered implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
