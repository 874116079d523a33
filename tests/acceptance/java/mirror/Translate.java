import java.time.Duration;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks a cluster by RemoteClusterUtils about one that is mirrored into it: bootstrap address, alias, group.
 *
 * Writes `upstream <aliases>`, `hops <alias> <number>`, `checkpoints <topics>`, and for each partition
 * `offset <topic> <partition> <offset>`: where the group goes on.
 */
public final class Translate {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private Translate() {
    }

    public static void main(String[] arguments) throws Exception {
        String alias = arguments[1];
        Map<String, Object> cluster = Map.of("bootstrap.servers", arguments[0]);
        System.out.println("upstream " + String.join(" ", new TreeSet<>(RemoteClusterUtils.upstreamClusters(cluster))));
        System.out.println("hops " + alias + " " + RemoteClusterUtils.replicationHops(cluster, alias));
        System.out.println(
                "checkpoints " + String.join(" ", new TreeSet<>(RemoteClusterUtils.checkpointTopics(cluster))));
        RemoteClusterUtils.translateOffsets(cluster, alias, arguments[2], TIMEOUT).forEach((partition, offset) ->
                System.out.println("offset " + partition.topic() + " " + partition.partition() + " " + offset.offset()));
    }
}
