"""`configs`: show effective configuration and its source; change dynamic broker configuration."""

from __future__ import annotations

from collections.abc import Sequence

import click

from barnabas_cli.formatting import plain
from barnabas_cli.operating import ListingGroup, json_option, operating, print_json, show
from barnabas_cli.operations import OperationsClient
from barnabas_cli.terminal import key_and_value
from barnabas_protos.controller.v1 import operations_pb2 as pb

_SOURCES = {
    pb.TOPIC_CONFIG: "topic",
    pb.DYNAMIC_BROKER_CONFIG: "dynamic, this broker",
    pb.DYNAMIC_DEFAULT_BROKER_CONFIG: "dynamic, all brokers",
    pb.STATIC_BROKER_CONFIG: "static",
    pb.DEFAULT_CONFIG: "default",
}


@click.group(cls=ListingGroup)
def configs() -> None:
    """Show effective configuration of topics and brokers; change it for brokers."""


@configs.command("list")
@click.option("--topic", help="Show configs of this topic.")
@click.option("--broker", type=int, metavar="NODE", help="Show configs of this logstore.")
@click.option("--key", "keys", multiple=True, help="Show only this key; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Defaults too.")
@json_option
@operating
def list_configs(
    operations: OperationsClient,
    topic: str | None,
    broker: int | None,
    keys: Sequence[str],
    everything: bool,
    as_json: bool,
) -> None:
    """List effective configs and where each value comes from."""
    if (topic is None) == (broker is None):
        raise click.UsageError("give --topic or --broker")
    request = pb.DescribeConfigsRequest(topic=topic or "", broker=broker, keys=keys, only_set=not (everything or keys))
    answer = operations.ask(lambda stub: stub.DescribeConfigs, request)
    if as_json:
        print_json(plain(answer))
        return
    show(
        answer.configs,
        False,
        ("KEY", "VALUE", "FROM", "OVERRIDES"),
        _row,
        "all values are defaults; show them with --all",
    )


def _row(entry: pb.ConfigEntry) -> tuple[object, ...]:
    value = "(secret)" if entry.is_sensitive else "(unset)" if entry.is_null else entry.value
    others = [f"{each.value} ({_SOURCES.get(each.source, '?')})" for each in entry.values[1:]]
    return entry.name, value, _SOURCES.get(entry.source, "?"), ", ".join(others)


@configs.command("alter")
@click.option("--broker", type=int, metavar="NODE", help="Change configs of this logstore.")
@click.option("--all-brokers", is_flag=True, help="Change the default of all logstores without their own value.")
@click.option("--set", "given", multiple=True, metavar="KEY=VALUE", help="Set a config; repeatable.")
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Delete the dynamic value, so that the static one applies; repeatable.",
)
@operating
def alter(
    operations: OperationsClient,
    broker: int | None,
    all_brokers: bool,
    given: Sequence[str],
    deleted: Sequence[str],
) -> None:
    """Change dynamic broker configs. (Topics: `barnabas topics alter`.)"""
    if (broker is None) == (not all_brokers):
        raise click.UsageError("give --broker NODE or --all-brokers")
    if not (given or deleted):
        raise click.UsageError("nothing to change: give --set or --delete")
    request = pb.AlterBrokerConfigsRequest(
        broker=broker, set_configs=dict(map(key_and_value, given)), delete_configs=deleted
    )
    operations.ask(lambda stub: stub.AlterBrokerConfigs, request)
    click.echo("altered")
