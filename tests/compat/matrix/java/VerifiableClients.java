import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** The programs that Kafka's own system tests run: VerifiableProducer, and two of VerifiableConsumer in one group. */
public final class VerifiableClients {
    private static final int MESSAGES = 2000;
    /** For what JVMs of their own do, which start slowly on a busy machine. */
    private static final Duration PATIENCE = Checks.PATIENCE.multipliedBy(4);

    private final Checks checks;
    private final String topic;

    private VerifiableClients(Checks checks) {
        this.checks = checks;
        topic = checks.name("verified");
    }

    public static void main(String[] arguments) {
        new VerifiableClients(new Checks(arguments)).run();
        System.exit(0);
    }

    private void run() {
        checks.add("producer", this::produce);
        checks.add("consumers-share", () -> consume("share", 2));
        checks.add("consumer-of-a-whole-log", () -> consume("alone", 1));
        checks.run(AppInfoParser.getVersion());
    }

    private void produce() throws Exception {
        try (Admin admin = Admin.create(checks.properties())) {
            admin.createTopics(List.of(new NewTopic(topic, Checks.PARTITIONS, checks.replication))).all().get();
        }
        Program producer = new Program(
                "org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", Integer.toString(MESSAGES),
                "--bootstrap-server", checks.bootstrap, "--acks", "-1");
        try (producer) {
            Checks.until(() -> producer.said("shutdown_complete") == 1, "the producer is done", PATIENCE);
            Checks.equal(producer.said("producer_send_success"), MESSAGES);
            Checks.equal(producer.said("producer_send_error"), 0);
        }
    }

    /** Each says what it has read as `"name":"records_consumed","count":…`; together they read everything once. */
    private void consume(String group, int members) throws Exception {
        List<Program> consumers = new ArrayList<>();
        try {
            for (int number = 0; number < members; number++) {
                consumers.add(new Program(
                        "org.apache.kafka.tools.VerifiableConsumer", "--topic", topic, "--group-id", checks.name(group),
                        "--bootstrap-server", checks.bootstrap, "--reset-policy", "earliest"));
            }
            Checks.until(() -> consumers.stream().allMatch(each -> each.said("partitions_assigned") > 0), "all have joined", PATIENCE);
            Checks.until(() -> consumers.stream().mapToLong(Program::consumed).sum() >= MESSAGES, "all is read", PATIENCE);
            Checks.until(() -> consumers.stream().anyMatch(each -> each.said("offsets_committed") > 0), "offsets are committed", PATIENCE);
            Checks.isTrue(consumers.stream().allMatch(each -> each.said("\"success\":false") == 0), "no commit has failed");
        } finally {
            consumers.forEach(Program::close);
        }
    }

    /** A class with a main, in a JVM of its own. */
    private static final class Program implements AutoCloseable {
        private final List<String> lines = Collections.synchronizedList(new ArrayList<>());
        private final Process process;

        Program(String mainClass, String... arguments) throws Exception {
            List<String> command = new ArrayList<>(List.of("java", "-Xmx128M", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                    "-Dlog4j2.configurationFile=" + System.getProperty("log4j2.configurationFile"), mainClass));
            command.addAll(List.of(arguments));
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            Thread reader = new Thread(() -> process.inputReader().lines().forEach(lines::add));
            reader.setDaemon(true);
            reader.start();
        }

        private List<String> linesWith(String word) {
            synchronized (lines) {
                return lines.stream().filter(line -> line.contains(word)).collect(Collectors.toList());
            }
        }

        int said(String word) {
            return linesWith(word).size();
        }

        long consumed() {
            return linesWith("\"records_consumed\"").stream()
                    .mapToLong(line -> Long.parseLong(line.replaceFirst(".*?\"count\":(\\d+).*", "$1")))
                    .sum();
        }

        @Override
        public void close() {
            process.destroy();
        }
    }
}
