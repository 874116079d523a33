"""What the operator commands share: selecting a cluster and printing its answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

import click
from google.protobuf.message import Message

from barnabas_cli.formatting import plain
from barnabas_cli.local.layout import HOST, ClusterDirectory, LayoutError
from barnabas_cli.local.secrets import local_access
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_cli.operator_access import AccessError, OperatorAccess, access_options
from barnabas_cli.terminal import clear_errors, data_dir_option, print_table

P = ParamSpec("P")


class ListingGroup(click.Group):
    """A group whose default command is `list`: `barnabas nodes` is `barnabas nodes list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def controller_access(directory: ClusterDirectory, access: OperatorAccess | None) -> OperatorAccess:
    """Return how to reach the controllers: as the options say, else those of the local cluster. Raises LayoutError,
    AccessError.
    """
    if access is not None and access.address:
        return access
    layout = directory.read_layout()
    if layout is None:
        raise LayoutError(
            f"no cluster in {directory.path}: start one with `barnabas up`, "
            "or select a controller with --address HOST:PORT or BARNABAS_CONTROLLER"
        )
    if access is None:
        return local_access(directory, layout)
    return replace(access, address=f"{HOST}:{layout.operations_port}")


def operating(command: Callable[Concatenate[OperationsClient, P], None]) -> Callable[..., None]:
    """Decorate a command with the options that select a cluster; it is called with a client of that cluster."""

    @data_dir_option
    @access_options
    @click.option("--timeout", default=30.0, show_default=True, metavar="SECONDS", help="Timeout of each request.")
    @functools.wraps(command)
    def run(
        directory: ClusterDirectory,
        access: OperatorAccess | None,
        timeout: float,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        with clear_errors(OperationsError, LayoutError, AccessError):
            found = controller_access(directory, access)
            with OperationsClient(found.address, timeout, found) as operations:
                command(operations, *args, **kwargs)

    return run


def json_option(command: Callable[P, None]) -> Callable[P, None]:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(command)


def show(
    found: Sequence[Message],
    as_json: bool,
    header: Sequence[str],
    row: Callable[[Any], Sequence[object]],
    nothing: str,
) -> None:
    """Print a table, or JSON with --json."""
    if as_json:
        print_json([plain(each) for each in found])
    elif found:
        print_table(header, [row(each) for each in found])
    else:
        click.echo(nothing)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def warn(lines: Iterable[str]) -> None:
    """Warn on stderr that an answer is incomplete, so that tables and JSON on stdout stay intact."""
    for line in lines:
        click.secho(f"incomplete: {line}", fg="yellow", err=True)
