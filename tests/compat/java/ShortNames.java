import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** Makes users of Kerberos principals: a line has rules separated by commas, a tab and a principal; the default realm is an argument. */
public class ShortNames {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] given = line.split("\t", -1);
            String user;
            try {
                KerberosShortNamer namer =
                    KerberosShortNamer.fromUnparsedRules(arguments[0], Arrays.asList(given[0].split(",", -1)));
                user = namer.shortName(KerberosName.parse(given[1]));
            } catch (Exception error) {
                user = "!" + error.getClass().getSimpleName();
            }
            System.out.println(given[0] + "\t" + given[1] + "\t" + user);
        }
    }
}
