import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.AppInfoParser;

/** Kafka's own clients in each cell; cells.py says what a cell has. */
public final class SecurityCells {
    private static final int RECORDS = 20;
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int REFUSED_WITHIN_MS = 10_000;

    private SecurityCells() {
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode cells = new ObjectMapper().readTree(new File(arguments[0]));
        StringBuilder plan = new StringBuilder("plan");
        cells.forEach(cell -> plan.append(' ').append(text(cell, "name")));
        System.out.println("version " + AppInfoParser.getVersion());
        System.out.println(plan);
        for (JsonNode cell : cells) {
            try {
                if (cell.get("is_refused").asBoolean()) {
                    refused(cell);
                } else {
                    use(cell);
                }
                System.out.println("ok " + text(cell, "name"));
            } catch (Exception error) {
                System.out.println("failed " + text(cell, "name") + ": " + error.toString().replace('\n', ' '));
            }
        }
    }

    private static String text(JsonNode cell, String name) {
        return cell.get(name).asText();
    }

    private static Properties properties(JsonNode cell) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", text(cell, "bootstrap"));
        properties.put("security.protocol", text(cell, "protocol"));
        if (!text(cell, "ca").isEmpty()) {
            properties.put("ssl.truststore.type", "PEM");
            properties.put("ssl.truststore.location", text(cell, "ca"));
        }
        if (!text(cell, "certificate").isEmpty()) {
            properties.put("ssl.keystore.type", "PEM");
            properties.put("ssl.keystore.location", text(cell, "certificate"));
        }
        String mechanism = text(cell, "mechanism");
        if (mechanism.equals("OAUTHBEARER")) {
            // Java's clients read no file that the JVM was not allowed to, and write its URL in two ways.
            File token = new File(text(cell, "token_path"));
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls",
                "file://" + token + "," + token.toURI());
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", token.toString());
            String oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin";
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", oauth + "Module required;");
            properties.put("sasl.login.callback.handler.class", oauth + "CallbackHandler");
            properties.put("sasl.oauthbearer.token.endpoint.url", "file://" + token);
        } else if (mechanism.equals("GSSAPI")) {
            System.setProperty("java.security.krb5.conf", text(cell, "krb5_conf"));
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.kerberos.service.name", text(cell, "service"));
            properties.put("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                + "storeKey=true keyTab=\"" + text(cell, "keytab") + "\" principal=\"" + text(cell, "principal")
                + "\";");
        } else if (!mechanism.isEmpty()) {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            properties.put("sasl.mechanism", mechanism);
            properties.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\""
                + text(cell, "user") + "\" password=\"" + text(cell, "password") + "\";");
        }
        return properties;
    }

    private static void use(JsonNode cell) throws Exception {
        List<String> sent = new ArrayList<>();
        String topic = text(cell, "topic");
        try (var producer = new KafkaProducer<>(properties(cell), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                sent.add(text(cell, "name") + " " + number);
                producer.send(new ProducerRecord<>(topic, 0, null, sent.get(number)))
                    .get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            }
        }
        List<String> found = new ArrayList<>();
        Properties reading = properties(cell);
        reading.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> assigned = List.of(new TopicPartition(topic, 0));
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            for (long end = System.nanoTime() + PATIENCE.toNanos(); found.size() < RECORDS && System.nanoTime() < end;) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    found.add(each.value());
                }
            }
        }
        if (!found.equals(sent)) {
            throw new IllegalStateException("read " + found.size() + " records that are not those sent");
        }
    }

    private static void refused(JsonNode cell) throws Exception {
        long begin = System.nanoTime();
        try (Admin admin = Admin.create(properties(cell))) {
            admin.describeCluster().nodes().get(2L * REFUSED_WITHIN_MS, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
            if (!(error.getCause() instanceof AuthenticationException) || tookMs > REFUSED_WITHIN_MS) {
                throw new IllegalStateException("refused after " + tookMs + " ms by " + error.getCause());
            }
            return;
        }
        throw new IllegalStateException("it is let in");
    }
}
