import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** What programs of the matrix have in common; tests/compat/matrix/python/checks.py says what they print. */
final class Checks {
    static final int PARTITIONS = 4;
    static final int RECORDS = 40;
    static final Duration PATIENCE = Duration.ofSeconds(60);

    interface Check {
        void run() throws Exception;
    }

    /** Creates a topic of PARTITIONS partitions, if its client can. */
    interface Topics {
        void create(String name) throws Exception;
    }

    final String bootstrap;
    final short replication;
    private final String prefix;
    private final Map<String, Check> all = new LinkedHashMap<>();
    private final List<String> lacking = new ArrayList<>();

    Checks(String[] arguments) {
        bootstrap = arguments[0];
        replication = Short.parseShort(arguments[1]);
        prefix = arguments[2];
    }

    String name(String suffix) {
        return prefix + "-" + suffix;
    }

    Properties properties(String... keysAndValues) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < keysAndValues.length; index += 2) {
            properties.put(keysAndValues[index], keysAndValues[index + 1]);
        }
        return properties;
    }

    Checks add(String capability, Check check) {
        all.put(capability, check);
        return this;
    }

    /** The client has no call for it. */
    void lacks(String capability) {
        lacking.add(capability);
    }

    /** Says what will be checked, and checks it; one that fails stops none of those behind it. */
    void run(String version) {
        System.out.println("version " + version);
        if (!lacking.isEmpty()) {
            System.out.println("lacks " + String.join(" ", lacking));
        }
        System.out.println("plan " + String.join(" ", all.keySet()));
        all.forEach((capability, check) -> {
            try {
                check.run();
                System.out.println("ok " + capability);
            } catch (Exception | AssertionError error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                String why = (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replaceAll("\\s+", " ");
                System.out.println("failed " + capability + ": " + why.substring(0, Math.min(500, why.length())));
            }
        });
    }

    static List<String> valuesOf(String of, int count) {
        return IntStream.range(0, count).mapToObj(number -> of + " " + number).collect(Collectors.toList());
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " instead of " + expected);
        }
    }

    static void isTrue(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("not so: " + what);
        }
    }

    static void until(Callable<Boolean> isSo, String what) throws Exception {
        until(isSo, what, PATIENCE);
    }

    static void until(Callable<Boolean> isSo, String what, Duration patience) throws Exception {
        long deadline = System.nanoTime() + patience.toNanos();
        while (!isSo.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + patience.toSeconds() + " s: " + what);
            }
            Thread.sleep(50);
        }
    }

    /** The class of what a call is refused with. */
    static String refusalOf(Check call) throws Exception {
        try {
            call.run();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }
}
