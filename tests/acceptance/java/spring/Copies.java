import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/**
 * Has Spring for Apache Kafka copy the records of a topic: those of a poll in a transaction with their offsets.
 * {@code Copies BOOTSTRAP NAME}
 */
@Configuration
@EnableKafka
public class Copies {
    private static final int LISTENERS = 2;
    private static final int KEYS = 50;
    /** Slow enough that a kill finds most of the records still to be copied. */
    private static final int MILLISECONDS_A_RECORD = 1;
    private static String bootstrap;
    private static String name;

    public static void main(String[] arguments) throws InterruptedException {
        bootstrap = arguments[0];
        name = arguments[1];
        System.setProperty("copies.input", name + "-input");
        new AnnotationConfigApplicationContext(Copies.class);
        Thread.currentThread().join();
    }

    @Bean
    public ProducerFactory<String, String> producers() {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 10_000);
        DefaultKafkaProducerFactory<String, String> factory =
            new DefaultKafkaProducerFactory<>(settings, new StringSerializer(), new StringSerializer());
        // Ids of their own for each process: a killed one's transaction is ended by its timeout, and its work is
        // fenced by the generation of the group.
        factory.setTransactionIdPrefix(name + "-" + ProcessHandle.current().pid() + "-");
        return factory;
    }

    @Bean
    public KafkaTemplate<String, String> template(ProducerFactory<String, String> producers) {
        return new KafkaTemplate<>(producers);
    }

    @Bean
    public ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(
            ProducerFactory<String, String> producers) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, name);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 100);
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6_000);
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 1_500);
        ConcurrentKafkaListenerContainerFactory<String, String> factory =
            new ConcurrentKafkaListenerContainerFactory<>();
        factory.setConsumerFactory(
            new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer()));
        factory.setConcurrency(LISTENERS);
        factory.setBatchListener(true);
        factory.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        return factory;
    }

    @Bean
    public Listener listener(KafkaTemplate<String, String> template) {
        return new Listener(template);
    }

    /** Sends a result for each record: its number, and its place among the records of its key. */
    public static class Listener {
        private final KafkaTemplate<String, String> template;

        Listener(KafkaTemplate<String, String> template) {
            this.template = template;
        }

        @KafkaListener(id = "copies", idIsGroup = false, topics = "${copies.input}")
        public void copy(List<ConsumerRecord<String, String>> records) throws InterruptedException {
            for (ConsumerRecord<String, String> record : records) {
                long number = Long.parseLong(record.value().replaceAll("[^0-9]", ""));
                String result = "{\"number\": " + number + ", \"count\": " + (number / KEYS + 1) + "}";
                template.send(name + "-output", record.key(), result);
                Thread.sleep(MILLISECONDS_A_RECORD);
            }
        }
    }
}
