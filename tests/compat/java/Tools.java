import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Kafka's command line tools and the programs beside this one, one after the other in one JVM: starting a JVM costs
 * more than most of them do.
 *
 * Each line of the input is a main class and its arguments, separated by tabs. The answer is one line: the exit status,
 * and what was written to standard output and to standard error, in Base64, separated by tabs.
 */
public final class Tools {
    private static final class Exited extends RuntimeException {
        final int status;

        Exited(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    private static Exited exited;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int status;
            try (PrintStream toOut = stream(out); PrintStream toErr = stream(err)) {
                System.setOut(toOut);
                System.setErr(toErr);
                status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            }
            answers.println(status + "\t" + encoded(out) + "\t" + encoded(err));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** A tool that catches what is thrown here reports it, and exits with another status: its end was here all the same. */
    private static void exit(int status) {
        if (exited == null) {
            exited = new Exited(status);
            System.setOut(stream(OutputStream.nullOutputStream()));
            System.setErr(stream(OutputStream.nullOutputStream()));
        }
        throw exited;
    }

    private static PrintStream stream(OutputStream to) {
        return new PrintStream(to, true, StandardCharsets.UTF_8);
    }

    private static int run(String name, String[] arguments) throws Exception {
        exited = null;
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return exited == null ? 0 : exited.status;
        } catch (InvocationTargetException failure) {
            if (exited != null) {
                return exited.status;
            }
            failure.getCause().printStackTrace();
            return 1;
        }
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
