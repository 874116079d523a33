"""The transactions of one producer: what Kafka's `TransactionManager` and `Sender`, and librdkafka's `rdkafka_txnmgr.c`
ask for, in which order, and what becomes of errors.

```
STARTING --- InitProducerId --> READY --- begin --> OPEN --- commit --> COMMITTING --- EndTxn(commit) --> READY
                                                     |                      |
                                 abort, or an abortable error               | an abortable error
                                                     v                      v
                                                  ABORTING --- all is known of what was sent: EndTxn(abort) --> READY
                                                     | a batch has failed
                                                     v
                                                  BUMPING --- InitProducerId with its id and epoch (KIP-360) --> READY
any of them --- PRODUCER_FENCED --> FATAL
```

A transaction that timed out is aborted by its coordinator: a batch of it is INVALID_PRODUCER_EPOCH, and in version 2
the producer's abort is a repetition, whose answer has the next epoch. Its commit is refused, as any end is in version
0, and then the producer is of no use any more.

Version 0 adds partitions (AddPartitionsToTxn, AddOffsetsToTxn) before it writes to them; version 2 (KIP-890) adds them
by writing, and each EndTxn answers with the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from barnabas.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from tests.sim.clients.client import UNKNOWN_TOPIC
from tests.sim.clients.committed_offsets import by_topic
from tests.sim.clients.transactions.batches import OpenBatches
from tests.sim.clients.transactions.offsets import OffsetsToCommit, txn_offset_commit_request
from tests.sim.scheduler import MS, InvariantViolation
from tests.sim.transactions.history import ClientTransaction, TopicPartition, TransactionHistory
from tests.sim.transactions.shape import VERSION_2, TransactionHabits

if TYPE_CHECKING:
    from tests.sim.clients.client import Client

_TRANSACTIONS = 1
"""The key type of FindCoordinator."""

_AGAIN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
)
"""From a coordinator: looked for, and asked again."""
_LOOKED_FOR = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_LAST_EPOCH = 2**15 - 2
_NO_MEMBER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
_ABORTABLE = (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)

R = TypeVar("R", bound=Response)


class Stage(Enum):
    STARTING = "has no producer id yet"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    COMMITTING = "it is being committed"
    ABORTING = "it is being aborted"
    BUMPING = "it is aborted, and the producer gets another epoch"
    FATAL = "another producer has its place"


class TransactionManager:
    """Of one life of a client's process. `ended` hears of each transaction: committed, aborted, or None if it can't be
    known, after which the producer is of no use.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        habits: TransactionHabits,
        history: TransactionHistory,
        ended: Callable[[bool | None], None],
    ) -> None:
        self.stage = Stage.STARTING
        self.transaction: ClientTransaction | None = None
        self._client = client
        self.transactional_id = transactional_id
        self._habits = habits
        self._history = history
        self._ended = ended
        self.producer = (-1, -1)
        self._has_found_coordinator = False
        self._asking: dict[str, None] = {}
        """What is being asked, or waits before it is asked again."""
        self._batches = OpenBatches(self, client, habits, history.history)
        self._may_have_copies = False
        """An EndTxn of this epoch was not answered, and sent again."""
        self._instance = 0
        """Its number among those that have begun with the transactional id; 0 before."""
        self._inits_asked = 0
        """InitProducerId requests since the last one was answered with success."""
        self._has_init_copies = False
        self._forget()

    def _forget(self) -> None:
        """The next transaction has nothing of the one before."""
        self._batches.forget()
        self._added: dict[TopicPartition, None] = {}
        self._adding: list[TopicPartition] = []
        """Asked for, and perhaps added."""
        self._offsets: OffsetsToCommit | None = None
        self._adding_group = ""
        self._are_offsets_added = False
        self._has_failed = self._needs_bump = self.is_begun = False

    @property
    def is_version_2(self) -> bool:
        return self._habits.version >= VERSION_2

    # --- the application ----------------------------------------------------------------------------------------------

    def begin(self, group_id: str = "") -> ClientTransaction:
        assert self.stage is Stage.READY
        self.stage = Stage.OPEN
        self._forget()
        self.transaction = self._history.begun(self._client.name, self.transactional_id, self.producer)
        self.transaction.group_id = group_id
        self.transaction.may_be_ended_by_a_copy = self._may_have_copies
        return self.transaction

    def send(self, partition: TopicPartition, values: list[bytes]) -> None:
        """Nothing is taken once the transaction has failed."""
        assert self.transaction is not None
        if self.stage is not Stage.OPEN or self._has_failed:
            return
        for value in values:
            self._history.sending(self.transaction, partition, value)
        self._batches.add(partition, values)

    def send_offsets(self, offsets: OffsetsToCommit) -> None:
        assert self.transaction is not None
        if self.stage is Stage.OPEN and not self._has_failed:
            self._offsets = offsets
            self._history.sending_offsets(self.transaction, offsets.commit_id)

    def commit(self) -> None:
        if self.stage is Stage.OPEN:
            self.stage = Stage.COMMITTING
        self.pump()

    def abort(self) -> None:
        if self.stage is Stage.OPEN:
            self._begin_abort()
        self.pump()

    @property
    def is_ready(self) -> bool:
        """A transaction may begin."""
        return self.stage is Stage.READY

    @property
    def is_busy(self) -> bool:
        return self.stage not in (Stage.READY, Stage.FATAL)

    # --- what is to be done -------------------------------------------------------------------------------------------

    def connected(self) -> None:
        """On a new connection nothing is under way."""
        self._asking.clear()
        self.pump()

    def pump(self) -> None:
        """Ask for whatever is next."""
        if not self._client.is_connected or self.stage in (Stage.FATAL, Stage.READY):
            return
        if not self._has_found_coordinator:
            self._find_coordinator()
            return
        if self.stage in (Stage.STARTING, Stage.BUMPING):
            self._init()
            return
        if self._has_failed and self.stage is not Stage.ABORTING:
            self._begin_abort()
        if self.stage is not Stage.ABORTING:
            self._add_partitions()
            self._commit_offsets()
        else:
            self._add_what_was_asked_for()
        self._batches.send(self._added)
        if self.stage is Stage.COMMITTING and not self._has_open:
            self._end(commit=True)
        elif self.stage is Stage.ABORTING and not self._batches and not self._asking:
            if self.is_begun:
                self._end(commit=False)
            else:
                self._over(committed=False)

    @property
    def _has_open(self) -> bool:
        return bool(self._batches) or self._offsets is not None

    def _begin_abort(self) -> None:
        """What was never sent never is; of the rest the fate has to be known."""
        self.stage = Stage.ABORTING
        self._offsets = None
        self._batches.drop_unsent()

    def fail(self, *, needs_bump: bool) -> None:
        """The transaction can only be aborted."""
        self._has_failed = True
        self._needs_bump = self._needs_bump or needs_bump

    def is_asking(self, what: str) -> bool:
        return what in self._asking

    def _ask(
        self,
        what: str,
        api_key: ApiKey,
        request: Request,
        version: int,
        response_type: type[R],
        answered: Callable[[R], None],
    ) -> None:
        """Once at a time."""
        self._asking[what] = None

        def on_answer(response: R | None) -> None:
            self._asking.pop(what, None)
            if response is not None:
                answered(response)
                self.pump()
            elif what == "ends":
                self._may_have_copies = True

        self._client.ask(api_key, request, version, response_type, on_answer)

    def ask_again(self, what: str, code: int) -> None:
        """After a pause; the coordinator is looked for where it is another one."""
        if code in _LOOKED_FOR:
            self._has_found_coordinator = False
        self._asking[what] = None
        pause_us = self._habits.backoff_ms * MS // 2 + self._client.scheduler.below(self._habits.backoff_ms * MS)

        def again() -> None:
            self._asking.pop(what, None)
            self.pump()

        self._client.meanwhile(pause_us, f"{what} again", again)

    def _unexpected(self, what: str, code: int) -> None:
        if self._client.fails_internally(code):
            self._client.begin_again()
            return
        raise InvariantViolation(
            f"{self._client.name}: {what} of {self.transactional_id} {self.producer} fails with "
            f"{ErrorCode(code).name} while {self.stage.value}"
        )

    @property
    def _is_alone(self) -> bool:
        return self._history.is_last_instance(self.transactional_id, self._instance)

    def _is_fence(self, code: int) -> bool:
        """Another producer id follows the last epoch: then the one before belongs to nothing (KIP-1050)."""
        is_rotated = self.producer[1] >= _LAST_EPOCH or not self._is_alone
        return code in _FENCED or (code == ErrorCode.INVALID_PRODUCER_ID_MAPPING and is_rotated)

    def _is_state_lost(self, code: int) -> bool:
        """Whether the coordinator may have lost that the transaction was begun; clients take the answer for fatal."""
        return code == ErrorCode.INVALID_TXN_STATE and self._history.has_lost_states

    def _fenced(self, what: str) -> None:
        """It may be fenced only by another instance, or by what it has asked for twice itself."""
        if self._is_alone and not self._has_init_copies:
            raise InvariantViolation(
                f"17: {self._client.name}: {what} of {self.transactional_id} {self.producer} is fenced while "
                f"{self.stage.value}, and no other producer has begun with its id"
            )
        self.fatal()

    def fatal(self) -> None:
        self.stage = Stage.FATAL
        self._history.counts.fenced += 1
        self._ended(None)

    # --- the producer -------------------------------------------------------------------------------------------------

    def _find_coordinator(self) -> None:
        if "finds" in self._asking:
            return

        def answered(response: FindCoordinatorResponse) -> None:
            code = response.coordinators[0].error_code
            if code == ErrorCode.NONE:
                self._has_found_coordinator = True
            elif code in _AGAIN:
                self.ask_again("finds", ErrorCode.NONE)
            else:
                self._unexpected("FindCoordinator", code)

        request = FindCoordinatorRequest("", _TRANSACTIONS, [self.transactional_id])
        self._ask("finds", ApiKey.FIND_COORDINATOR, request, 4, FindCoordinatorResponse, answered)

    def _init(self) -> None:
        if "initializes" in self._asking:
            return

        def answered(response: InitProducerIdResponse) -> None:
            code = response.error_code
            if code == ErrorCode.NONE:
                self._inits_asked = 0
                self._history.initialized(self.transactional_id, response.producer_id, response.producer_epoch)
                self._take_producer(response.producer_id, response.producer_epoch)
                was_bumping = self.stage is Stage.BUMPING
                self.stage = Stage.READY
                if was_bumping:
                    self._ended(False)
            elif code in _AGAIN:
                self.ask_again("initializes", code)
            elif code in _FENCED:
                self._fenced("InitProducerId")
            else:
                self._unexpected("InitProducerId", code)

        known = self.producer if self.stage is Stage.BUMPING else (-1, -1)
        if not self._instance or (known == (-1, -1) and not self._is_alone):
            # One that wakes and asks once more, without a producer id, fences what has begun meanwhile.
            self._instance = self._history.instance_begins(self.transactional_id)
        self._inits_asked += 1
        self._has_init_copies = self._has_init_copies or self._inits_asked > 1
        request = InitProducerIdRequest(self.transactional_id, self._habits.timeout_ms, *known)
        self._ask("initializes", ApiKey.INIT_PRODUCER_ID, request, 4, InitProducerIdResponse, answered)

    def _take_producer(self, producer_id: int, producer_epoch: int) -> None:
        if self.producer != (producer_id, producer_epoch):
            self.producer = (producer_id, producer_epoch)
            self._batches.begin_epoch()
            self._may_have_copies = False

    # --- partitions and offsets ---------------------------------------------------------------------------------------

    def _add_partitions(self) -> None:
        wanted = [each for each in self._batches.partitions if each not in self._added]
        if not wanted or "adds partitions" in self._asking:
            return
        if self.is_version_2:
            self._added |= dict.fromkeys(wanted)
            return
        self._adding = wanted
        self._ask_for_partitions(wanted)

    def _add_what_was_asked_for(self) -> None:
        """Before an abort it has to be known whether a transaction has begun: Java's client, too, adds first."""
        if self._adding and "adds partitions" not in self._asking:
            self._ask_for_partitions(self._adding)
        if self._adding_group and "adds offsets" not in self._asking:
            self._add_offsets(self._adding_group)

    def _ask_for_partitions(self, wanted: list[TopicPartition]) -> None:
        topics = [AddPartitionsToTxnTopic(topic, numbers) for topic, numbers in by_topic(wanted).items()]
        request = AddPartitionsToTxnRequest([], self.transactional_id, *self.producer, topics)

        def answered(response: AddPartitionsToTxnResponse) -> None:
            codes = {
                (topic.name, each.partition_index): each.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            code = next((each for each in codes.values() if each != ErrorCode.OPERATION_NOT_ATTEMPTED and each), 0)
            if not code:
                self._added |= dict.fromkeys(wanted)
                self._adding = []
                self.is_begun = True
            else:
                self._coordinator_refused("adds partitions", code)

        self._ask("adds partitions", ApiKey.ADD_PARTITIONS_TO_TXN, request, 3, AddPartitionsToTxnResponse, answered)

    def _coordinator_refused(self, what: str, code: int) -> None:
        if code in (*_AGAIN, *UNKNOWN_TOPIC):
            self.ask_again(what, code)
        elif self._is_fence(code):
            self.fatal()
        elif code == ErrorCode.TRANSACTION_ABORTABLE:
            self.fail(needs_bump=False)
        else:
            self._unexpected(what, code)

    def _commit_offsets(self) -> None:
        offsets = self._offsets
        if offsets is None or "commits offsets" in self._asking or "adds offsets" in self._asking:
            return
        if not self._are_offsets_added and not self.is_version_2:
            self._add_offsets(offsets.group_id)
            return
        self.is_begun = True

        def answered(response: TxnOffsetCommitResponse) -> None:
            codes = [each.error_code for topic in response.topics for each in topic.partitions if each.error_code]
            code = codes[0] if codes else ErrorCode.NONE
            if code == ErrorCode.NONE:
                self._offsets = None
            elif code in (*_AGAIN, *UNKNOWN_TOPIC):
                self.ask_again("commits offsets", ErrorCode.NONE)
            elif code in _NO_MEMBER or code in _ABORTABLE:
                self.fail(needs_bump=code in _ABORTABLE)
            elif self._is_fence(code):
                self.fatal()
            else:
                self._unexpected("TxnOffsetCommit", code)

        request = txn_offset_commit_request(self.transactional_id, self.producer, offsets)
        version = 5 if self.is_version_2 else 3
        self._ask("commits offsets", ApiKey.TXN_OFFSET_COMMIT, request, version, TxnOffsetCommitResponse, answered)

    def _add_offsets(self, group_id: str) -> None:
        self._adding_group = group_id

        def answered(response: AddOffsetsToTxnResponse) -> None:
            if response.error_code:
                self._coordinator_refused("adds offsets", response.error_code)
            else:
                self._adding_group = ""
                self._are_offsets_added = self.is_begun = True

        request = AddOffsetsToTxnRequest(self.transactional_id, *self.producer, group_id)
        self._ask("adds offsets", ApiKey.ADD_OFFSETS_TO_TXN, request, 3, AddOffsetsToTxnResponse, answered)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self, *, commit: bool) -> None:
        if "ends" in self._asking or "adds partitions" in self._asking:
            return
        if not self.is_begun:
            self._over(committed=commit)
            return
        transaction = self.transaction
        assert transaction is not None
        self._history.ending(transaction, commit=commit)

        def answered(response: EndTxnResponse) -> None:
            code = response.error_code
            if code == ErrorCode.NONE:
                self._history.ended(transaction, commit=commit)
                if self.is_version_2:
                    self._history.rotated(self.transactional_id, response.producer_id)
                    self._take_producer(response.producer_id, response.producer_epoch)
                self._over(committed=commit)
            elif code in _AGAIN:
                self.ask_again("ends", code)
            elif self._is_fence(code) and self.is_version_2 and not commit:
                self._fenced("EndTxn")
            elif self._is_fence(code) or self._is_state_lost(code):
                self.fatal()
            elif code == ErrorCode.TRANSACTION_ABORTABLE and commit:
                self.fail(needs_bump=False)
            else:
                self._unexpected(f"EndTxn({commit})", code)

        request = EndTxnRequest(self.transactional_id, *self.producer, commit)
        self._ask("ends", ApiKey.END_TXN, request, 5 if self.is_version_2 else 3, EndTxnResponse, answered)

    def _over(self, *, committed: bool) -> None:
        needs_bump = self._needs_bump and not self.is_version_2
        self.transaction = None
        self._forget()
        self.stage = Stage.BUMPING if needs_bump else Stage.READY
        if needs_bump:
            self.pump()
        else:
            self._ended(committed)
