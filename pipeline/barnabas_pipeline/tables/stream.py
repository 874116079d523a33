"""A run of a tables job: Spark's stream, batch by batch, into the tables.

Each batch: plan (what the table lacks of it), let executors write files, commit files and progress at once, then the
group. The table decides; Spark's checkpoint and the group follow it and may be lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas_pipeline.core.bookkeeping import decide_start, group_disagreement
from barnabas_pipeline.core.cluster import Extents
from barnabas_pipeline.core.freshness import BatchFigures
from barnabas_pipeline.core.positions import Positions, TopicPartition, TopicPositions, each_offset
from barnabas_pipeline.core.tables_job import TablesJob
from barnabas_pipeline.tables.checkpoint import Checkpoint, new_checkpoint, newest_checkpoint
from barnabas_pipeline.tables.cluster import Cluster
from barnabas_pipeline.tables.contract import Clock, SupersededError, TableError
from barnabas_pipeline.tables.destination import Destination, ProgressMovedError
from barnabas_pipeline.tables.locations import to_uri
from barnabas_pipeline.tables.tasks import REPORT_SCHEMA, BatchPlan, TablePlan, TableReport, read_reports, run_task
from barnabas_pipeline.tables.warehouse import Warehouse, table_name
from barnabas_pipeline.tables.writing import discard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)
PLANS_MAX = 12  # a batch is planned again when columns grow or another run committed; both are limited


@dataclass(slots=True)
class TablesRun:
    """One run, from start to end. `say` shows a line to the user; `figures` is called after each batch."""

    job: TablesJob
    run: str
    warehouse: Warehouse
    cluster: Cluster
    now_ms: Clock
    say: Callable[[str], None]
    figures: Callable[[BatchFigures], None]
    destinations: dict[str, Destination] = field(default_factory=dict)
    _topics: dict[str, str] = field(default_factory=dict)  # by table, the first that goes into it
    _checkpoint: Checkpoint | None = None
    _before: Positions = field(default_factory=dict)
    _newest_ms: int = -1

    def _first_positions(self, positions: Positions, *, is_first_run: bool) -> Positions:
        """Return every partition's position in a new checkpoint: the tables' progress, or `starting` if they have none.

        `starting` only applies to a job's first run: topics and partitions that were added since are read from their
        beginning, as they are while it runs.
        """
        at_latest = is_first_run and self.job.starting == "latest"
        first = {}
        for topic, extent in self.cluster.extents().items():
            places = dict(extent.latest if at_latest else extent.earliest)
            if topic in positions:
                places.update(positions[topic].offsets)
            first[topic] = TopicPositions(extent.topic_id, places)
        return first

    def begin(self) -> tuple[Checkpoint, Positions]:
        """Open and claim the tables, compare checkpoint, tables and group, and return where Spark's stream begins."""
        extents = self.cluster.extents()
        for topic in extents:
            self._destination(topic)
        wanted = {topic: TopicPositions(each.topic_id, each.latest) for topic, each in extents.items()}
        progress, recreated = self._progress(wanted)
        root = to_uri(self.job.checkpoint_root)
        earlier = newest_checkpoint(root)
        start = decide_start(earlier.state() if earlier is not None else None, progress)
        if start.reason:
            self.say(start.reason)
        self._checkpoint = new_checkpoint(root, self.run)
        if earlier is not None and start.resume:
            self._checkpoint.go_on_from(earlier)
        self._before = self._first_positions(start.positions, is_first_run=not progress and not recreated)
        self._tell_group(wanted, progress)
        return self._checkpoint, self._before

    def _destination(self, topic: str) -> Destination:
        name = table_name(self.job.table, topic)
        if name not in self.destinations:
            self.destinations[name] = Destination.open(name, self.job, self.warehouse, self.run)
        other = self._topics.setdefault(name, topic)
        if other != topic and self.job.mode == "upsert":
            raise TableError(
                f"topics {other} and {topic} would both be upserted into table {name}, and the keys of one would "
                "replace the other's: use a separate job and table name for one of them"
            )
        return self.destinations[name]

    def _progress(self, wanted: Positions) -> tuple[Positions, list[str]]:
        """Return the tables' progress, and the topics that were recreated, if the job starts them over."""
        progress: dict[str, TopicPositions] = {}
        recreated = []
        for topic, asked in wanted.items():
            known = self._destination(topic).table.progress({topic: asked}).get(topic)
            if known is None:
                continue
            if known.topic_id != asked.topic_id:
                if self.job.recreated == "fail":
                    raise TableError(
                        f"topic {topic} was deleted and recreated since its table's last batch; to append the new "
                        "topic's records to the old one's, run once with --recreated append"
                    )
                self.say(f"topic {topic} was recreated: its table continues with the new one from the beginning")
                recreated.append(topic)
                continue
            progress[topic] = known
        return progress, recreated

    def _tell_group(self, wanted: Positions, progress: Positions) -> None:
        said = group_disagreement(self.cluster.committed([at for at, _ in each_offset(wanted)]), progress)
        if said:
            self.say(said)
        if progress:
            self.cluster.commit(progress)

    def batch(self, frame: DataFrame, batch_id: int) -> None:
        """Spark's foreachBatch: may be called again with the same batch after a crash."""
        begun_ms = self.now_ms()
        assert self._checkpoint is not None
        end = self._checkpoint.positions(batch_id)
        if end is None:
            raise TableError(f"the checkpoint {self._checkpoint.uri} lost batch {batch_id} while it ran")
        start = (self._checkpoint.positions(batch_id - 1) if batch_id else None) or self._before
        rows, dead = self._write(frame, start, end, batch_id)
        self.cluster.commit(end)
        lag = lag_of(self.cluster.extents(), end)
        now_ms = self.now_ms()
        freshness_ms = now_ms - self._newest_ms if self._newest_ms >= 0 else None
        self.figures(BatchFigures(batch_id, rows, dead, now_ms - begun_ms, lag, freshness_ms))

    def _write(self, frame: DataFrame, start: Positions, end: Positions, batch_id: int) -> tuple[int, int]:
        """Write the batch to all of its tables; return the numbers of rows and of dead letters."""
        rows = dead = 0
        lacking = {table_name(self.job.table, topic) for topic in end}
        for topic in end:
            self._destination(topic)
        for _ in range(PLANS_MAX):
            plan = self._plan(lacking, start, end)
            lacking = set(plan.tables)
            if not lacking:
                return rows, dead
            reports = self._run(frame, plan)
            for name in sorted(lacking):
                report = reports.get(name, TableReport())
                if self._settle(name, report, start, end, batch_id):
                    lacking.discard(name)
                    rows, dead = rows + report.rows, dead + report.dead
                    self._newest_ms = max(self._newest_ms, report.timestamp_ms_max)
            if not lacking:
                return rows, dead
        raise TableError(
            f"batch {batch_id} was planned {PLANS_MAX} times and its columns still grow: {sorted(lacking)}"
        )

    def _plan(self, names: set[str], start: Positions, end: Positions) -> BatchPlan:
        tables: dict[str, TablePlan] = {}
        for name in sorted(names):
            own = {topic: each for topic, each in end.items() if table_name(self.job.table, topic) == name}
            planned = self.destinations[name].plan(start, own)
            if planned is not None:
                tables[name] = planned
        by_topic = {topic: table_name(self.job.table, topic) for topic in end}
        return BatchPlan({topic: name for topic, name in by_topic.items() if name in tables}, tables)

    def _run(self, frame: DataFrame, plan: BatchPlan) -> Mapping[str, TableReport]:
        reports = frame.mapInArrow(lambda batches: run_task(batches, plan), REPORT_SCHEMA).collect()
        return read_reports([bytes(each.report) for each in reports])

    def _settle(self, name: str, report: TableReport, start: Positions, end: Positions, batch_id: int) -> bool:
        """Commit the report. Return False after learning from it what the next plan needs."""
        destination = self.destinations[name]
        own = {topic: each for topic, each in end.items() if table_name(self.job.table, topic) == name}
        if report.growth.columns:
            discard([*report.files, *report.dead_letters])
            destination.grow(report.growth)
            return False
        try:
            destination.commit(report, start, own, batch_id)
        except (ProgressMovedError, SupersededError) as error:
            # Not committed, if the tables name none of them. After any other error all stay, at worst as orphans.
            destination.discard(report)
            if isinstance(error, SupersededError):
                raise
            destination.reread()
            return False
        return True


def lag_of(extents: Extents, end: Positions) -> int:
    """Return how many offsets the cluster has and the tables lack."""
    reached = dict(each_offset(end))
    lag = 0
    for topic, extent in extents.items():
        for partition, latest in extent.latest.items():
            since = reached.get(TopicPartition(topic, partition), extent.earliest.get(partition, 0))
            lag += max(0, latest - since)
    return lag
