import java.util.Optional;
import java.util.Set;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.internals.ProducerIdAndEpoch;
import org.apache.kafka.coordinator.transaction.CoordinatorEpochAndTxnMetadata;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionConfig;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TransactionalIdAndProducerIdEpoch;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Function1;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;
import scala.util.Either;
import scala.util.Right;

/**
 * What Kafka's own TransactionCoordinator makes of each request, in each state, at each epoch, as lines
 * `cluster's version TAB state TAB producer id/epoch/last epoch/previous id TAB request TAB outcome`. An outcome is an
 * error, or what the transaction becomes, and what the client is answered.
 */
public class KafkaAnswers {
    static final short MAX = Short.MAX_VALUE;
    static final long FRESH = 99;
    static TransactionMetadata known;
    static TxnTransitMetadata written;
    static String answer;
    static TransactionVersion cluster;

    public static void main(String[] args) {
        for (TransactionVersion each : new TransactionVersion[] {TransactionVersion.TV_1, TransactionVersion.TV_2}) {
            cluster = each;
            for (TransactionState state : TransactionState.values())
                if (state.id() <= TransactionState.COMPLETE_ABORT.id() && (cluster == TransactionVersion.TV_2 || state == TransactionState.ONGOING))
                    for (int[] at : new int[][] {{5, 4, 7}, {5, -1, 7}, {MAX - 2, MAX - 3, 7}, {MAX - 1, MAX - 2, 7}, {MAX, MAX - 1, 7}, {0, MAX - 1, 6}})
                        if (state.id() < TransactionState.PREPARE_COMMIT.id() || state.id() > TransactionState.PREPARE_ABORT.id() || at[0] > 0)
                            rows(state, at);
        }
    }

    static void rows(TransactionState state, int[] at) {
        row(state, at, "init", c -> init(c, Option.empty()));
        row(state, at, "timeout", c -> c.abortTimedOutTransactions(id -> (error, producerId, epoch) -> answered(error.name(), producerId, epoch)));
        long[][] producers = {{7, at[0]}, {7, at[0] - 1}, {7, at[0] - 2}, {7, at[0] + 1}, {6, MAX - 1}, {8, at[0]}};
        for (long[] who : producers) {
            if (who[1] < 0 || who[1] > MAX)
                continue;
            String name = " " + who[0] + "/" + who[1];
            short epoch = (short) who[1];
            row(state, at, "init" + name, c -> init(c, Option.apply(new ProducerIdAndEpoch(who[0], epoch))));
            if (cluster != TransactionVersion.TV_2)
                continue;
            for (TransactionVersion version : new TransactionVersion[] {TransactionVersion.TV_0, TransactionVersion.TV_2})
                for (TransactionResult result : new TransactionResult[] {TransactionResult.COMMIT, TransactionResult.ABORT})
                    row(state, at, result.name().toLowerCase() + " v" + version.featureLevel() + name,
                        c -> c.handleEndTransaction("id", who[0], epoch, result, version,
                            (error, id, e) -> answered(error.name(), id, e), RequestLocal.noCaching()));
            row(state, at, "add v2" + name, c -> c.handleAddPartitionsToTransaction("id", who[0], epoch, Set.of(new TopicPartition("u", 0)),
                error -> answered(error.name(), -1L, (short) -1), TransactionVersion.TV_2, RequestLocal.noCaching()));
            row(state, at, "verify" + name, c -> c.handleVerifyPartitionsInTransaction("id", who[0], epoch, Set.of(new TopicPartition("t", 0)),
                result -> answered(Errors.forCode(result.topicResults().iterator().next().resultsByPartition().iterator().next().partitionErrorCode()).name(), -1L, (short) -1)));
        }
    }

    static void init(TransactionCoordinator coordinator, Option<ProducerIdAndEpoch> expected) {
        coordinator.handleInitProducerId("id", 60_000, false, false, expected,
            result -> answered(result.error().name(), result.producerId(), result.producerEpoch()), RequestLocal.noCaching());
    }

    static BoxedUnit answered(String error, Object producerId, Object epoch) {
        answer = error.equals("NONE") ? "NONE " + producerId + "/" + epoch : error;
        return BoxedUnit.UNIT;
    }

    interface Call { void on(TransactionCoordinator coordinator); }

    static void row(TransactionState state, int[] at, String request, Call call) {
        boolean isUnderWay = state == TransactionState.ONGOING || state == TransactionState.PREPARE_COMMIT || state == TransactionState.PREPARE_ABORT;
        Set<TopicPartition> partitions = isUnderWay ? Set.of(new TopicPartition("t", 0)) : Set.of();
        known = new TransactionMetadata("id", 7, at[2], -1, (short) at[0], (short) at[1], 60_000, state, partitions, 1, 1, TransactionVersion.TV_2);
        if (state == TransactionState.PREPARE_COMMIT || state == TransactionState.PREPARE_ABORT)
            known.prepareComplete(2);  // its markers are on their way
        written = null;
        answer = null;
        String thrown = "";
        try {
            call.on(new TransactionCoordinator(new TransactionConfig(), null, () -> new Ids(), new States(), null, Time.SYSTEM, new LogContext()));
        } catch (NullPointerException markersAreNotSent) {
            if (answer == null) throw markersAreNotSent;
        } catch (IllegalArgumentException | IllegalStateException failed) {
            thrown = "UNKNOWN_SERVER_ERROR";
        }
        String became = written == null ? "" : written.txnState() + " " + written.producerId() + "/" + written.producerEpoch()
            + "/" + written.lastProducerEpoch() + "/" + written.prevProducerId() + " next " + written.nextProducerId()
            + " version " + written.clientTransactionVersion().featureLevel() + " ";
        String outcome = thrown.isEmpty() ? became + (answer == null ? "nothing" : answer) : thrown;
        System.out.println(cluster.featureLevel() + "\t" + state.name() + "\t7/" + at[0] + "/" + at[1] + "/" + at[2] + "\t" + request + "\t" + outcome);
    }

    static class Ids implements ProducerIdManager {
        @Override public long generateProducerId() { return FRESH; }
    }

    /** Holds one transaction. What is to be written is written at once. */
    static class States extends TransactionStateManager {
        States() {
            super(0, null, null, null, new TransactionConfig(), Time.SYSTEM, new Metrics());
        }

        @Override public TransactionVersion transactionVersionLevel() { return cluster; }

        @Override public boolean isTransaction2pcEnabled() { return false; }

        @Override public boolean validateTransactionTimeoutMs(boolean enableTwoPC, int timeoutMs) { return true; }

        @Override public Either<Errors, Option<CoordinatorEpochAndTxnMetadata>> getTransactionState(String id) {
            return Right.apply(Option.apply(new CoordinatorEpochAndTxnMetadata(1, known)));
        }

        @Override public scala.collection.Iterable<TransactionalIdAndProducerIdEpoch> timedOutTransactions() {
            boolean isLate = known.state() == TransactionState.ONGOING;
            return CollectionConverters.asScala(isLate
                ? Set.of(new TransactionalIdAndProducerIdEpoch("id", known.producerId(), known.producerEpoch())) : Set.of());
        }

        @Override public void appendTransactionToLog(String id, int epoch, TxnTransitMetadata next, Function1<Errors, BoxedUnit> done,
                Function1<Errors, Object> retries, RequestLocal local) {
            written = next;
            known.completeTransitionTo(next);
            done.apply(Errors.NONE);
        }
    }
}
