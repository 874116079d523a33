"""The plan of a replay: the target and order of records, and where an interrupted run continues.

The order is a function of the source alone (per source partition by offset; between partitions by time), so the n-th
record of a target partition is the same in every run: their number determines where to continue, and the only state is
where the target began and where the source ended.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from barnabas_pipeline.core.errors import PipelineError, WrongOption

_UINT32 = 0xFFFFFFFF
_BEHIND_MS_MAX = 1_000
_ANEW = "to start over with the present records, delete both the target and the state"


class ReplayError(PipelineError):
    """A reason why a replay can't equal its source."""


class ReplayJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Replay from a table (`table`, with `format` and `to` as in a tables job) or from a topic's time range."""

    bootstrap_servers: str = "localhost:9092"
    client_config: str = ""
    target: str = ""
    table: str = ""
    format: Literal["iceberg", "delta", "parquet"] = "iceberg"
    to: str = "./data/tables"
    catalog: dict[str, str] = {}
    source_topic: str = ""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    since_ms: int | None = None
    until_ms: int | None = None
    partitions: Literal["same", "by-key"] = "same"
    create: int = 0
    append: bool = False
    rate: int = 0
    state: str = ""

    @property
    def state_path(self) -> str:
        return self.state or f".barnabas-replay-{self.target}.json"

    def identity(self) -> str:
        """What must be the same in a run that continues."""
        which = [self.target, self.table, self.format, self.to, self.source_topic, self.isolation]
        return json.dumps([*which, self.since_ms, self.until_ms, self.partitions])


def replay_job(values: Mapping[str, Any]) -> ReplayJob:
    """Raises WrongOption with one sentence about the first error."""
    try:
        job = msgspec.convert(dict(values), ReplayJob)
    except msgspec.ValidationError as error:
        raise WrongOption(f"invalid replay: {error}") from None
    wrong = ""
    if not job.target:
        wrong = "target, the topic to write to, is required"
    elif not job.table and not job.source_topic:
        wrong = "a table or a source_topic is required"
    elif not job.table and job.source_topic == job.target:
        wrong = "a topic can't be replayed into itself: it would never end"
    elif job.rate < 0 or job.create < 0:
        wrong = "rate and create must be at least 0"
    elif job.since_ms is not None and job.until_ms is not None and job.since_ms > job.until_ms:
        wrong = "since is after until"
    if wrong:
        raise WrongOption(f"invalid replay: {wrong}")
    return job


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """`partition` and `offset` are those in the source; `timestamp_ms` is Kafka's."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def without_time(partition: int, offset: int) -> ReplayError:
    """The error for a record whose timestamp is null, or one that librdkafka would not write."""
    return ReplayError(f"record {partition}/{offset} has no timestamp after 1970: it can't be written unchanged")


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys (org.apache.kafka.common.utils.Utils), as an unsigned number."""
    length = len(data)
    mixed = 0x9747B28C ^ length
    for at in range(0, length - length % 4, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & _UINT32
        word = (word ^ word >> 24) * 0x5BD1E995 & _UINT32
        mixed = (mixed * 0x5BD1E995 & _UINT32) ^ word
    rest = data[length - length % 4 :]
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & _UINT32
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & _UINT32
    return mixed ^ mixed >> 15


def partition_by_key(record: SourceRecord, count: int) -> int:
    """Return the partition of Kafka's default partitioner; records without a key stay together by their former
    partition.
    """
    if record.key is None:
        return record.partition % count
    return (murmur2(record.key) & 0x7FFFFFFF) % count


def in_order(partitions: Mapping[int, Iterable[SourceRecord]]) -> Iterator[SourceRecord]:
    """Yield all records: each partition's in its order, and between partitions the oldest next."""
    iterators = {partition: iter(records) for partition, records in sorted(partitions.items())}
    heads: list[tuple[int, int, SourceRecord]] = []
    for partition, iterator in iterators.items():
        first = next(iterator, None)
        if first is not None:
            heads.append((first.timestamp_ms, partition, first))
    heapq.heapify(heads)
    while heads:
        _, partition, record = heads[0]
        yield record
        following = next(iterators[partition], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following.timestamp_ms, partition, following))


@dataclass(frozen=True, slots=True)
class ReplayState:
    """What a first run stores before its first record. `source_id`: the source topic's, empty for a table. `starts`:
    the target's ends before; `source_starts` and `ends`: the range of the source that is replayed; all by partition."""

    identity: str
    target_id: str
    source_id: str
    starts: Mapping[int, int]
    source_starts: Mapping[int, int]
    ends: Mapping[int, int]

    def document(self) -> str:
        return json.dumps(
            {
                "identity": self.identity,
                "target_id": self.target_id,
                "source_id": self.source_id,
                "starts": _with_text_keys(self.starts),
                "source_starts": _with_text_keys(self.source_starts),
                "ends": _with_text_keys(self.ends),
            }
        )

    def check_source(self, earliest: Mapping[int, int]) -> None:
        """Compare the source's present first offsets with the stored ones: what was deleted since may be missing in the
        target, and changes which record is the n-th. Raises ReplayError."""
        for partition, start in sorted(self.source_starts.items()):
            if self.ends.get(partition, 0) <= start:
                continue
            if partition not in earliest:
                raise ReplayError(f"partition {partition} of the source was removed since this replay began: {_ANEW}")
            if earliest[partition] > start:
                raise ReplayError(
                    f"partition {partition} of the source has lost its records {start} to {earliest[partition] - 1} "
                    f"since this replay began: {_ANEW}"
                )


def _with_text_keys(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in offsets.items()}


def _with_number_keys(offsets: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def read_state(text: str, path: str) -> ReplayState:
    """Raises ReplayError."""
    try:
        document = json.loads(text)
        return ReplayState(
            identity=str(document["identity"]),
            target_id=str(document["target_id"]),
            source_id=str(document["source_id"]),
            starts=_with_number_keys(document["starts"]),
            source_starts=_with_number_keys(document["source_starts"]),
            ends=_with_number_keys(document["ends"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ReplayError(f"{path} is not the state of a replay, or is damaged") from None


@dataclass(slots=True)
class Resumption:
    """Skips what the target already has. `done`: per target partition how many records; `last`: its last record, to be
    compared with the source's: if they differ, another program wrote there, or the source is another."""

    done: Mapping[int, int]
    last: Mapping[int, SourceRecord]
    _seen: dict[int, int] = field(default_factory=dict)

    def is_there(self, target_partition: int, record: SourceRecord) -> bool:
        """Return whether the target has it. Raises ReplayError if the two are not the same."""
        number = self._seen.get(target_partition, 0)
        done = self.done.get(target_partition, 0)
        if number >= done:
            return False
        self._seen[target_partition] = number + 1
        found = self.last.get(target_partition)
        if number + 1 == done and found is not None and not same_record(found, record):
            raise ReplayError(
                f"partition {target_partition} of the target does not end with the source's record "
                f"{record.partition}/{record.offset}: another program wrote to it, or the source changed"
            )
        return True

    def check_all_seen(self) -> None:
        """At the source's end, every record of the target must have been compared. Raises ReplayError."""
        for partition, done in sorted(self.done.items()):
            seen = self._seen.get(partition, 0)
            if seen < done:
                raise ReplayError(
                    f"partition {partition} of the target has {done:,} records of this replay, and the source only "
                    f"{seen:,} for it: records were lost at the source, or another program wrote to the target; {_ANEW}"
                )


def same_record(one: SourceRecord, other: SourceRecord) -> bool:
    """Whether they are equal in all that a replay keeps."""
    return (one.timestamp_ms, one.key, one.value, one.headers) == (
        other.timestamp_ms,
        other.key,
        other.value,
        other.headers,
    )


@dataclass(slots=True)
class Pace:
    """Limit to `rate` records per second, 0 for unlimited, from the first one sent. A stall longer than a second is not
    compensated. All times are of one clock."""

    rate: int
    sent: int = 0
    _begun_ms: int = 0
    _due_from_ms: int = 0

    def wait_ms(self, now_ms: int) -> int:
        """Return how long the next record has to wait."""
        if self.sent == 0:
            self._begun_ms = self._due_from_ms = now_ms
        if self.rate == 0:
            return 0
        planned_ms = self.sent * 1000 // self.rate
        if now_ms - planned_ms - self._due_from_ms > _BEHIND_MS_MAX:
            self._due_from_ms = now_ms - planned_ms
        return max(0, self._due_from_ms + planned_ms - now_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate since the first record."""
        return self.sent * 1000 / max(now_ms - self._begun_ms, 1)
