"""`transactions`: list and describe transactions, find the hanging ones, abort one."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click

from barnabas.client.kafka_connection import ConnectionBroken
from barnabas.wire.errors import ErrorCode
from barnabas_cli.formatting import moment
from barnabas_cli.kafka_access import bootstrap_option, config_option, kafka_connection
from barnabas_cli.local.layout import ClusterDirectory, LayoutError
from barnabas_cli.operating import ListingGroup, json_option, print_json
from barnabas_cli.record_client import KafkaError
from barnabas_cli.terminal import clear_errors, data_dir_option, print_table
from barnabas_cli.transactions import MAX_TRANSACTION_TIMEOUT_MINUTES, OpenTransaction, TransactionsClient

P = ParamSpec("P")
_MINUTE_MS: Final = 60_000


def _connected(command: Callable[Concatenate[TransactionsClient, P], None]) -> Callable[..., None]:
    """Decorate a command with the options that select a cluster; it is called with a client of that cluster."""

    @data_dir_option
    @bootstrap_option
    @config_option
    @click.option("--timeout", default=30.0, show_default=True, metavar="SECONDS", help="Timeout of each request.")
    @functools.wraps(command)
    def run(
        directory: ClusterDirectory,
        bootstrap: str | None,
        config_path: Path | None,
        timeout: float,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        with (
            clear_errors(KafkaError, LayoutError, ConnectionBroken),
            kafka_connection(directory, bootstrap, config_path, timeout) as connection,
        ):
            command(TransactionsClient(connection, timeout), *args, **kwargs)

    return run


@click.group(cls=ListingGroup)
def transactions() -> None:
    """List and describe transactions, find those that hang, and abort one."""


@transactions.command("list")
@click.option("--state", "states", multiple=True, help="Only in this state: Ongoing, PrepareCommit, …; repeatable.")
@click.option("--running-longer-than", type=int, default=-1, metavar="MS", help="Only those that are open for longer.")
@json_option
@_connected
def list_transactions(
    client: TransactionsClient, states: Sequence[str], running_longer_than: int, as_json: bool
) -> None:
    """List transactional ids and the states of their transactions."""
    found = client.list_transactions(states, longer_than_ms=running_longer_than)
    rows = [(each.transactional_id, each.transaction_state, each.producer_id) for each in found]
    _show(
        [asdict(each) for each in found],
        as_json,
        ("TRANSACTIONAL ID", "STATE", "PRODUCER ID"),
        rows,
        "no transactional ids",
    )


@transactions.command()
@click.argument("transactional_id")
@json_option
@_connected
def describe(client: TransactionsClient, transactional_id: str, as_json: bool) -> None:
    """Describe the transaction of TRANSACTIONAL_ID: its state, producer and partitions."""
    (found,) = client.describe_transactions([transactional_id])
    if found.error_code:
        raise KafkaError(f"{transactional_id}: {ErrorCode(found.error_code).message}")
    if as_json:
        print_json(asdict(found))
        return
    began = f", began {moment(found.transaction_start_time_ms)} UTC" if found.transaction_start_time_ms > 0 else ""
    click.echo(
        f"{found.transactional_id}  {found.transaction_state}, producer {found.producer_id} epoch "
        f"{found.producer_epoch}{began}, timeout {found.transaction_timeout_ms} ms"
    )
    for topic in found.topics:
        for partition in sorted(topic.partitions):
            click.echo(f"{topic.topic}-{partition}")


@transactions.command("find-hanging")
@click.option("--topic", help="Only in partitions of this topic; else in all partitions.")
@click.option(
    "--max-transaction-timeout",
    "minutes",
    type=click.IntRange(0),
    default=MAX_TRANSACTION_TIMEOUT_MINUTES,
    show_default=True,
    metavar="MINUTES",
    help="Only transactions without a record for longer.",
)
@json_option
@_connected
def find_hanging(client: TransactionsClient, topic: str | None, minutes: int, as_json: bool) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    found = client.find_hanging(topic, minutes * _MINUTE_MS, time.time_ns() // 1_000_000)
    header = ("PARTITION", "START OFFSET", "PRODUCER ID", "EPOCH", "LAST RECORD", "TRANSACTIONAL ID")
    _show([asdict(each) for each in found], as_json, header, [_row(each) for each in found], "no hanging transactions")


def _row(found: OpenTransaction) -> tuple[object, ...]:
    return (
        f"{found.topic}-{found.partition}",
        found.start_offset,
        found.producer_id,
        found.producer_epoch,
        f"{moment(found.last_timestamp_ms)} UTC",
        found.transactional_id or "-",
    )


@transactions.command()
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@click.argument("start_offset", type=click.IntRange(0))
@_connected
def abort(client: TransactionsClient, topic: str, partition: int, start_offset: int) -> None:
    """Abort the transaction that begins at START_OFFSET of a partition, there alone: for one that hangs."""
    found = client.abort(topic, partition, start_offset)
    click.echo(f"aborted the transaction of producer {found.producer_id} in {topic}-{partition}")


def _show(
    found: Sequence[dict[str, Any]], as_json: bool, header: Sequence[str], rows: Sequence[Sequence[object]], none: str
) -> None:
    if as_json:
        print_json(found)
    elif rows:
        print_table(header, rows)
    else:
        click.echo(none)
