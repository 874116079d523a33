"""The plan of a replay: which record goes where, in which order, and where a run goes on that was cut short.

The order is a function of the source alone (per source partition by offset; between partitions by time), so the n-th
record of a target partition is the same in every run: how many there are says where to go on, and no state is needed
but where the target began and where the source ended.
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
_ANEW = "to begin anew with what there is, delete both the target and the state"


class ReplayError(PipelineError):
    """What keeps a replay from being equal to its source."""


class ReplayJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From a table (`table`, with `format` and `to` as a tables job has them) or from a topic's time range."""

    bootstrap_servers: str = "localhost:9092"
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
        """What must be the same in a run that goes on."""
        which = [self.target, self.table, self.format, self.to, self.source_topic, self.isolation]
        return json.dumps([*which, self.since_ms, self.until_ms, self.partitions])


def replay_job(values: Mapping[str, Any]) -> ReplayJob:
    """Raises WrongOption with one sentence about the first thing that is wrong."""
    try:
        job = msgspec.convert(dict(values), ReplayJob)
    except msgspec.ValidationError as error:
        raise WrongOption(f"this replay can't be: {error}") from None
    wrong = ""
    if not job.target:
        wrong = "a target, the topic to write to, is needed"
    elif not job.table and not job.source_topic:
        wrong = "a table, or a source_topic, is needed"
    elif not job.table and job.source_topic == job.target:
        wrong = "a topic can't be replayed into itself: it would never end"
    elif job.rate < 0 or job.create < 0:
        wrong = "rate and create are at least 0"
    elif job.since_ms is not None and job.until_ms is not None and job.since_ms > job.until_ms:
        wrong = "since is after until"
    if wrong:
        raise WrongOption(f"this replay can't be: {wrong}")
    return job


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """`partition` and `offset` are those that it had; `timestamp_ms` is Kafka's."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def without_time(partition: int, offset: int) -> ReplayError:
    """Of a record whose timestamp is null, or none that librdkafka would write."""
    return ReplayError(f"record {partition}/{offset} has no timestamp after 1970: it can't be written as it was")


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
    """Where Kafka's default partitioner puts it; records without a key stay together by the partition they had."""
    if record.key is None:
        return record.partition % count
    return (murmur2(record.key) & 0x7FFFFFFF) % count


def in_order(partitions: Mapping[int, Iterable[SourceRecord]]) -> Iterator[SourceRecord]:
    """All records: each partition's in its order, and between partitions the oldest next."""
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
    """What a first run writes down before its first record. `source_id`: the source topic's, empty for a table.
    `starts`: the target's ends before; `source_starts` and `ends`: the source's, from where and up to where it is
    replayed; all by partition."""

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
        """Hold the source's first offsets of now to those of then: what went away since may be what the target lacks,
        and changes which record is the n-th. Raises ReplayError."""
        for partition, start in sorted(self.source_starts.items()):
            if self.ends.get(partition, 0) <= start:
                continue
            if partition not in earliest:
                raise ReplayError(f"partition {partition} of the source has gone since this replay began: {_ANEW}")
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
        raise ReplayError(f"{path} is no state of a replay, or damaged") from None


@dataclass(slots=True)
class Resumption:
    """Passes over what the target has already. `done`: per target partition how many; `last`: its last record, to be
    held against the source's: if they differ, someone else wrote there, or the source is another."""

    done: Mapping[int, int]
    last: Mapping[int, SourceRecord]
    _seen: dict[int, int] = field(default_factory=dict)

    def is_there(self, target_partition: int, record: SourceRecord) -> bool:
        """Whether the target has it. Raises ReplayError where the two are not the same."""
        number = self._seen.get(target_partition, 0)
        done = self.done.get(target_partition, 0)
        if number >= done:
            return False
        self._seen[target_partition] = number + 1
        found = self.last.get(target_partition)
        if number + 1 == done and found is not None and not same_record(found, record):
            raise ReplayError(
                f"partition {target_partition} of the target does not end with the source's record "
                f"{record.partition}/{record.offset}: someone else wrote to it, or the source changed"
            )
        return True

    def check_all_seen(self) -> None:
        """At the source's end: all that the target had must have come by, or nothing was held against it. Raises
        ReplayError."""
        for partition, done in sorted(self.done.items()):
            seen = self._seen.get(partition, 0)
            if seen < done:
                raise ReplayError(
                    f"partition {partition} of the target has {done:,} records of this replay, and the source only "
                    f"{seen:,} for it: the source has lost records since, or someone else wrote to the target; {_ANEW}"
                )


def same_record(one: SourceRecord, other: SourceRecord) -> bool:
    """Equal in all that a replay keeps."""
    return (one.timestamp_ms, one.key, one.value, one.headers) == (
        other.timestamp_ms,
        other.key,
        other.value,
        other.headers,
    )


@dataclass(slots=True)
class Pace:
    """At most `rate` records a second, 0 for no bound, from the first that is sent. What a stall longer than a second
    held up is not made up for. The times given are of one clock."""

    rate: int
    sent: int = 0
    _begun_ms: int = 0
    _due_from_ms: int = 0

    def wait_ms(self, now_ms: int) -> int:
        """How long the next record has to wait."""
        if self.sent == 0:
            self._begun_ms = self._due_from_ms = now_ms
        if self.rate == 0:
            return 0
        planned_ms = self.sent * 1000 // self.rate
        if now_ms - planned_ms - self._due_from_ms > _BEHIND_MS_MAX:
            self._due_from_ms = now_ms - planned_ms
        return max(0, self._due_from_ms + planned_ms - now_ms)

    def per_second(self, now_ms: int) -> float:
        """Since the first record that was sent."""
        return self.sent * 1000 / max(now_ms - self._begun_ms, 1)
