"""`events`, `history`: follow cluster events, and list past controllers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click
import grpc

from barnabas_cli.formatting import listed, moment, plain
from barnabas_cli.local.layout import ClusterDirectory, LayoutError
from barnabas_cli.operating import controller_access, json_option, operating, print_json, show
from barnabas_cli.operations import OperationsClient, OperationsError
from barnabas_cli.operator_access import AccessError, OperatorAccess, access_options
from barnabas_cli.terminal import clear_errors, data_dir_option, print_table
from barnabas_protos.controller.v1 import operations_pb2 as pb

_AGAIN_SECONDS = 0.5
# A new controller takes some seconds to become active.
_AGAIN_SECONDS_MAX = 30.0
_GO_ON = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.CANCELLED)


@click.command()
@click.option(
    "--from-revision",
    type=click.IntRange(0),
    default=0,
    help="Show events after this revision.  [default: from now on]",
)
@click.option("--count", type=click.IntRange(1), help="Stop after this many events.")
@json_option
@operating
def events(operations: OperationsClient, from_revision: int, count: int | None, as_json: bool) -> None:
    """Follow cluster events until Ctrl-C, also across controller failover.

    With --json, each event is one line.
    """
    revision, reported = from_revision, 0
    silent_since: float | None = None
    while True:
        try:
            for response in operations.watch(revision):
                silent_since = None
                for event in response.events:
                    click.echo(json.dumps(plain(event)) if as_json else line_of(event))
                    reported += 1
                    if reported == count:
                        return
                revision = response.revision
        except OperationsError as error:
            silent_since = silent_since or time.monotonic()
            if error.status not in _GO_ON or not revision or time.monotonic() - silent_since > _AGAIN_SECONDS_MAX:
                raise
            time.sleep(_AGAIN_SECONDS)


def line_of(event: pb.Event) -> str:
    kind = event.WhichOneof("what")
    reported = "something that this version has no words for"
    if kind is not None:
        reported = _WORDS[kind](getattr(event, kind))
    return f"{moment(event.time_ms)}  {event.revision:>8}  {reported}"


def _leader(each: pb.LeaderEvent) -> str:
    after = f"is led by {each.leader}" if each.leader >= 0 else "has no leader"
    before = each.leader_before if each.leader_before >= 0 else "none"
    return f"{each.topic}-{each.partition} {after} in epoch {each.leader_epoch} (before: {before})"


def _isr(verb: str) -> Callable[[Any], str]:
    def words(each: pb.IsrEvent) -> str:
        return f"{each.topic}-{each.partition} ISR {verb} from {listed(each.before)} to {listed(each.in_sync_replicas)}"

    return words


def _config(each: pb.ConfigEvent) -> str:
    whose = f"topic {each.topic}" if each.topic else "all brokers" if each.broker < 0 else f"broker {each.broker}"
    given = [f"{name}={value}" for name, value in sorted(each.set_configs.items())]
    return f"configs of {whose}: {', '.join([*given, *(f'{name} deleted' for name in each.deleted_configs)])}"


def _move(each: pb.ReassignmentEvent) -> str:
    return f"{each.topic}-{each.partition} moves: + {listed(each.adding_replicas)}, - {listed(each.removing_replicas)}"


_WORDS: dict[str, Callable[[Any], str]] = {
    "node_up": lambda each: f"{each.role} {each.id} is up",
    "node_down": lambda each: f"{each.role} {each.id} is down",
    "node_removed": lambda each: f"{each.role} {each.id} is removed",
    "leader_changed": _leader,
    "isr_shrunk": _isr("shrinks"),
    "isr_expanded": _isr("expands"),
    "topic_created": lambda each: f"topic {each.topic} created with {each.partitions} partitions",
    "topic_deleted": lambda each: f"topic {each.topic} deleted",
    "partitions_added": lambda each: f"topic {each.topic} now has {each.partitions} partitions",
    "config_changed": _config,
    "controller_changed": lambda each: (
        f"{each.controller_id} is the controller in epoch {each.controller_epoch}"
        if each.controller_id
        else "there is no active controller"
    ),
    "reassignment_begun": _move,
    "reassignment_done": lambda each: f"{each.topic}-{each.partition} has its replicas: {listed(each.replicas)}",
    "drain_begun": lambda each: f"logstore {each.node_id} is being drained",
    "drain_ended": lambda each: f"logstore {each.node_id} is back in service",
    "balance_changed": lambda each: f"automatic leader balancing is {'paused' if each.paused else 'resumed'}",
}


@click.command()
@click.option("--restarts", is_flag=True, help="List only restarts of the local cluster's services.")
@json_option
@data_dir_option
@access_options
@click.option("--timeout", default=30.0, show_default=True, metavar="SECONDS", help="Timeout of each request.")
def history(
    directory: ClusterDirectory, access: OperatorAccess | None, timeout: float, restarts: bool, as_json: bool
) -> None:
    """List which controller was active when, and which services of a local cluster died and were restarted.

    With --json, either the controllers or, with --restarts, the restarts.
    """
    is_local = access is None or not access.address
    if not restarts:
        with clear_errors(OperationsError, LayoutError, AccessError):
            found = controller_access(directory, access)
            with OperationsClient(found.address, timeout, found) as operations:
                _show_terms(operations, as_json)
    if restarts or (is_local and not as_json):
        _show_restarts(directory, as_json, is_asked_for=restarts)


def _show_terms(operations: OperationsClient, as_json: bool) -> None:
    request = pb.DescribeControllerHistoryRequest()
    terms = operations.ask(lambda stub: stub.DescribeControllerHistory, request).terms
    show(
        terms,
        as_json,
        ("EPOCH", "CONTROLLER", "SINCE (UTC)", "UNTIL (UTC)", "ADDRESS"),
        lambda term: (
            term.controller_epoch,
            term.controller_id,
            moment(term.since_ms),
            moment(term.until_ms) if term.until_ms else "now",
            term.address,
        ),
        "no controller has been active yet",
    )


def _show_restarts(directory: ClusterDirectory, as_json: bool, is_asked_for: bool) -> None:
    from barnabas.supervisor.restart_events import read_restart_events
    from barnabas_cli.local.restarts import reason_of
    from barnabas_cli.local.supervision import restart_events_path

    events = read_restart_events(restart_events_path(directory))
    if as_json:
        print_json([event._asdict() for event in events])
    elif events:
        if not is_asked_for:
            click.echo()
        rows = [(moment(each.time_ms), each.service, each.what, each.pid or "-", reason_of(each)) for each in events]
        print_table(("TIME (UTC)", "SERVICE", "WHAT", "PID", "WHY"), rows)
    elif is_asked_for:
        click.echo("no service has died under the supervisor")
