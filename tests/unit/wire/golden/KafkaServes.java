import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiVersionsResponse;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * What a broker of Kafka lists in ApiVersions for clients: API keys with their versions (telemetry too, and no version
 * that is unstable), features with those supported and the one by default. Also every error. Columns are separated by
 * tabs, the first says what a row is of.
 */
public final class KafkaServes {
    private KafkaServes() {
    }

    public static void main(String[] arguments) {
        boolean withUnstableVersions = false;
        boolean withTelemetry = true;
        ApiVersionsResponse.brokerApiVersions(ListenerType.BROKER, withUnstableVersions, withTelemetry).stream()
            .sorted(Comparator.comparing(ApiVersion::apiKey))
            .forEach(each -> print("key", each.apiKey(), ApiKeys.forId(each.apiKey()).name, each.minVersion(),
                each.maxVersion()));
        Stream.of(Errors.values()).sorted(Comparator.comparing(Errors::code))
            .forEach(each -> print("error", each.code(), each.name()));
        short metadataVersion = MetadataVersion.latestProduction().featureLevel();
        print("feature", MetadataVersion.FEATURE_NAME, MetadataVersion.MINIMUM_VERSION.featureLevel(), metadataVersion,
            metadataVersion);
        Feature.PRODUCTION_FEATURES.stream().sorted(Comparator.comparing(Feature::featureName))
            .forEach(each -> print("feature", each.featureName(), each.minimumProduction(), each.latestProduction(),
                each.defaultLevel(MetadataVersion.latestProduction())));
    }

    private static void print(Object... columns) {
        System.out.println(String.join("\t", Stream.of(columns).map(String::valueOf).toList()));
    }
}
