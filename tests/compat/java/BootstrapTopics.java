import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.snapshot.Snapshots;

/**
 * Adds topics to the first snapshot of a formatted metadata directory, so that a new cluster begins with them
 * under ids of our choice. The second argument is the first producer id that no producer in their logs has. Each further
 * one is a partition, those of a topic in order: "TOPIC TOPIC_ID PARTITION NODE_ID DIRECTORY_ID LEADER_EPOCH".
 */
public final class BootstrapTopics {
    private BootstrapTopics() {
    }

    public static void main(String[] arguments) throws Exception {
        Path log = Path.of(arguments[0], "__cluster_metadata-0");
        Path snapshot = Snapshots.snapshotPath(log, Snapshots.BOOTSTRAP_SNAPSHOT_ID);
        BootstrapMetadata formatted = BootstrapMetadata.fromCheckpointFile(snapshot);
        List<ApiMessageAndVersion> records = new ArrayList<>(formatted.records());
        ProducerIdsRecord ids = new ProducerIdsRecord().setBrokerId(-1).setNextProducerId(Long.parseLong(arguments[1]));
        records.add(new ApiMessageAndVersion(ids, (short) 0));
        for (String given : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] words = given.split(" ");
            Uuid topicId = Uuid.fromString(words[1]);
            int node = Integer.parseInt(words[3]);
            if (words[2].equals("0")) {
                TopicRecord topic = new TopicRecord().setName(words[0]).setTopicId(topicId);
                records.add(new ApiMessageAndVersion(topic, (short) 0));
            }
            PartitionRecord partition = new PartitionRecord()
                .setTopicId(topicId)
                .setPartitionId(Integer.parseInt(words[2]))
                .setReplicas(List.of(node))
                .setIsr(List.of(node))
                .setLeader(node)
                .setLeaderEpoch(Integer.parseInt(words[5]))
                .setPartitionEpoch(0)
                .setDirectories(List.of(Uuid.fromString(words[4])));
            records.add(new ApiMessageAndVersion(partition, (short) 1));
        }
        Files.delete(snapshot);
        BootstrapMetadata extended = BootstrapMetadata.fromRecords(records, formatted.source());
        short withVotersOfTheConfiguration = KRaftVersion.KRAFT_VERSION_0.featureLevel();
        Formatter.writeBoostrapSnapshot(
            arguments[0], extended, Optional.empty(), withVotersOfTheConfiguration, "CONTROLLER");
    }
}
