import java.util.concurrent.atomic.LongAdder;

/** What the producers and consumers of a workload count. */
final class Statistics {
    final LongAdder published = new LongAdder();
    final LongAdder failed = new LongAdder();
    final LongAdder received = new LongAdder();
    final LatencyHistogram publish = new LatencyHistogram();
    /** How late a record was sent after it was due; nothing is due at the maximum rate. */
    final LatencyHistogram delay = new LatencyHistogram();
    final LatencyHistogram endToEnd = new LatencyHistogram();
    volatile String firstFailure = "";

    void failed(Exception error) {
        failed.increment();
        if (firstFailure.isEmpty()) {
            firstFailure = String.valueOf(error).replaceAll("[^ -!#-\\[\\]-~]", " ");
        }
    }

    void resetLatencies() {
        publish.reset();
        delay.reset();
        endToEnd.reset();
    }

    String counters() {
        return String.format(
                "{\"published\":%d,\"failed\":%d,\"received\":%d,\"first_failure\":\"%s\"}",
                published.sum(), failed.sum(), received.sum(), firstFailure);
    }

    String latencies() {
        return String.format(
                "{\"publish\":%s,\"delay\":%s,\"end_to_end\":%s}", publish.toJson(), delay.toJson(), endToEnd.toJson());
    }
}
