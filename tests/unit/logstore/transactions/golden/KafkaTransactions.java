import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

/**
 * What Kafka's own transaction coordinator writes at each change of a transaction, as lines `name TAB key TAB value` in
 * hex. Each name begins with the transaction version.
 */
public class KafkaTransactions {
    static final long WALL_MS = 1_700_000_000_000L;

    public static void main(String[] args) {
        for (TransactionVersion version : new TransactionVersion[] {TransactionVersion.TV_0, TransactionVersion.TV_1, TransactionVersion.TV_2}) {
            TransactionVersion client = version == TransactionVersion.TV_2 ? version : TransactionVersion.TV_0;
            TransactionMetadata one = metadata((short) -1);
            step(version, "begun", one, one.prepareIncrementProducerEpoch(60_000, Optional.empty(), WALL_MS + 1));
            step(version, "ongoing", one, one.prepareAddPartitions(Set.of(new TopicPartition("t", 1)), WALL_MS + 2, client));
            step(version, "more", one, one.prepareAddPartitions(Set.of(new TopicPartition("u", 3)), WALL_MS + 3, client));
            step(version, "prepare commit", one, one.prepareAbortOrCommit(TransactionState.PREPARE_COMMIT, client, -1, WALL_MS + 4, false));
            step(version, "committed", one, one.prepareComplete(WALL_MS + 5));
            step(version, "next", one, one.prepareAddPartitions(Set.of(new TopicPartition("u", 0)), WALL_MS + 6, client));
            fence(one, version);
            step(version, "fenced", one, one.prepareAbortOrCommit(TransactionState.PREPARE_ABORT, client, -1, WALL_MS + 7, false));
            step(version, "aborted", one, one.prepareComplete(WALL_MS + 8));
            step(version, "again", one, one.prepareIncrementProducerEpoch(50_000, Optional.empty(), WALL_MS + 9));
            TransactionMetadata last = metadata((short) (Short.MAX_VALUE - 1));
            step(version, "last epoch", last, last.prepareAddPartitions(Set.of(new TopicPartition("t", 1)), WALL_MS + 1, client));
            long next = version == TransactionVersion.TV_2 ? 8 : -1;
            step(version, "last prepare", last, last.prepareAbortOrCommit(TransactionState.PREPARE_ABORT, client, next, WALL_MS + 2, false));
            step(version, "last aborted", last, last.prepareComplete(WALL_MS + 3));
            if (version != TransactionVersion.TV_2)
                step(version, "rotated", last, last.prepareProducerIdRotation(8, 60_000, WALL_MS + 4, true));
            else
                step(version, "empty abort", last, last.prepareAbortOrCommit(TransactionState.PREPARE_ABORT, client, -1, WALL_MS + 4, true));
        }
    }

    static TransactionMetadata metadata(short epoch) {
        return new TransactionMetadata("my-id", 7, -1, -1, epoch, (short) -1, 60_000, TransactionState.EMPTY, Set.of(), -1,
            WALL_MS, TransactionVersion.TV_0);
    }

    /** As the coordinator does it before it aborts a transaction of an earlier producer: in version 2 the abort raises the epoch. */
    static void fence(TransactionMetadata transaction, TransactionVersion version) {
        short epoch = transaction.prepareFenceProducerEpoch().producerEpoch();
        transaction.pendingState(Optional.empty());
        if (version == TransactionVersion.TV_2)
            return;
        transaction.setProducerEpoch(epoch);
        transaction.setLastProducerEpoch((short) -1);
    }

    static void step(TransactionVersion version, String name, TransactionMetadata transaction, TxnTransitMetadata next) {
        byte[] value = TransactionLog.valueToBytes(next, version);
        System.out.println(version.featureLevel() + " " + name + "\t" + hex(TransactionLog.keyToBytes("my-id")) + "\t" + hex(value));
        transaction.completeTransitionTo(next);
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
