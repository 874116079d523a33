"""Run a tables job from its start to its end, as the command does."""

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
from barnabas_pipeline.kafka.client_config import read_client_config
from barnabas_pipeline.kafka.cluster_client import ClusterClient
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
    """Only for Spark: the run reports what happened."""


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def warehouse_of(job: TablesJob) -> Warehouse:
    return Warehouse(TableFormat(job.into), job.to, wall_ms, job.catalog)


@dataclass(slots=True)
class MetricsFile:
    """The newest figures as a JSON document, replaced as a whole, for scraping."""

    path: Path
    job: str
    is_behind: bool = False

    def check(self) -> None:
        """Raises WrongOption if it can't be written: before the job starts, and not after its first batch."""
        try:
            if self.path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._unnamed.touch()
            self._unnamed.unlink()
        except OSError as error:
            raise WrongOption(f"the metrics file {self.path} can't be written: {error.strerror}") from None

    def write(self, figures: BatchFigures) -> None:
        """The job continues if this fails: its tables don't need it."""
        document = {"job": self.job, "wall_ms": wall_ms(), **figures.document()}
        try:
            self._unnamed.write_text(json.dumps(document) + "\n")
            self._unnamed.replace(self.path)
        except OSError as error:
            if not self.is_behind:  # once, and not for every batch
                log.warning("the metrics file can't be written and has old figures: %s", error)
            self.is_behind = True
        else:
            self.is_behind = False

    @property
    def _unnamed(self) -> Path:
        return self.path.with_name(f"{self.path.name}.tmp")


def run_tables(job: TablesJob, settings: dict[str, str], say: Callable[[str], None]) -> None:
    """Run until everything that existed at the start is in the tables (`until: now`), or until stopped.

    Raises PipelineError with one sentence for any other end. `settings` are Spark's.
    """
    metrics = MetricsFile(Path(job.metrics_file), job.name) if job.metrics_file else None

    if metrics is not None:
        metrics.check()

    def figures(batch: BatchFigures) -> None:
        say(batch.line())
        if metrics is not None:
            metrics.write(batch)

    name = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    # The source validates its options, and the decoder its schema, before anything is started, so that errors are
    # reported at once.
    read = read_options(source_options(job, {}), Use.STREAM)
    if job.schema_file:
        decoder_of(decoding_of(job))
    with ClusterClient(read.client) as client:
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
    """Return the options for `format("barnabas")`; the job's own `options` take precedence.

    Rows of an aborted transaction could not be removed from a table again: so it waits for open ones by default.
    """
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in each_offset(positions):
        offsets.setdefault(topic, {})[str(partition)] = offset
    subscription = ("subscribePattern", job.topic_pattern) if job.topic_pattern else ("subscribe", ",".join(job.topics))
    return {
        **{f"kafka.{name}": value for name, value in read_client_config(job.client_config).items()},
        "kafka.bootstrap.servers": job.bootstrap_servers,
        subscription[0]: subscription[1],
        "startingOffsets": json.dumps(offsets) if offsets else "earliest",
        # A topic or a partition may be created or deleted between the run's look at the cluster and the source's.
        "startingOffsetsOfUnnamed": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        "maxBytesPerTrigger": str(job.batch_bytes_max),
        **job.options,
    }


def _stream(spark: SparkSession, run: TablesRun, options: dict[str, str], checkpoint: str, stopping: list[int]) -> None:
    """Process what exists in large batches, then, if the job tails, what is new at every trigger; until a signal is in
    `stopping`."""
    failures: list[Exception] = []
    # Hadoop takes a path unchanged, but parses a file's address with its own rules for blanks.
    spark_checkpoint = str(local_path(checkpoint) or checkpoint)

    def batch(frame: DataFrame, batch_id: int) -> None:
        try:
            run.batch(frame, batch_id)
        except Exception as error:
            failures.append(error)
            # Spark searches a failure's text for that of a stop, with a pattern that recurses over Java's text in it: a
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
    """SIGINT and SIGTERM end a run between two checks of its query, and don't interrupt Spark's shutdown; the list has
    the signals received."""
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
    """Return one sentence for what ended a run: our error unchanged, Spark's by what it contains of ours.

    Without a checkpoint, the work was not a job's but other work on a table.
    """
    if isinstance(error, PipelineError):
        return error
    log.info("cause of the end of the run", exc_info=error)
    text = str(error)
    if isinstance(error, CommitConflictError):
        return TableError(f"another commit interfered; nothing is lost, start it again: {' '.join(text.split())}")
    if any(sign in text for sign in _FULL):
        if not checkpoint:
            return TableError("no space left for the table; free some space and start it again: nothing is lost")
        return TableError(
            f"no space left for the checkpoint {checkpoint} or its table; free some space and start the job again: "
            "it continues from what the table has"
        )
    ours = _OURS.findall(text)
    if ours:
        return TableError(_advised(*ours[-1]))
    if "concurrent" in text.lower() and "checkpoint" in text.lower():
        return TableError(f"another run uses the checkpoint {checkpoint}: stop one of the two")
    if "No FileSystem for scheme" in text:
        return TableError(
            f"Spark has no client for the checkpoint {checkpoint}; give it a local directory (--checkpoint), which may "
            "be lost, since the table knows its progress, or give Spark the client (--spark spark.jars.packages=…)"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return TableError(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")


def _advised(kind: str, text: str) -> str:
    """Return the source's message, with advice for a job's user instead of the advice for a query's."""
    text = text.strip()
    match kind:
        case "DataLost":
            said = text.removesuffix(f". {loss_advice('onDataLoss')}.")
            if "deleted and recreated" in said:
                return f"{said}; to append the new topic's records to the old one's, start with --recreated append"
            return f"{said}; to continue with the existing records, start with --option onDataLoss=continue"
        case "CorruptBatch":
            return f"{text}; if another replica has it undamaged, make that one the leader, and start the job again"
        case _:
            return text
