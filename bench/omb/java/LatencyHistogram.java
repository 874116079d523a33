import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Counts latencies in microseconds: up to 255 exactly, above in 128 buckets for each power of two, which is an error
 * below 0.8 %. `bench/omb/histogram.py` reads what {@link #toJson} writes.
 */
final class LatencyHistogram {
    static final int SUB_BUCKETS = 128;
    private static final int POWERS = 34;

    private final AtomicLongArray counts = new AtomicLongArray(SUB_BUCKETS * (POWERS + 1));

    /** Count one latency; what is below 0 counts as 0, and what is beyond the last bucket as that. */
    void record(long nanoseconds) {
        counts.incrementAndGet(bucket(Math.max(0, nanoseconds / 1_000)));
    }

    void reset() {
        for (int bucket = 0; bucket < counts.length(); bucket++) {
            counts.set(bucket, 0);
        }
    }

    /** Return the buckets that are not empty, each as [number, count]. */
    String toJson() {
        StringBuilder json = new StringBuilder("[");
        for (int bucket = 0; bucket < counts.length(); bucket++) {
            long count = counts.get(bucket);
            if (count > 0) {
                json.append(json.length() > 1 ? "," : "").append(String.format("[%d,%d]", bucket, count));
            }
        }
        return json.append(']').toString();
    }

    private int bucket(long microseconds) {
        if (microseconds < SUB_BUCKETS) {
            return (int) microseconds;
        }
        int shift = 63 - Long.numberOfLeadingZeros(microseconds) - 7;
        int bucket = SUB_BUCKETS * shift + (int) (microseconds >> shift);
        return Math.min(bucket, counts.length() - 1);
    }
}
