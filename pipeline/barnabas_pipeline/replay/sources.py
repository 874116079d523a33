"""The sources of a replay's records, each source partition in its order."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from barnabas_pipeline.core.errors import TopicMissing
from barnabas_pipeline.core.losses import Loss
from barnabas_pipeline.core.positions import TopicPartition
from barnabas_pipeline.core.ranges import OffsetRange
from barnabas_pipeline.core.replay import ReplayError, ReplayJob, SourceRecord, without_time
from barnabas_pipeline.kafka.cluster_client import EARLIEST, LATEST, ClusterClient
from barnabas_pipeline.kafka.reading import read_range
from barnabas_pipeline.replay.windows import NEEDED, Window, read_into
from barnabas_pipeline.tables.contract import Table
from barnabas_pipeline.tables.rows_of_files import as_schema, read_rows

_PLACES = pa.schema([NEEDED.field(name) for name in ("topic", "partition", "offset")])
_HELD_BYTES = 256 * 1024 * 1024
"""Columns of a table's rows, as Arrow has them."""
_CONVERTED_ROWS = 50_000
"""The same as Python objects."""


class Source(Protocol):
    @property
    def source_id(self) -> str:
        """The topic's id; empty for a table."""

    def earliest(self) -> Mapping[int, int]:
        """By partition the offset of the first record that exists now, or one before it."""

    def starts(self) -> Mapping[int, int]:
        """By partition an offset before which there is nothing of the job's time range."""

    def ends(self) -> Mapping[int, int]:
        """By partition the offset after the last record that exists now."""

    def records(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, Iterator[SourceRecord]]:
        """Yield the records from `starts` on and before `ends`, of the job's time range, by partition and in order."""


@dataclass(frozen=True, slots=True)
class _FileExtent:
    uri: str
    first: int
    last: int


@dataclass(slots=True)
class TableSource:
    """A raw table, or a decoded one that kept its values' bytes, read with bounded memory.

    `topic` is required if the table has several.
    """

    table: Table
    job: ReplayJob
    _extents: dict[int, list[_FileExtent]] = field(default_factory=dict)
    _prefix: str = ""

    @classmethod
    def open(cls, table: Table, job: ReplayJob) -> TableSource:
        names = table.arrow_schema().names
        prefix = "_" if "_offset" in names else ""
        lacking = [name for name in NEEDED.names if prefix + name not in names]
        if lacking:
            raise ReplayError(
                f"table {table.name} has no column {prefix}{lacking[0]}: a replay needs complete records: a raw table, "
                "or a decoded one created with --keep-raw"
            )
        source = cls(table, job, {}, prefix)
        source._find_extents()
        return source

    @property
    def source_id(self) -> str:
        return ""

    def earliest(self) -> Mapping[int, int]:
        return {partition: files[0].first for partition, files in self._extents.items()}

    def starts(self) -> Mapping[int, int]:
        return self.earliest()

    def ends(self) -> Mapping[int, int]:
        return {partition: max(each.last for each in files) + 1 for partition, files in self._extents.items()}

    def records(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, Iterator[SourceRecord]]:
        del starts  # of a table nothing lies before them
        return {partition: self._records_of(partition, end) for partition, end in sorted(ends.items())}

    def _find_extents(self) -> None:
        """Find the offsets of each partition in each file, by reading three columns of each file once."""
        topics: set[str] = set()
        found: dict[int, list[_FileExtent]] = {}
        for file in self.table.files():
            rows = self._places(file.uri)
            topics.update(pc.unique(rows["topic"]).to_pylist())
            bounds = self._of_topic(rows).group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
            for each in bounds.to_pylist():
                extent = _FileExtent(file.uri, each["offset_min"], each["offset_max"])
                found.setdefault(each["partition"], []).append(extent)
        if len(topics) > 1 and not self.job.source_topic:
            raise ReplayError(f"the table has records of {', '.join(sorted(topics))}: choose one with --source-topic")
        for topic in topics if not self.job.source_topic else {self.job.source_topic}:
            self._check_not_recreated(topic)
        self._extents = {partition: sorted(files, key=lambda each: each.first) for partition, files in found.items()}

    def _check_not_recreated(self, topic: str) -> None:
        """Rows don't contain their topic's id: those of two topics would be mixed unless their offsets collide."""
        if self.table.was_recreated(topic) and self.job.since_ms is None and self.job.until_ms is None:
            raise ReplayError(
                f"table {self.table.name} has records of two topics {topic}, since it was deleted and recreated: with "
                "--since or --until, select one topic's records"
            )

    def _of_topic(self, rows: pa.Table) -> pa.Table:
        wanted = self.job.source_topic
        return rows.filter(pc.equal(rows["topic"], wanted)) if wanted else rows

    def _places(self, uri: str) -> pa.Table:
        with self._reported_if_gone(uri):
            rows = read_rows(uri, [self._prefix + name for name in _PLACES.names])
        return as_schema(rows.rename_columns([name.removeprefix(self._prefix) for name in rows.column_names]), _PLACES)

    def _records_of(self, partition: int, end: int) -> Iterator[SourceRecord]:
        """Files whose offset ranges overlap (possible in an upsert table) are read together, and sorted."""
        group: list[_FileExtent] = []
        reaches = -1
        for extent in self._extents.get(partition, []):
            if group and extent.first > reaches:
                yield from self._sorted(group, partition, end)
                group = []
            group.append(extent)
            reaches = max(reaches, extent.last)
        if group:
            yield from self._sorted(group, partition, end)

    def _sorted(self, group: list[_FileExtent], partition: int, end: int) -> Iterator[SourceRecord]:
        before = None
        for record in self._windowed(group, partition, end):
            if record.offset == before:
                raise ReplayError(
                    f"table {self.table.name} has two records {partition}/{record.offset}, since its topic was deleted "
                    "and recreated: delete the target and the state, and select one of them with --since or --until"
                )
            before = record.offset
            yield record

    def _windowed(self, group: list[_FileExtent], partition: int, end: int) -> Iterator[SourceRecord]:
        """Of all partitions, which are read in turns, only the statistics are in memory."""
        low, end = group[0].first, min(end, max(each.last for each in group) + 1)
        at_once = max(1, _CONVERTED_ROWS // len(self._extents))
        while low < end:
            window = Window(self.job.source_topic, partition, low, end, _HELD_BYTES // len(self._extents))
            for extent in group:
                if window.reaches(extent.first, extent.last):
                    with self._reported_if_gone(extent.uri):
                        read_into(window, extent.uri, self._prefix)
            rows, low = window.ordered(), window.high
            for first in range(0, rows.num_rows, at_once):
                yield from _in_time(rows.slice(first, at_once), self.job)

    @contextmanager
    def _reported_if_gone(self, uri: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise ReplayError(
                f"{uri} of table {self.table.name} was removed by maintenance (maintain) while it was "
                "replayed: run again to continue with the present table"
            ) from None


@dataclass(slots=True)
class TopicSource:
    """A topic's records between two times (or ends)."""

    client: ClusterClient
    job: ReplayJob
    source_id: str
    partitions: tuple[int, ...]

    @classmethod
    def open(cls, client: ClusterClient, job: ReplayJob) -> TopicSource:
        found = client.topics([job.source_topic]).get(job.source_topic)
        if found is None:
            raise TopicMissing(f"the cluster at {job.bootstrap_servers} has no topic {job.source_topic}")
        return cls(client, job, found.topic_id, tuple(sorted(found.leaders)))

    def earliest(self) -> Mapping[int, int]:
        return self._offsets(EARLIEST)

    def starts(self) -> Mapping[int, int]:
        if self.job.since_ms is None:
            return self.earliest()
        found, ends = self._offsets(self.job.since_ms), self.ends()
        # A start of -1: no record is as new as that.
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def ends(self) -> Mapping[int, int]:
        # Not at the first record after the time range: later ones may be in the range.
        return self._offsets(LATEST)

    def records(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, Iterator[SourceRecord]]:
        return {part: self._records_of(part, starts[part], end) for part, end in ends.items() if starts[part] < end}

    def _offsets(self, time_ms: int) -> dict[int, int]:
        wanted = {TopicPartition(self.job.source_topic, partition): time_ms for partition in self.partitions}
        return {at.partition: found.offset for at, found in self.client.offsets(wanted).items()}

    def _records_of(self, partition: int, start: int, end: int) -> Iterator[SourceRecord]:
        wanted = OffsetRange(self.job.source_topic, self.source_id, partition, start, end)
        # A separate connection: the ranges of several partitions are read in turns.
        with ClusterClient(self.client.settings) as client:
            for batch in read_range(client, wanted, functools.partial(_refuse, self.job), with_headers=True):
                yield from _in_time(pa.table(batch), self.job)


def _refuse(job: ReplayJob, loss: Loss) -> None:
    raise ReplayError(f"records of {job.source_topic} were deleted while they were replayed: {loss}")


def _in_time(rows: pa.Table, job: ReplayJob) -> Iterator[SourceRecord]:
    milliseconds = pc.cast(pc.cast(rows["timestamp"], pa.timestamp("ms", tz="UTC")), pa.int64()).to_pylist()
    columns = (rows[name].to_pylist() for name in ("partition", "offset", "key", "value", "headers"))
    for partition, offset, key, value, headers, time_ms in zip(*columns, milliseconds, strict=True):
        if time_ms is None:  # a dead letter's may be
            raise without_time(partition, offset)
        if (job.since_ms is None or time_ms >= job.since_ms) and (job.until_ms is None or time_ms < job.until_ms):
            pairs = tuple((each["key"], each["value"]) for each in headers or ())
            yield SourceRecord(partition, offset, time_ms, key, value, pairs)
