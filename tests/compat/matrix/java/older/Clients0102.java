import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Java's clients 0.10.2: the old format of messages, and no client for administration, idempotence or transactions. The
 * topics are there before it starts (tests/compat/matrix/python/with_topics.py).
 */
public final class Clients0102 {
    private Clients0102() {
    }

    public static void main(String[] arguments) {
        Checks checks = new Checks(arguments);
        RecordChecks records = new RecordChecks(checks, name -> { });
        records.addMetadata();
        records.addProduce("gzip", "snappy", "lz4");
        records.addConsume();
        records.addCommitted();
        checks.lacks("transactions");
        checks.run(AppInfoParser.getVersion());
        System.exit(0);
    }
}
