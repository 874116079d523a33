import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * The load of `python -m bench.omb`: a command a line on standard input, and an answer in JSON, a line too, to each.
 * One workload at a time.
 *
 * <ul>
 *   <li>`open key=value …`: create the topics, start consumers and producers, and return when a record of each
 *       producer was received
 *   <li>`load rate=N`: begin to send
 *   <li>`counters`, `latencies`, `reset`: what was counted since `open`, and what was measured since the last `reset`
 *   <li>`reset_end_to_end`: forget only those latencies
 *   <li>`pause`, `resume`: the consumers
 *   <li>`finish`: stop sending; return when all is answered
 *   <li>`close`: end the clients and delete the topics
 * </ul>
 */
public final class Load {
    private static final long READY_NANOSECONDS_MAX = TimeUnit.SECONDS.toNanos(60);

    private final Workload workload;
    private final Statistics statistics = new Statistics();
    private final Subscribing subscribing;
    private final Publishing publishing;

    private Load(Workload workload) throws Exception {
        this.workload = workload;
        try (Admin admin = admin()) {
            short replicas = (short) workload.replicas();
            Map<String, String> settings = Map.of("min.insync.replicas", String.valueOf(Math.max(1, replicas - 1)));
            admin.createTopics(topics().stream()
                            .map(name -> new NewTopic(name, workload.partitions(), replicas).configs(settings))
                            .toList())
                    .all()
                    .get();
        }
        subscribing = new Subscribing(workload, statistics);
        publishing = new Publishing(workload, statistics);
        publishing.probe();
        long deadline = System.nanoTime() + READY_NANOSECONDS_MAX;
        while (statistics.received.sum() < workload.copiesOfOneRecordEach()) {
            if (System.nanoTime() > deadline) {
                close();
                throw new IllegalStateException("consumers are not ready after a minute: " + statistics.counters());
            }
            Thread.sleep(20);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        Load load = null;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                if (line.equals("version")) {
                    answer = String.format("{\"java\":\"%s\"}", Runtime.version());
                } else if (line.startsWith("open ")) {
                    load = new Load(Workload.of(Workload.words(line)));
                    answer = "{}";
                } else if (load == null) {
                    answer = "{\"error\":\"nothing is open\"}";
                } else {
                    answer = load.answer(line);
                }
            } catch (Exception error) {
                answer = "{\"error\":\"" + String.valueOf(error).replaceAll("[^ -!#-\\[\\]-~]", "'") + "\"}";
            }
            System.out.println(answer);
        }
    }

    private String answer(String command) throws Exception {
        switch (command.split(" ", 2)[0]) {
            case "load" -> publishing.start(Long.parseLong(Workload.words(command).get("rate")));
            case "counters" -> {
                return statistics.counters();
            }
            case "latencies" -> {
                return statistics.latencies();
            }
            case "reset" -> statistics.resetLatencies();
            case "reset_end_to_end" -> statistics.endToEnd.reset();
            case "pause" -> subscribing.pause(true);
            case "resume" -> subscribing.pause(false);
            case "finish" -> publishing.finish();
            case "close" -> close();
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
        return "{}";
    }

    private void close() throws Exception {
        publishing.close();
        subscribing.close();
        try (Admin admin = admin()) {
            admin.deleteTopics(topics()).all().get();
        }
    }

    private List<String> topics() {
        return IntStream.range(0, workload.topics()).mapToObj(workload::topic).toList();
    }

    private Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", workload.bootstrap()));
    }
}
