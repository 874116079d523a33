"""Run a replay from its start, or from where it was interrupted, to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from barnabas.cluster.access.client_properties import SECURITY_PROPERTIES
from barnabas_pipeline.core.options import parse_bootstrap
from barnabas_pipeline.core.replay import (
    Pace,
    ReplayError,
    ReplayJob,
    ReplayState,
    Resumption,
    SourceRecord,
    in_order,
    partition_by_key,
    read_state,
)
from barnabas_pipeline.core.settings import ClientSettings, Isolation
from barnabas_pipeline.kafka.client_config import read_client_config
from barnabas_pipeline.kafka.cluster_client import ClusterClient
from barnabas_pipeline.replay.sources import Source, TableSource, TopicSource
from barnabas_pipeline.replay.target import (
    Target,
    Writer,
    check_ends,
    create_topic,
    last_records,
    look_at,
    retention_ms,
)
from barnabas_pipeline.tables.running import as_pipeline_error, wall_ms
from barnabas_pipeline.tables.warehouse import TableFormat, Warehouse

_REPORTED_EVERY_SECONDS = 1.0
_POLL_EVERY = 500


def run_replay(job: ReplayJob, say: Callable[[str], None]) -> int:
    """Return how many records this run wrote. Raises PipelineError, with one line in any case."""
    try:
        return _replayed(job, say)
    except Exception as error:  # from the libraries of tables and catalogs
        raise as_pipeline_error(error, job.to) from error


def _replayed(job: ReplayJob, say: Callable[[str], None]) -> int:
    settings = client_settings(job)
    read_settings = replace(settings, isolation=Isolation[job.isolation.upper()])
    # The target is counted to its very end, whatever isolation the source is read with.
    with ClusterClient(settings) as client, ClusterClient(read_settings) as reader:
        source = _source(job, reader)
        if job.create:
            create_topic(settings, job.target, job.create)
        target = look_at(client, job.bootstrap_servers, job.target)
        state = _state(job, source, target)
        # A partition that was added to the target since had no records when the replay began.
        done = {partition: end - state.starts.get(partition, 0) for partition, end in target.ends.items()}
        resumption = Resumption(done, last_records(settings, target, state.starts))
        if sum(done.values()):
            say(f"{job.target} has {sum(done.values()):,} records of this replay already: continuing after them")
        writer = Writer(settings, job.target, dict(target.ends))
        written = _write_all(job, source, state, writer, resumption, say)
        check_ends(client, target, writer.ends)
    Path(job.state_path).unlink(missing_ok=True)
    return written


def client_settings(job: ReplayJob) -> ClientSettings:
    """Raises WrongOption."""
    given = read_client_config(job.client_config)
    security = tuple((name, value) for name, value in given.items() if name in SECURITY_PROPERTIES)
    return ClientSettings(parse_bootstrap(job.bootstrap_servers), security=security)


def _source(job: ReplayJob, client: ClusterClient) -> Source:
    if not job.table:
        return TopicSource.open(client, job)
    table = Warehouse(TableFormat(job.format), job.to, wall_ms, job.catalog).open(job.table, "replay")
    if table is None:
        raise ReplayError(f"there is no table {job.table} ({job.format}) at {job.to}")
    return TableSource.open(table, job)


def _state(job: ReplayJob, source: Source, target: Target) -> ReplayState:
    """Return the state of the run that this one continues, else a new one, stored before anything is written."""
    path = Path(job.state_path)
    text = _read(path)
    if text is not None:
        state = read_state(text, str(path))
        if state.identity != job.identity():
            raise ReplayError(f"{path} is the state of another replay: finish that replay, or delete the file")
        if state.target_id != target.topic_id:
            raise ReplayError(f"{job.target} was deleted and recreated since {path}: delete the file to start over")
        if state.source_id != source.source_id:
            raise ReplayError(
                f"{job.source_topic} was deleted and recreated since {path}: to start over with the new topic, delete "
                f"both {job.target} and {path}"
            )
        if job.partitions == "by-key" and len(state.starts) != len(target.ends):
            raise ReplayError(
                f"{job.target} has {len(target.ends)} partitions, and had {len(state.starts)} when this replay began: "
                f"by key its records would go to other partitions now; to start over, delete both it and {path}"
            )
        state.check_source(source.earliest())
        return state
    present = sum(target.ends.values())
    if present and not job.append:
        raise ReplayError(
            f"{job.target} has had {present:,} records: --append writes the replay after them; to continue a replay "
            f"that was interrupted, its state is required ({path})"
        )
    source_starts, ends = dict(source.starts()), dict(source.ends())
    lacking = sorted(set(ends) - set(target.ends))
    if lacking and job.partitions == "same":
        raise ReplayError(
            f"{job.target} has no partition {lacking[0]}, but the source has: create it with as many, or use "
            "--partitions by-key"
        )
    state = ReplayState(job.identity(), target.topic_id, source.source_id, dict(target.ends), source_starts, ends)
    unnamed = path.with_suffix(".tmp")
    try:
        unnamed.write_text(state.document())
        unnamed.replace(path)
    except OSError as error:
        raise ReplayError(f"the state {path} can't be written: {error.strerror}; name another with --state") from None
    return state


def _read(path: Path) -> str | None:
    """Return the state's text, None if there is none."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReplayError(f"the state {path} can't be read: {error.strerror}") from None


def _write_all(
    job: ReplayJob,
    source: Source,
    state: ReplayState,
    writer: Writer,
    resumption: Resumption,
    say: Callable[[str], None],
) -> int:
    choose = _partition_of(job, len(writer.ends))
    pace = Pace(job.rate)
    reported = time.monotonic()
    for record in in_order(source.records(state.source_starts, state.ends)):
        partition = choose(record)
        if resumption.is_there(partition, record):
            continue
        if pace.sent == 0:
            _warn_of_retention(job, record, say)
        while (wait_ms := pace.wait_ms(_monotonic_ms())) > 0:
            writer.poll()
            time.sleep(wait_ms / 1000)
        writer.write(partition, record)
        pace.sent += 1
        if pace.sent % _POLL_EVERY == 0:
            writer.poll()
        if time.monotonic() - reported >= _REPORTED_EVERY_SECONDS:
            reported = time.monotonic()
            say(_line(pace, record))
    writer.finish()
    resumption.check_all_seen()
    return pace.sent


def _warn_of_retention(job: ReplayJob, first: SourceRecord, say: Callable[[str], None]) -> None:
    """Warn if the target may delete records as soon as they are written."""
    kept_ms = retention_ms(client_settings(job), job.target)
    if kept_ms is not None and first.timestamp_ms < wall_ms() - kept_ms:
        say(
            f"{job.target} deletes what is older than {kept_ms / 3_600_000:g} hours, and these records begin at "
            f"{_utc(first.timestamp_ms)}: set its retention.ms to -1 to keep them"
        )


def _utc(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_ms / 1000))


def _line(pace: Pace, record: SourceRecord) -> str:
    rate = pace.per_second(_monotonic_ms())
    return f"{pace.sent:,} records ({rate:,.0f}/s), at those of {_utc(record.timestamp_ms)}"


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _partition_of(job: ReplayJob, count: int) -> Callable[[SourceRecord], int]:
    """Return which of the target's `count` partitions a record goes to."""
    if job.partitions == "by-key":
        return lambda record: partition_by_key(record, count)
    return lambda record: record.partition
