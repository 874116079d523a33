"""`backup`, `restore`, `rebuild`, `inspect`: save and restore the cluster's state in etcd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from barnabas_cli.local.layout import ClusterDirectory
from barnabas_cli.recovery.choices import Choices
from barnabas_cli.recovery.etcd_options import EtcdOptions, etcd_options
from barnabas_cli.terminal import clear_errors, data_dir_option

Command = TypeVar("Command", bound=Callable[..., Any])


@click.command()
@click.argument("file")
@data_dir_option
@etcd_options
def backup(directory: ClusterDirectory, file: str, etcd: EtcdOptions) -> None:
    """Save the cluster's state in etcd to FILE, or to standard output (-).

    The cluster may be running; the backup is a snapshot of one moment. It does not contain records: they are in the log
    directories.
    """
    from barnabas_cli.recovery.backup import EXPECTED, save

    with clear_errors(*EXPECTED):
        save(directory, file, etcd)


@click.command()
@click.argument("log_dirs", nargs=-1, required=True, type=click.Path(path_type=Path))
def inspect(log_dirs: tuple[Path, ...]) -> None:
    """Print as JSON what the LOG_DIRS of one stopped logstore contain, without changing them.

    `restore` and `rebuild` of a cluster on several hosts read this output with --from.
    """
    from barnabas.cluster.inspection import InspectionRefused, encode_inspection
    from barnabas_logstore.inspection import inspect_log_dirs

    with clear_errors(InspectionRefused):
        found = inspect_log_dirs([str(each.absolute()) for each in log_dirs])
    click.echo(encode_inspection(found), nl=False)


def _recovery_options(command: Command) -> Command:
    options = (
        click.option(
            "--from",
            "inspections",
            multiple=True,
            type=click.Path(path_type=Path),
            metavar="JSON",
            help="The output of `barnabas inspect`, one file per logstore. [default: those of the local cluster]",
        ),
        click.option(
            "--without-node",
            "absent",
            multiple=True,
            type=int,
            metavar="ID",
            help="Leave out this logstore, whose disks can't be read.",
        ),
        click.option(
            "--topic-id",
            "topic_ids",
            multiple=True,
            metavar="TOPIC=ID",
            help="Which topic to keep if the disks have several of this name.",
        ),
        click.option("--accept-losses", is_flag=True, help="Write the state even if records may be missing."),
        click.option("--replace", is_flag=True, help="Replace the cluster that is in etcd now."),
    )
    decorated: Any = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@data_dir_option
@etcd_options
@_recovery_options
@click.option("--dry-run", is_flag=True, help="Only show what would be written.")
def restore(directory: ClusterDirectory, file: Path, etcd: EtcdOptions, dry_run: bool, **given: Any) -> None:
    """Restore the cluster's state to etcd from the backup FILE, updated with what the logs show has happened since.

    All services must be stopped and etcd must run (a local cluster's etcd is started for the restore).
    """
    choices = _choices(**given)
    from barnabas_cli.recovery.restoring import EXPECTED, read_backup, recover

    with clear_errors(*EXPECTED):
        recover(directory, etcd, choices, read_backup(file, etcd), dry_run=dry_run)


@click.command()
@data_dir_option
@etcd_options
@_recovery_options
@click.option("--write", is_flag=True, help="Write the state. Without it, only show what would be written.")
def rebuild(directory: ClusterDirectory, etcd: EtcdOptions, write: bool, **given: Any) -> None:
    """Rebuild the cluster's state in etcd from the log directories alone, when etcd is lost and there is no backup.

    Shows what it would write, and writes it with --write. All services must be stopped.
    """
    choices = _choices(**given)
    from barnabas_cli.recovery.restoring import EXPECTED, nothing_remembered, recover

    with clear_errors(*EXPECTED):
        recover(directory, etcd, choices, nothing_remembered(), dry_run=not write)


def _choices(
    inspections: tuple[Path, ...],
    absent: tuple[int, ...],
    topic_ids: tuple[str, ...],
    accept_losses: bool,
    replace: bool,
) -> Choices:
    picked = {}
    for each in topic_ids:
        topic, _, topic_id = each.partition("=")
        try:
            picked[topic] = bytes.fromhex(topic_id)
        except ValueError:
            raise click.BadParameter(f"{each} is not TOPIC=ID with an ID of 32 hexadecimal digits") from None
    return Choices(inspections, frozenset(absent), picked, accept_losses, replace)
