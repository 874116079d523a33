import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;

/** What one `open` command asks for, in words of the form key=value. */
record Workload(
        String bootstrap,
        String topicPrefix,
        int topics,
        int partitions,
        int replicas,
        int recordBytes,
        int producersPerTopic,
        int subscriptionsPerTopic,
        int consumersPerSubscription,
        int inFlight) {

    static Map<String, String> words(String line) {
        return Arrays.stream(line.trim().split(" "))
                .filter(word -> word.contains("="))
                .map(word -> word.split("=", 2))
                .collect(Collectors.toMap(word -> word[0], word -> word[1]));
    }

    static Workload of(Map<String, String> words) {
        return new Workload(
                words.get("bootstrap"),
                words.get("topic"),
                number(words, "topics"),
                number(words, "partitions"),
                number(words, "replicas"),
                number(words, "bytes"),
                number(words, "producers"),
                number(words, "subscriptions"),
                number(words, "consumers"),
                number(words, "in_flight"));
    }

    String topic(int number) {
        return topicPrefix + "-" + number;
    }

    /** Return how many records the consumers receive if each producer sends one. */
    int copiesOfOneRecordEach() {
        return topics * producersPerTopic * subscriptionsPerTopic;
    }

    private static int number(Map<String, String> words, String key) {
        return Integer.parseInt(words.get(key));
    }
}
