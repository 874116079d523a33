"""What a kind of coordinator is to its runtime: shards, what is stored in them, and the changes of it.

A shard has the rules of one partition of the kind's topic, under one leader epoch. What the partition's log says is in
its `Store`, which `Store.replay` alone changes: live, as each `Change` is put, and at load, as it is read. All else is
soft: a new coordinator does not know it. `Shard.loaded` begins it, `Shard.stop` ends it.

What a shard wants of its log it says to its `Result`, and knows of no other part of the runtime: leadership, loading,
appends, what waits for the commit, lists and containment are not its business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from barnabas.channel.messages import GroupAnswer, GroupCall, GroupCollect
from barnabas.containment import Place, summary_of
from barnabas.wire.errors import ErrorCode
from barnabas.wire.markers import ProducerInTransaction, TransactionEnd
from barnabas.wire.messages import Request, Response
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.runtime.timers import Clock, Timers

NOT_WRITTEN: Final = 2**63 - 1
"""The offset of what this turn's batch will have: behind all that is in the log."""
BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 32
"""An upper bound of length, attributes, deltas and lengths of one record."""

StreamAnswer: TypeAlias = tuple[int, GroupAnswer]
"""Stream id, and what is sent to it."""


def record_bytes(record: Record) -> int:
    """Return an upper bound of what a record takes of a batch."""
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")


def do_all(steps: Iterable[Callable[[], None]]) -> None:
    """Take every step, also after one that has met an unexpected exception; then raise it, or all in one group."""
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"{len(errors)} steps failed, first {summary_of(errors[0])}", errors)


class Change:
    """One change of what is stored in a shard. Subclasses have its values; `Store.replay` needs nothing else."""

    __slots__ = ("byte_count", "records")

    def __init__(self, records: list[Record], byte_count: int) -> None:
        self.records = records
        """Encoded from the same values, in order; none if it was read from the log."""
        self.byte_count = byte_count
        """The sum of their `record_bytes`."""


FROM_LOG: Final[list[Record]] = []
"""The records of a change that was read; never added to."""


def _nothing() -> None:
    """No call waits for it."""


class Effect(NamedTuple):
    """Exactly one of the two is called, once."""

    committed: Callable[[], None]
    lost: Callable[[], None] = _nothing


class Result(ABC):
    """What a shard makes of a call, and of what is due: changes, answers, and what follows the commit."""

    @abstractmethod
    def check(self) -> ErrorCode:
        """Return whether anything can be put in this turn: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (the ISR is
        under its minimum), KAFKA_STORAGE_ERROR. Must be called before a change is put.
        """

    @abstractmethod
    def batch_bytes_max(self) -> int:
        """The maximum size of one batch. A record that does not fit into one with `BATCH_OVERHEAD_BYTES` is the
        shard's to refuse.
        """

    @abstractmethod
    def put(self, change: Change) -> None:
        """Write a change with the turn's batch, and replay it now: calls behind it see what it says."""

    @abstractmethod
    def put_if_fits(self, change: Change) -> bool:
        """Put a change of one record. Return False, and put nothing, if that is too large for one batch."""

    @abstractmethod
    def put_in_transaction(self, change: Change, producer: ProducerInTransaction) -> ErrorCode:
        """Append a change within a producer's transaction now, behind what this turn has put, and replay it.
        INVALID_TXN_STATE: the transaction is not confirmed (`begin_verification`); INVALID_PRODUCER_EPOCH.
        """

    @abstractmethod
    def begin_verification(self, producer: ProducerInTransaction) -> int:
        """Return the guard with which the transaction may begin here once it is confirmed; 0 if it is open."""

    @abstractmethod
    def answer(self, stream_id: int, answer: GroupAnswer) -> None:
        """Send this answer when everything put so far is committed, perhaps immediately.

        COORDINATOR_NOT_AVAILABLE, which means the request may be done, if too much already waits for the commit.
        """

    @abstractmethod
    def answer_now(self, stream_id: int, answer: GroupAnswer) -> None:
        """Send an answer that depends on nothing in the log."""

    @abstractmethod
    def then(self, effect: Effect) -> None:
        """Take the effect when everything put so far is committed, perhaps immediately, or lost."""

    @abstractmethod
    def state_in_doubt(self, place: Place, error: Exception) -> None:
        """Note an unexpected exception that may have left the shard half-changed. Its epoch ends, and after a pause
        begins again.
        """


class Store(ABC):
    """What the log of one partition says. Only `replay` changes it."""

    @abstractmethod
    def replay(self, change: Change, offset: int) -> None:
        """Apply a change whose first record is at `offset` of the log, or NOT_WRITTEN."""

    @abstractmethod
    def stored(self) -> object:
        """Return a comparable copy of what the log says; for tests and checks."""


class Serve(NamedTuple):
    """How an API key is served."""

    serve: Callable[[int, GroupCall, Any], None]
    """Stream id, call, request."""
    version_max: int
    while_loading: Callable[[GroupCall], GroupAnswer] | None = None
    """None: COORDINATOR_LOAD_IN_PROGRESS."""


class Shard(ABC):
    """The rules of one partition, under one leader epoch; under the next one it is opened again.

    `has_piece`, `step_piece`: what a `Periodic` has begun, or the runtime at the word of the whole kind.
    """

    def __init__(self, partition: int, leader_epoch: int, store: Store, result: Result) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.store = store
        self.result = result
        self.by_api_key: Mapping[int, Serve] = {}
        """How each call to it is served, once it is loaded."""

    @abstractmethod
    def loaded(self) -> Iterator[None]:
        """The log has been read: begin sessions, go on with what is decided, yielding after each piece. Calls are
        served once it ends.
        """

    @abstractmethod
    def stop(self) -> None:
        """The epoch is over, or the state is lost: end its timers, and what waits for something else than the log."""

    def collect(self, stream_id: int, collect: GroupCollect) -> None:
        """Return what a call has waited for, or that it still has to wait."""
        self.result.answer_now(stream_id, GroupAnswer(collect.request_id, ErrorCode.INVALID_REQUEST))

    @property
    def has_piece(self) -> bool:
        """Whether there is more to look at, and nothing to wait for."""
        return False

    def step_piece(self) -> bool:
        """Look at some more. Return whether nothing is left to do."""
        return True

    def step_due(self) -> None:
        """The time that the kind has noted in `ShardKind.due` has come."""
        raise NotImplementedError

    def step_held(self) -> None:
        """Look at the answers that are held back (`ShardKind.held`)."""
        raise NotImplementedError


S = TypeVar("S", bound=Shard)


class Periodic(Generic[S]):
    """What all shards of a kind begin every `interval_ms`."""

    def __init__(
        self, interval_ms: int, begin: Callable[[S], None], is_wanted: Callable[[S], bool] | None = None
    ) -> None:
        """`is_wanted` says whether there is anything to look at in a shard, which only changes as something is put or
        loaded: while there is nothing in any shard, nothing is due. None: always, even without a shard.
        """
        self.interval_ms = interval_ms
        self.begin = begin
        self.is_wanted = is_wanted
        self.due_ms: int | None = None


class ShardKind(ABC, Generic[S]):
    """A kind of coordinator, and what all of its shards share."""

    def __init__(self, topic: str, listing_key: int, *, lists_first: bool, lists_uncommitted: bool) -> None:
        """`listing_key` is the API key of the call that lists what is in all shards. A piece of a list is made first in
        a step (`lists_first`), or behind periodic work; it is answered before what it says is committed
        (`lists_uncommitted`), or after that.
        """
        self.topic = topic
        self.listing_key = listing_key
        self.lists_first = lists_first
        self.lists_uncommitted = lists_uncommitted
        self.clock = Clock()
        self.timers = Timers()
        self.periodic: list[Periodic[S]] = []
        self.due: dict[S, int] = {}
        """Shards with something to do at a time of their own; `step_due` does it once."""
        self.held: dict[Shard, None] = {}
        """Shards with answers that are held back."""

    @property
    @abstractmethod
    def unreadable(self) -> str:
        """What is not known if a record can't be read, for operators: "the groups in them are not known"."""

    @abstractmethod
    def new_store(self) -> Store:
        """Return a store of which nothing has been read."""

    @abstractmethod
    def open(self, partition: int, leader_epoch: int, store: Store, result: Result) -> S:
        """Return the shard of a store that `new_store` has returned, before its log is read."""

    @abstractmethod
    def decode(self, header: BatchHeader, record: Record) -> Change | None:
        """Return the change that a record of the log is; None: it is of another kind.

        Raises MalformedFrame if it can't be read, or is what no coordinator writes.
        """

    def change_of_marker(self, ended: TransactionEnd) -> Change:
        """Return the change that the marker of a transaction is, in a log of this kind."""
        raise NotImplementedError(f"{self.topic} takes no markers")

    def leadership_changed(self) -> None:
        """A shard is opened, or lost."""

    def reopened(self, before: S, after: S) -> bool:
        """A shard is opened where another one was. Return whether it has a piece of work from that one."""
        return False

    @abstractmethod
    def new_list(self) -> Response:
        """Return the response to `listing_key` without entries."""

    @abstractmethod
    def list_in_steps(self, request: Request, shards: Sequence[S], response: Response) -> Iterator[None]:
        """Add the entries of all shards to the response, yielding after each that was looked at."""
