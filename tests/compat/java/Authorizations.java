import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer, asked line by line. The fields of a line are separated by tabs; numbers are those of the
 * protocol; "~" is null. Lines that begin with "?", "any", "filter" or "operations" have an answer of one line.
 *
 *   new     super users, whether what falls under no ACL is allowed
 *   +       resource type, pattern type, name, principal, host, operation, permission type
 *   -       the same
 *   ?       principal, host, operation, resource type, name           allowed: 1, denied: 0
 *   any     principal, host, operation, resource type                 the same, by authorizeByResourceType
 *   filter  the fields of +                                           the matching ACLs, by the order of their creation
 *   operations  resource type                                         those that are reported as authorized
 */
public final class Authorizations {
    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 9; }
        public String clientId() { return "client"; }
        public int correlationId() { return 1; }
    }

    private static StandardAuthorizer authorizer;
    private static final Map<StandardAcl, Uuid> IDS = new HashMap<>();
    private static final Map<AclBinding, Integer> NUMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> begin(words[1], words[2]);
                case "+" -> add(acl(words));
                case "-" -> authorizer.removeAcl(IDS.remove(acl(words)));
                case "?" -> answers.println(ask(words));
                case "any" -> answers.println(number(authorizer.authorizeByResourceType(
                    context(words), AclOperation.fromCode(code(words[3])), ResourceType.fromCode(code(words[4])))));
                case "filter" -> answers.println(filtered(words));
                case "operations" -> answers.println(AclEntry.supportedOperations(ResourceType.fromCode(code(words[1])))
                    .stream().map(each -> (int) each.code()).sorted().map(String::valueOf)
                    .collect(Collectors.joining(",")));
                default -> throw new IllegalArgumentException(line);
            }
        }
        answers.flush();
    }

    private static void begin(String superUsers, String allowsWithoutAcls) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowsWithoutAcls));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of("config", "authorizer.class.name")));
        authorizer.completeInitialLoad();
        IDS.clear();
        NUMBERS.clear();
    }

    private static void add(StandardAcl acl) {
        Uuid id = Uuid.randomUuid();
        IDS.put(acl, id);
        NUMBERS.put(acl.toBinding(), NUMBERS.size());
        authorizer.addAcl(id, acl);
    }

    private static String ask(String[] words) throws Exception {
        ResourcePattern resource =
            new ResourcePattern(ResourceType.fromCode(code(words[4])), words[5], PatternType.LITERAL);
        Action action = new Action(AclOperation.fromCode(code(words[3])), resource, 1, false, false);
        return number(authorizer.authorize(context(words), List.of(action)).get(0));
    }

    private static String filtered(String[] words) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.fromCode(code(words[1])), text(words[3]), PatternType.fromCode(code(words[2]))),
            new AccessControlEntryFilter(
                text(words[4]), text(words[5]), AclOperation.fromCode(code(words[6])),
                AclPermissionType.fromCode(code(words[7]))));
        TreeSet<Integer> numbers = new TreeSet<>();
        authorizer.acls(filter).forEach(each -> numbers.add(NUMBERS.get(each)));
        return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    private static StandardAcl acl(String[] words) {
        return new StandardAcl(
            ResourceType.fromCode(code(words[1])), words[3], PatternType.fromCode(code(words[2])), words[4], words[5],
            AclOperation.fromCode(code(words[6])), AclPermissionType.fromCode(code(words[7])));
    }

    private static Context context(String[] words) throws Exception {
        int colon = words[1].indexOf(':');
        KafkaPrincipal principal = new KafkaPrincipal(words[1].substring(0, colon), words[1].substring(colon + 1));
        return new Context(principal, InetAddress.getByName(words[2]));
    }

    private static String number(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "1" : "0";
    }

    private static byte code(String word) {
        return Byte.parseByte(word);
    }

    private static String text(String word) {
        return word.equals("~") ? null : word;
    }
}
