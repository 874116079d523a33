"""A tables job from its start to its end, as the command runs it."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from barnabas_pipeline.core.errors import PipelineError, WrongOption
from barnabas_pipeline.core.freshness import BatchFigures
from barnabas_pipeline.core.losses import loss_advice
from barnabas_pipeline.core.options import Use, read_options
from barnabas_pipeline.core.positions import Positions, each_offset
from barnabas_pipeline.core.tables_job import TablesJob
from barnabas_pipeline.kafka.client import KafkaClient
from barnabas_pipeline.schemas.decoders import decoder_of
from barnabas_pipeline.tables.cluster import JobCluster
from barnabas_pipeline.tables.contract import CommitConflictError, TableError
from barnabas_pipeline.tables.destination import decoding_of
from barnabas_pipeline.tables.locations import local_path
from barnabas_pipeline.tables.session import spark_session
from barnabas_pipeline.tables.stream import TablesRun
from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_OURS = re.compile(r"pipeline\.[a-z_.]+\.([A-Z]\w+): (.+)")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large", "database or disk is full")


class BatchFailedError(RuntimeError):
    """For Spark alone: what happened is told by the run."""


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def warehouse_of(job: TablesJob) -> Warehouse:
    return Warehouse(TableFormat(job.into), job.to, wall_ms, job.catalog)


@dataclass(slots=True)
class MetricsFile:
    """The newest figures as a JSON document, replaced whole: for whatever scrapes files."""

    path: Path
    job: str
    is_behind: bool = False

    def check(self) -> None:
        """Raises WrongOption where nothing can be written: before the job starts, and not after its first batch."""
        try:
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._unnamed.touch()
            self._unnamed.unlink()
        except OSError as error:
            raise WrongOption(f"the metrics file {self.path} can't be written: {error.strerror}") from None

    def write(self, figures: BatchFigures) -> None:
        """Where that fails the job goes on: its tables don't need it."""
        document = {"job": self.job, "wall_ms": wall_ms(), **figures.document()}
        try:
            self._unnamed.write_text(json.dumps(document) + "\n")
            self._unnamed.replace(self.path)
        except OSError as error:
            if not self.is_behind:  # once, and not for every batch
                log.warning("the metrics file is not written, it has old figures: %s", error)
            self.is_behind = True
        else:
            self.is_behind = False

    @property
    def _unnamed(self) -> Path:
        return self.path.with_name(f"{self.path.name}.tmp")


def run_tables(job: TablesJob, settings: dict[str, str], say: Callable[[str], None]) -> None:
    """Runs until all that was there is in the tables (`until: now`), or until it is told to stop.

    Raises PipelineError with one sentence for whatever ends it otherwise. `settings` are Spark's.
    """
    metrics = MetricsFile(Path(job.metrics_file), job.name) if job.metrics_file else None

    if metrics is not None:
        metrics.check()

    def figures(batch: BatchFigures) -> None:
        say(batch.line())
        if metrics is not None:
            metrics.write(batch)

    name = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    # The source's own look at its options, and the decoder's at its schema, before anything is started: what is wrong
    # is told at once.
    read = read_options(source_options(job, {}), Use.STREAM)
    if job.schema_file:
        decoder_of(decoding_of(job))
    with KafkaClient(read.client) as client:
        run = TablesRun(job, name, warehouse_of(job), JobCluster(job, client), wall_ms, say, figures)
        try:
            checkpoint, positions = run.begin()
            say(
                f"{job.name}: {', '.join(sorted(run.destinations)) or 'no table yet'} in {job.into} at {job.to}, "
                f"run {name}"
            )
            spark = spark_session(f"barnabas-pipeline {job.name}", settings)
        except Exception as error:  # of the libraries of tables and catalogs, of Spark
            raise as_pipeline_error(error, job.checkpoint_root) from error
        with _stop_signals() as stopping:
            try:
                _stream(spark, run, source_options(job, positions), checkpoint.uri, stopping)
            finally:
                spark.stop()


def source_options(job: TablesJob, positions: Positions) -> dict[str, str]:
    """What `format("barnabas")` is told; the job's own `options` win.

    Rows of an aborted transaction could not be taken out of a table again: so it waits for open ones by default.
    """
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in each_offset(positions):
        offsets.setdefault(topic, {})[str(partition)] = offset
    subscription = ("subscribePattern", job.topic_pattern) if job.topic_pattern else ("subscribe", ",".join(job.topics))
    return {
        "kafka.bootstrap.servers": job.bootstrap_servers,
        subscription[0]: subscription[1],
        "startingOffsets": json.dumps(offsets) if offsets else "earliest",
        # A topic or a partition may come, or go, between the run's look at the cluster and the source's.
        "startingOffsetsOfUnnamed": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "maxBytesPerTrigger": str(job.batch_bytes_max),
        **job.options,
    }


def _stream(spark: SparkSession, run: TablesRun, options: dict[str, str], checkpoint: str, stopping: list[int]) -> None:
    """What is there already in large batches, then, if the job tails, what comes at every trigger; until a signal is
    in `stopping`."""
    failures: list[Exception] = []
    # Hadoop takes a path as it is, and an address of a file with its own idea of blanks in it.
    spark_checkpoint = str(local_path(checkpoint) or checkpoint)

    def batch(frame: DataFrame, batch_id: int) -> None:
        try:
            run.batch(frame, batch_id)
        except Exception as error:
            failures.append(error)
            # Spark searches a failure's text for a stop's, by a pattern that recurses over what Java said in it: a
            # long one overflows the thread's stack, and thousands of lines are printed. The cause is in `failures`.
            raise BatchFailedError(f"batch {batch_id}") from None

    triggers: list[dict[str, Any]] = [{"availableNow": True}]
    if run.job.until == "stopped":
        triggers.append({"processingTime": f"{run.job.trigger_ms} milliseconds"})
    for trigger in triggers:
        frame = spark.readStream.format("barnabas").options(**options).load()
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", spark_checkpoint)
        try:
            query = writer.trigger(**trigger).start()
            while not query.awaitTermination(_POLL_SECONDS):
                if stopping:
                    query.stop()
                    return
        except Exception as error:  # Spark's own, around whatever happened in its threads
            if stopping:
                return
            raise as_pipeline_error(failures[0] if failures else error, checkpoint) from error
        if stopping:
            return


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """SIGINT and SIGTERM end a run between two looks at its query, and don't cut short the end of Spark; the list has
    those that came."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def as_pipeline_error(error: Exception, checkpoint: str = "") -> PipelineError:
    """One sentence for what ended a run: ours as it was raised, Spark's by what it carries of ours.

    Without a checkpoint it was not a job's, but that of other work on a table.
    """
    if isinstance(error, PipelineError):
        return error
    log.info("what ended the run", exc_info=error)
    text = str(error)
    if isinstance(error, CommitConflictError):
        return TableError(f"another commit came between, nothing is lost, start it again: {' '.join(text.split())}")
    if any(sign in text for sign in _FULL):
        if not checkpoint:
            return TableError("no space left for the table; make room and start it again: nothing of it is lost")
        return TableError(
            f"no space left for the checkpoint {checkpoint} or the table beside it; make room and start the job again: "
            "it goes on from what the table has"
        )
    ours = _OURS.findall(text)
    if ours:
        return TableError(_advised(*ours[-1]))
    if "concurrent" in text.lower() and "checkpoint" in text.lower():
        return TableError(f"another run uses the checkpoint {checkpoint}: one of the two has to end")
    if "No FileSystem for scheme" in text:
        return TableError(
            f"Spark has no client for the checkpoint {checkpoint}; give it a local directory (--checkpoint), which may "
            "be lost, since the table knows its progress, or give Spark the client (--spark spark.jars.packages=…)"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return TableError(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")


def _advised(kind: str, text: str) -> str:
    """What the source says, with what a job's user can do about it in the place of the advice to a query's."""
    text = text.strip()
    match kind:
        case "DataLost":
            said = text.removesuffix(f". {loss_advice('onDataLoss')}.")
            if "deleted and made again" in said:
                return f"{said}; to put the new topic's records behind the old one's, start with --recreated append"
            return f"{said}; to go on with what is there, start with --option onDataLoss=continue"
        case "CorruptBatch":
            return f"{text}; if another replica has it whole, make that one the leader, and start the job again"
        case _:
            return text
