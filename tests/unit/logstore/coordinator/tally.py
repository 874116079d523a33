"""A made-up kind of coordinator: a count for each name. It shows what a further kind has to write, and nothing more.

Its requests are borrowed, since a call needs a schema: DeleteGroups counts each of its names, DescribeGroups reads them
(the count is in `group_state`), ListGroups lists them. A count that is not looked at for a while is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from barnabas.channel.messages import GroupAnswer, GroupCall
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import encode_body
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import Request, Response
from barnabas.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import BatchHeader, Record
from barnabas_logstore.core.coordinator.runtime.shard import (
    FROM_LOG,
    Change,
    Effect,
    Periodic,
    Result,
    Serve,
    Shard,
    ShardKind,
    Store,
    record_bytes,
)
from barnabas_logstore.core.coordinator.runtime.timers import Deadline, Timers

TOPIC = "__tallies"
DROP_MS: Final = 60_000
"""Counts are dropped so often."""
REST_MS: Final = 1_000
"""A shard that has counted nothing for so long is at rest."""
LATER_MS: Final = 100
"""What is due so long after a count: see `TallyShard.step_due`."""
_COUNT: Final = Struct(">q")


class Counted(Change):
    """A name has this count from now on; 0: it has none."""

    __slots__ = ("count", "name")

    def __init__(self, name: str, count: int, records: list[Record], byte_count: int) -> None:
        super().__init__(records, byte_count)
        self.name = name
        self.count = count


def counted(name: str, count: int, wall_ms: int) -> Counted:
    """Return the change with its record."""
    record = Record(name.encode(), _COUNT.pack(count) if count else None, wall_ms)
    return Counted(name, count, [record], record_bytes(record))


class TallyStore(Store):
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def replay(self, change: Change, offset: int) -> None:
        assert isinstance(change, Counted)
        if change.count:
            self.counts[change.name] = change.count
        else:
            self.counts.pop(change.name, None)

    def stored(self) -> object:
        return dict(self.counts)


class TallyShard(Shard):
    def __init__(self, partition: int, leader_epoch: int, store: TallyStore, result: Result, kind: TallyKind) -> None:
        super().__init__(partition, leader_epoch, store, result)
        self.counts = store.counts
        self._kind = kind
        self._timers: Timers = kind.timers
        self._resting = Deadline(self._rest, result)
        self._to_drop: list[str] = []
        self.is_at_rest = True
        self.committed = 0
        """How many calls have been committed."""
        self.done_later = 0
        self.by_api_key = {
            ApiKey.DELETE_GROUPS: Serve(self._count, ApiKey.DELETE_GROUPS.version_max),
            ApiKey.DESCRIBE_GROUPS: Serve(self._read, ApiKey.DESCRIBE_GROUPS.version_max),
        }

    def loaded(self) -> Iterator[None]:
        self.is_at_rest = not self.counts
        yield

    def stop(self) -> None:
        self._timers.end(self._resting)
        self._kind.due.pop(self, None)

    def _rest(self) -> None:
        self.is_at_rest = True

    def step_due(self) -> None:
        self.done_later += 1

    # --- calls ---

    def _count(self, stream_id: int, call: GroupCall, request: DeleteGroupsRequest) -> None:
        error = self.result.check()
        for name in () if error else request.groups_names:
            if not self.result.put_if_fits(counted(name, self.counts.get(name, 0) + 1, self._kind.clock.wall_ms)):
                error = ErrorCode.INVALID_REQUEST
        if not error:
            self.is_at_rest = False
            self._timers.set(self._resting, self._kind.clock.now_ms + REST_MS)
            self._kind.due[self] = self._kind.clock.now_ms + LATER_MS
            self.result.then(Effect(self._note_committed))
        results = [DeletableGroupResult(name, error) for name in request.groups_names]
        self._answer(stream_id, call, DeleteGroupsResponse(results=results))

    def _note_committed(self) -> None:
        self.committed += 1

    def _read(self, stream_id: int, call: GroupCall, request: DescribeGroupsRequest) -> None:
        described = [
            DescribedGroup(ErrorCode.NONE, None, name, str(self.counts.get(name, 0)), "", "") for name in request.groups
        ]
        self._answer(stream_id, call, DescribeGroupsResponse(groups=described))

    def _answer(self, stream_id: int, call: GroupCall, response: Response) -> None:
        self.result.answer(stream_id, GroupAnswer(call.request_id, body=encode_body(response, call.api_version)))

    # --- what is dropped, some in each step ---

    def begin_to_drop(self) -> None:
        self._to_drop = list(self.counts)

    @property
    def has_piece(self) -> bool:
        return bool(self._to_drop)

    def step_piece(self) -> bool:
        if self._to_drop and not self.result.check():
            self.result.put(counted(self._to_drop.pop(0), 0, self._kind.clock.wall_ms))
        return not self._to_drop


class TallyKind(ShardKind[TallyShard]):
    def __init__(self) -> None:
        super().__init__(TOPIC, ApiKey.LIST_GROUPS, lists_first=False, lists_uncommitted=False)
        self.periodic = [Periodic(DROP_MS, lambda shard: shard.begin_to_drop(), lambda shard: bool(shard.counts))]

    @property
    def unreadable(self) -> str:
        return "the counts in them are not known"

    def new_store(self) -> TallyStore:
        return TallyStore()

    def open(self, partition: int, leader_epoch: int, store: Store, result: Result) -> TallyShard:
        assert isinstance(store, TallyStore)
        return TallyShard(partition, leader_epoch, store, result, self)

    def decode(self, header: BatchHeader, record: Record) -> Change | None:
        if record.key is None:
            raise MalformedFrame("a count without a name")
        (count,) = (0,) if record.value is None else _COUNT.unpack(bytes(record.value))
        return Counted(bytes(record.key).decode(), count, FROM_LOG, 0)

    def new_list(self) -> Response:
        return ListGroupsResponse()

    def list_in_steps(self, request: Request, shards: Sequence[TallyShard], response: Response) -> Iterator[None]:
        assert isinstance(response, ListGroupsResponse)
        for name, count in [each for shard in shards for each in shard.counts.items()]:
            response.groups.append(ListedGroup(name, "tally", str(count), ""))
            yield
