"""`backup`, `restore`, `rebuild`, `inspect`: the cluster's state in etcd saved, and made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from barnabas.cli.etcd_options import EtcdOptions, etcd_options
from barnabas.cli.layout import ClusterDirectory
from barnabas.cli.recovery_choices import Choices
from barnabas.cli.terminal import clear_errors, data_dir_option

Command = TypeVar("Command", bound=Callable[..., Any])


@click.command()
@click.argument("file")
@data_dir_option
@etcd_options
def backup(directory: ClusterDirectory, file: str, etcd: EtcdOptions) -> None:
    """Save the cluster's state in etcd to FILE, or to standard output (-).

    While the cluster runs; everything is of one moment. Records are in the log directories, and not in this file.
    """
    from barnabas.cli.backup import EXPECTED, save

    with clear_errors(*EXPECTED):
        save(directory, file, etcd)


@click.command()
@click.argument("log_dirs", nargs=-1, required=True, type=click.Path(path_type=Path))
def inspect(log_dirs: tuple[Path, ...]) -> None:
    """Say as JSON what the LOG_DIRS of one stopped logstore hold; nothing is changed in them.

    For `restore` and `rebuild` of a cluster on several hosts, which take it by --from.
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
            help="What `barnabas inspect` said of a logstore; one for each. [default: those of the local cluster]",
        ),
        click.option(
            "--without-node",
            "absent",
            multiple=True,
            type=int,
            metavar="ID",
            help="Go on without this logstore, whose disks are out of reach.",
        ),
        click.option(
            "--topic-id",
            "topic_ids",
            multiple=True,
            metavar="TOPIC=ID",
            help="Which one is meant, where the disks have several topics of a name.",
        ),
        click.option("--accept-losses", is_flag=True, help="Write it although records may be missing then."),
        click.option("--replace", is_flag=True, help="Put it in the place of a cluster that etcd has."),
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
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
def restore(directory: ClusterDirectory, file: Path, etcd: EtcdOptions, dry_run: bool, **given: Any) -> None:
    """Write the cluster's state to etcd: that of the back-up FILE, and what has happened since by the logs' account.

    All services have to be stopped; etcd runs (of a local cluster it is started for the time).
    """
    choices = _choices(**given)
    from barnabas.cli.recovery import EXPECTED, read_backup, recover

    with clear_errors(*EXPECTED):
        recover(directory, etcd, choices, read_backup(file, etcd), dry_run=dry_run)


@click.command()
@data_dir_option
@etcd_options
@_recovery_options
@click.option("--write", is_flag=True, help="Do it; without, only say what would be written.")
def rebuild(directory: ClusterDirectory, etcd: EtcdOptions, write: bool, **given: Any) -> None:
    """Make the cluster's state in etcd again from the log directories alone: etcd is lost, and there is no back-up.

    Says what it would write, and writes it with --write. All services have to be stopped.
    """
    choices = _choices(**given)
    from barnabas.cli.recovery import EXPECTED, nothing_remembered, recover

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
            raise click.BadParameter(f"{each} is no TOPIC=ID of 32 hexadecimal digits") from None
    return Choices(inspections, frozenset(absent), picked, accept_losses, replace)
