"""Restore the cluster's state in etcd from a backup and from what the disks hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from barnabas import __version__
from barnabas.cluster.backup import FILE_BYTES_MAX, UnreadableBackup, decode_backup
from barnabas.cluster.cluster_version import refusal
from barnabas.cluster.inspection import (
    InspectionRefused,
    NodeInspection,
    UnreadableInspection,
    decode_inspection,
    inspection_problem,
)
from barnabas.cluster.keys import Keys
from barnabas.cluster.recovery.plan import Plan, plan_recovery
from barnabas.cluster.recovery.remembered import Remembered, remember
from barnabas.runtime.clock import wall_ms
from barnabas_cli.etcd_binary import EtcdMissingError
from barnabas_cli.local.cluster import ClusterError
from barnabas_cli.local.layout import ClusterDirectory, LayoutError
from barnabas_cli.recovery.choices import Choices
from barnabas_cli.recovery.etcd_options import EtcdOptions
from barnabas_cli.recovery.etcd_state import StateError, ask_etcd, local_etcd, write_state
from barnabas_cli.terminal import print_table, printable

EXPECTED: Final = (StateError, LayoutError, ClusterError, EtcdMissingError, InspectionRefused)

_LINES_MAX: Final = 20


def nothing_remembered() -> Remembered:
    """The state to start from if there is no backup."""
    return Remembered()


def read_backup(path: Path, etcd: EtcdOptions) -> Remembered:
    """Read a backup file. Raises StateError."""
    try:
        remembered = remember(decode_backup(_content(path)), Keys(etcd.prefix))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    except UnreadableBackup as error:
        raise StateError(f"{path}: {error}") from None
    reason = refusal(remembered.version, __version__)
    if reason is not None:
        raise StateError(f"{path}: {reason}")
    return remembered


def _content(path: Path) -> bytes:
    """Read a file, or a pipe, that may have no end. Raises OSError, StateError."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise StateError(f"{path} has more than {FILE_BYTES_MAX} bytes: it is too large to be read")
    return content


def recover(
    directory: ClusterDirectory, etcd: EtcdOptions, choices: Choices, remembered: Remembered, *, dry_run: bool
) -> None:
    inspections = _inspections(directory, etcd, choices)
    keys = Keys(etcd.prefix)
    plan = plan_recovery(
        keys,
        remembered,
        inspections,
        absent=choices.absent,
        picked_topic_ids=choices.topic_ids,
        wall_ms=wall_ms(),
    )
    _show(plan)
    if plan.conflicts:
        raise StateError("nothing is written until this is resolved")
    if dry_run:
        click.echo("nothing is written: the above shows what would be")
        return
    if plan.losses and not choices.accepts_losses:
        raise StateError("nothing is written because records may be missing; --accept-losses writes anyway")
    with ExitStack() as stack:
        endpoints = etcd.endpoints or stack.enter_context(local_etcd(directory))
        etcd = etcd if etcd.endpoints else etcd.with_local_etcd(directory)
        ask_etcd(etcd, endpoints, lambda client: write_state(client, keys, plan.writes, replace=choices.replace))
    click.secho(f"written: {len(plan.writes)} keys below {etcd.prefix}; now start the services", fg="green")


def _inspections(directory: ClusterDirectory, etcd: EtcdOptions, choices: Choices) -> list[NodeInspection]:
    """Read the inspections from the files given, or inspect the local cluster's logstores. Raises StateError,
    InspectionRefused.
    """
    if choices.inspections:
        return [_read_inspection(path) for path in choices.inspections]
    if etcd.endpoints:
        return []
    # Imported here because the code that reads logs is not in every image.
    from barnabas_logstore.inspection import inspect_log_dirs

    layout = directory.require_layout()
    paths = [directory.logstore_path(each) for each in layout.logstore_ids if each not in choices.absent]
    inspections = [inspect_log_dirs([str(path)]) for path in paths if path.exists()]
    problem = next(filter(None, map(inspection_problem, inspections)), None)
    if problem is not None:
        raise StateError(problem)
    return inspections


def _read_inspection(path: Path) -> NodeInspection:
    try:
        return decode_inspection(_content(path))
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from None
    except UnreadableInspection as error:
        raise StateError(f"{path}: {error}") from None


def _show(plan: Plan) -> None:
    click.echo(f"cluster {printable(plan.cluster_id) or 'unknown'}")
    rows = []
    for topic in plan.topics:
        partitions = plan.partitions[topic.topic]
        replicas = sorted({node_id for partition in partitions for node_id in partition.replicas})
        configs = " ".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))
        rows.append((topic.topic, topic.topic_id.hex(), topic.partitions, ",".join(map(str, replicas)), configs or "-"))
    print_table(("TOPIC", "ID", "PARTITIONS", "LOGSTORES", "CONFIGS"), rows)
    _list("Note", plan.notes, "yellow")
    _list("Records may be missing", plan.losses, "red")
    _list("Conflicts", plan.conflicts, "red")


def _list(title: str, lines: Sequence[str], colour: str) -> None:
    if not lines:
        return
    click.secho(f"{title}:", fg=colour, bold=True)
    for line in lines[:_LINES_MAX]:
        click.echo(f"  {printable(line)}")
    if len(lines) > _LINES_MAX:
        click.echo(f"  … and {len(lines) - _LINES_MAX} more")
