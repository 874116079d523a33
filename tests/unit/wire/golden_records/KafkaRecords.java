import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Time;

/** Record formats as Kafka 3.9 writes and converts them: one line each, "name hex". See golden_records/__init__.py. */
public class KafkaRecords {
    private static final long BASE_OFFSET = 1000;
    private static final long APPEND_TIME = 1_700_000_099_000L;
    private static final long[] TIMESTAMPS = {1_700_000_000_000L, 1_700_000_000_500L, 1_699_999_999_999L, 1_700_000_000_001L};
    private static final String[] KEYS = {"key", null, "tombstone", ""};
    private static final String[] VALUES = {"value", "x".repeat(300), null, ""};

    public static void main(String[] arguments) {
        for (CompressionType codec : CompressionType.values()) {
            for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                String name = codec.name + " " + type.name;
                for (byte magic = 0; magic <= 2; magic++) {
                    if (magic == 0 && type == TimestampType.LOG_APPEND_TIME || magic < 2 && codec == CompressionType.ZSTD)
                        continue;
                    print("written " + magic + " " + name, written(magic, codec, type, BASE_OFFSET));
                }
                if (codec == CompressionType.ZSTD)
                    continue;
                for (byte magic = 0; magic <= 1; magic++) {
                    MemoryRecords source = written((byte) 2, codec, type, BASE_OFFSET);
                    print("converted " + magic + " " + name, converted(source, magic, 0));
                    print("converted from 1002 " + magic + " " + name, converted(source, magic, 1002));
                }
            }
        }
        ByteBuffer several = ByteBuffer.allocate(1 << 16);
        several.put(written((byte) 2, CompressionType.NONE, TimestampType.CREATE_TIME, 10).buffer());
        several.put(MemoryRecords.withEndTransactionMarker(14, 1L, 0, 7, (short) 0,
            new EndTransactionMarker(ControlRecordType.COMMIT, 0)).buffer());
        several.put(written((byte) 2, CompressionType.GZIP, TimestampType.CREATE_TIME, 15).buffer());
        several.flip();
        MemoryRecords batches = MemoryRecords.readableRecords(several);
        print("several", batches);
        for (byte magic = 0; magic <= 1; magic++)
            print("several converted " + magic, converted(batches, magic, 11));
    }

    private static MemoryRecords written(byte magic, CompressionType codec, TimestampType type, long baseOffset) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 12), magic,
            Compression.of(codec).build(), type, baseOffset, type == TimestampType.LOG_APPEND_TIME ? APPEND_TIME : -1,
            -1L, (short) -1, -1, false, false, 3, 1 << 12);
        for (int index = 0; index < KEYS.length; index++) {
            Header[] headers = magic == 2 && index == 1
                ? new Header[] {new RecordHeader("header", new byte[] {1}), new RecordHeader("no value", null)}
                : new Header[0];
            builder.append(magic == 0 ? -1 : TIMESTAMPS[index], bytes(KEYS[index]), bytes(VALUES[index]), headers);
        }
        return builder.build();
    }

    private static MemoryRecords converted(MemoryRecords source, byte magic, long firstOffset) {
        return source.downConvert(magic, firstOffset, Time.SYSTEM).records();
    }

    private static ByteBuffer bytes(String text) {
        return text == null ? null : ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    private static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer();
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        System.out.println(name + "\t" + HexFormat.of().formatHex(content));
    }
}
