import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own producer for a recording. Its settings are the arguments, as key=value; lines of standard input are
 * "topic partition value padding" up to an empty one. Prints "SENT" once every record waits in the producer, and then for
 * each "partition value offset" or "partition value Error" as it is reported.
 */
public class ScriptedProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        for (String argument : arguments) {
            settings.put(argument.substring(0, argument.indexOf('=')), argument.substring(argument.indexOf('=') + 1));
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = input.readLine(); !line.isEmpty(); line = input.readLine()) {
                String[] words = line.split(" ");
                int partition = Integer.parseInt(words[1]);
                byte[] value = (words[2] + " " + words[3]).getBytes();
                producer.send(new ProducerRecord<>(words[0], partition, null, value), (metadata, error) -> {
                    String outcome = error == null ? "" + metadata.offset() : error.getClass().getSimpleName();
                    System.out.println(partition + " " + words[2] + " " + outcome);
                });
            }
            System.out.println("SENT");
            producer.flush();
        }
        System.exit(0);
    }
}
