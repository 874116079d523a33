import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Every configuration key of Kafka's brokers and topics: name, type, default, valid values, and for brokers how it
 * may change, for topics the broker keys that it follows. Its output is tests/unit/cluster/kafka_configs.tsv:
 *
 * java -cp ".cache/peer/libs/*" tests/compat/java/ConfigKeys.java 2>/dev/null > tests/unit/cluster/kafka_configs.tsv
 */
public class ConfigKeys {
    public static void main(String[] arguments) {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : sorted(AbstractKafkaConfig.CONFIG_DEF)) {
            print("broker", key, modes.getOrDefault(key.name, "read-only"));
        }
        for (ConfigDef.ConfigKey key : sorted(LogConfig.configDefCopy())) {
            if (!key.internalConfig) {
                print("topic", key, synonyms(key.name));
            }
        }
        TreeSet<String> quotas = new TreeSet<>(DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS);
        quotas.removeAll(AbstractKafkaConfig.CONFIG_DEF.names());
        quotas.forEach(name -> System.out.println("dynamic only\t" + name));
    }

    private static Iterable<ConfigDef.ConfigKey> sorted(ConfigDef definition) {
        return new TreeMap<>(definition.configKeys()).values();
    }

    private static String synonyms(String topicKey) {
        return ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(topicKey, List.of()).stream()
                .map(synonym -> synonym.name()).collect(Collectors.joining(","));
    }

    private static String valid(ConfigDef.ConfigKey key) {
        return key.validator == null ? "" : key.validator.toString();
    }

    private static void print(String kind, ConfigDef.ConfigKey key, String last) {
        boolean unset = key.defaultValue == null || key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
        String value = unset ? "null" : ConfigDef.convertToString(key.defaultValue, key.type);
        System.out.println(String.join("\t", kind, key.name, key.type.toString(), value, valid(key), last));
    }
}
