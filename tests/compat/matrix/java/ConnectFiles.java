import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** Kafka Connect carries the lines of a file to a topic and from there to another file: one worker alone, and a group. */
public final class ConnectFiles {
    private static final String FILES = "org.apache.kafka.connect.file.";
    private static final int END_SECONDS_MAX = 15;

    private final Checks checks;
    private final Path directory;
    private final HttpClient http = HttpClient.newHttpClient();

    private ConnectFiles(Checks checks) throws IOException {
        this.checks = checks;
        directory = Files.createTempDirectory("connect-files");
    }

    public static void main(String[] arguments) throws Exception {
        new ConnectFiles(new Checks(arguments)).run();
        System.exit(0);
    }

    private void run() {
        Pipe alone = new Pipe("alone");
        checks.add("standalone", () -> {
            alone.create();
            alone.write(0, Checks.RECORDS);
            try (Worker worker = standalone(alone)) {
                alone.waitFor(Checks.RECORDS, worker);
            }
        });
        checks.add("standalone-resumes", () -> {
            alone.write(Checks.RECORDS, 2 * Checks.RECORDS);
            try (Worker worker = standalone(alone)) {
                alone.waitFor(2 * Checks.RECORDS, worker);
            }
        });
        Pipe together = new Pipe("together");
        checks.add("distributed", () -> {
            together.create();
            together.write(0, Checks.RECORDS);
            try (Worker worker = distributed()) {
                worker.put(together.source(), "FileStreamSourceConnector");
                worker.put(together.sink(), "FileStreamSinkConnector");
                together.waitFor(Checks.RECORDS, worker);
            }
        });
        checks.add("distributed-two-workers", () -> {
            Worker first = distributed();
            try (Worker second = distributed(); first) {
                Checks.until(() -> first.workersOfTasks().size() == 2, "both workers have a task", Checks.PATIENCE.multipliedBy(4));
                first.close();
                together.write(Checks.RECORDS, 2 * Checks.RECORDS);
                together.waitFor(2 * Checks.RECORDS, second);
            }
        });
        checks.run(AppInfoParser.getVersion());
    }

    /** A file, a topic, and the file that comes of it. */
    private final class Pipe {
        private final String name;
        private final Path in;
        private final Path out;

        Pipe(String name) {
            this.name = name;
            in = directory.resolve(name + ".in");
            out = directory.resolve(name + ".out");
        }

        void create() throws Exception {
            try (Admin admin = Admin.create(checks.properties())) {
                admin.createTopics(List.of(new NewTopic(checks.name(name), 1, checks.replication))).all().get();
            }
        }

        Map<String, String> source() {
            return Map.of("name", name + "-source", "connector.class", FILES + "FileStreamSourceConnector",
                    "tasks.max", "1", "file", in.toString(), "topic", checks.name(name));
        }

        Map<String, String> sink() {
            return Map.of("name", name + "-sink", "connector.class", FILES + "FileStreamSinkConnector",
                    "tasks.max", "1", "file", out.toString(), "topics", checks.name(name));
        }

        void write(int begin, int end) throws IOException {
            List<String> lines = Checks.valuesOf(name, end).subList(begin, end);
            Files.write(in, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }

        /** At least once: every line, in the order in which each came first. */
        void waitFor(int count, Worker worker) throws Exception {
            List<String> expected = Checks.valuesOf(name, count);
            try {
                Checks.until(() -> Files.exists(out) && new HashSet<>(Files.readAllLines(out)).containsAll(expected),
                        count + " lines", Checks.PATIENCE.multipliedBy(4));
            } catch (AssertionError late) {
                int lines = Files.exists(out) ? Files.readAllLines(out).size() : 0;
                throw new AssertionError(late.getMessage() + ", but " + lines + "; " + worker.explain());
            }
            Checks.equal(Files.readAllLines(out).stream().distinct().collect(Collectors.toList()), expected);
        }
    }

    private Map<String, String> common(int port) {
        return Map.of("bootstrap.servers", checks.bootstrap,
                "key.converter", "org.apache.kafka.connect.storage.StringConverter",
                "value.converter", "org.apache.kafka.connect.storage.StringConverter",
                "offset.flush.interval.ms", "500",
                "plugin.discovery", "service_load",
                "listeners", "http://127.0.0.1:" + port);
    }

    private Worker standalone(Pipe pipe) throws Exception {
        int port = freePort();
        List<String> files = new ArrayList<>();
        files.add(file(port + ".properties", common(port), Map.of("offset.storage.file.filename", directory.resolve("offsets").toString())));
        files.add(file(pipe.name + "-source.properties", pipe.source(), Map.of()));
        files.add(file(pipe.name + "-sink.properties", pipe.sink(), Map.of()));
        return new Worker(port, "ConnectStandalone", files);
    }

    private Worker distributed() throws Exception {
        int port = freePort();
        String replication = Short.toString(checks.replication);
        Map<String, String> storage = Map.of("group.id", checks.name("connect"),
                "config.storage.topic", checks.name("connect-configs"), "config.storage.replication.factor", replication,
                "offset.storage.topic", checks.name("connect-offsets"), "offset.storage.replication.factor", replication,
                "status.storage.topic", checks.name("connect-status"), "status.storage.replication.factor", replication,
                "offset.storage.partitions", "4", "status.storage.partitions", "2",
                "scheduled.rebalance.max.delay.ms", "1000");
        return new Worker(port, "ConnectDistributed", List.of(file(port + ".properties", common(port), storage)));
    }

    private String file(String name, Map<String, String> some, Map<String, String> more) throws IOException {
        List<String> lines = new ArrayList<>();
        some.forEach((key, value) -> lines.add(key + "=" + value));
        more.forEach((key, value) -> lines.add(key + "=" + value));
        return Files.write(directory.resolve(name), lines).toString();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    /** A worker of Connect in a JVM of its own, with its REST interface. */
    private final class Worker implements AutoCloseable {
        private final int port;
        private final Process process;
        private final File log;

        Worker(int port, String mainClass, List<String> files) throws Exception {
            this.port = port;
            log = directory.resolve(port + ".log").toFile();
            List<String> command = new ArrayList<>(List.of("java", "-Xmx256M", "-XX:+UseSerialGC", "-cp",
                    System.getProperty("java.class.path"),
                    "-Dlog4j2.configurationFile=" + System.getProperty("log4j2.configurationFile"),
                    "org.apache.kafka.connect.cli." + mainClass));
            command.addAll(files);
            process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log).start();
            Checks.until(this::answers, "the worker's REST interface answers", Checks.PATIENCE.multipliedBy(4));
        }

        private boolean answers() {
            try {
                return get("/").statusCode() == 200;
            } catch (IOException | InterruptedException notYet) {
                return false;
            }
        }

        private HttpResponse<String> get(String path) throws IOException, InterruptedException {
            return http.send(HttpRequest.newBuilder(uri(path)).build(), HttpResponse.BodyHandlers.ofString());
        }

        private URI uri(String path) {
            return URI.create("http://127.0.0.1:" + port + path);
        }

        void put(Map<String, String> connector, String kind) throws Exception {
            String body = connector.entrySet().stream()
                    .map(each -> "\"" + each.getKey() + "\":\"" + each.getValue() + "\"")
                    .collect(Collectors.joining(",", "{", "}"));
            HttpRequest request = HttpRequest.newBuilder(uri("/connectors/" + connector.get("name") + "/config"))
                    .header("Content-Type", "application/json")
                    .PUT(HttpRequest.BodyPublishers.ofString(body))
                    .build();
            Checks.until(() -> http.send(request, HttpResponse.BodyHandlers.ofString()).statusCode() < 300, kind + " is taken");
        }

        /** The workers that run a task each, as this one sees it. */
        HashSet<String> workersOfTasks() throws Exception {
            HashSet<String> workers = new HashSet<>();
            for (String connector : List.of("together-source", "together-sink")) {
                String body = get("/connectors/" + connector + "/status").body();
                int tasks = body.indexOf("\"tasks\"");
                if (tasks >= 0 && body.indexOf("RUNNING", tasks) > 0) {
                    workers.add(body.substring(tasks).replaceFirst("(?s).*?\"worker_id\":\"([^\"]*)\".*", "$1"));
                }
            }
            return workers;
        }

        String explain() throws IOException {
            List<String> lines = Files.readAllLines(log.toPath());
            return "its worker " + (process.isAlive() ? "runs" : "is dead") + ", its last line: "
                    + (lines.isEmpty() ? "" : lines.get(lines.size() - 1));
        }

        @Override
        public void close() throws InterruptedException {
            process.destroy();
            // The hook of a 4.4 worker may wait for its REST server for ever, if Jetty's own hook stops that first.
            if (!process.waitFor(END_SECONDS_MAX, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        }
    }
}
