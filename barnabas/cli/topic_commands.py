"""`topics`: through the ops API."""

from __future__ import annotations

import uuid

import click

from barnabas.cli.layout import HOST, ClusterDirectory, LayoutError
from barnabas.cli.operations import OperationsClient, OperationsError
from barnabas.cli.terminal import clear_errors, data_dir_option, print_table


@click.group()
def topics() -> None:
    """List, create, describe, alter and delete topics."""


def _operations(directory: ClusterDirectory) -> OperationsClient:
    return OperationsClient(f"{HOST}:{directory.require_layout().controller_port}")


@topics.command("list")
@data_dir_option
def list_topics(directory: ClusterDirectory) -> None:
    """All topics."""
    with clear_errors(OperationsError, LayoutError), _operations(directory) as operations:
        rows = [
            (topic.topic, topic.partitions, topic.replication_factor, topic.offline_partitions)
            for topic in operations.list_topics()
        ]
    print_table(("TOPIC", "PARTITIONS", "REPLICATION FACTOR", "OFFLINE"), rows)


@topics.command()
@data_dir_option
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(1), default=1, show_default=True)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="May be given several times.")
def create(
    directory: ClusterDirectory, topic: str, partitions: int, replication_factor: int, configs: tuple[str, ...]
) -> None:
    """Create TOPIC."""
    pairs = dict(_pair(config) for config in configs)
    with clear_errors(OperationsError, LayoutError), _operations(directory) as operations:
        created = operations.create_topic(topic, partitions, replication_factor, pairs)
    click.echo(f"created {topic} ({uuid.UUID(bytes=created.topic_id)})")


@topics.command()
@data_dir_option
@click.argument("topic")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="May be given several times.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to the default; likewise.")
@click.option("--partitions", type=click.IntRange(1), help="How many in all; partitions are never removed.")
def alter(
    directory: ClusterDirectory, topic: str, configs: tuple[str, ...], deleted: tuple[str, ...], partitions: int | None
) -> None:
    """Change configs of TOPIC, or give it more partitions."""
    if not (configs or deleted or partitions):
        raise click.UsageError("nothing to change: give --config, --delete-config or --partitions")
    pairs = dict(_pair(config) for config in configs)
    with clear_errors(OperationsError, LayoutError), _operations(directory) as operations:
        operations.alter_topic(topic, pairs, deleted, partitions or 0)
    click.echo(f"altered {topic}")


def _pair(config: str) -> tuple[str, str]:
    key, equals, value = config.partition("=")
    if not equals:
        raise click.BadParameter(f"{config} is no KEY=VALUE")
    return key, value


@topics.command()
@data_dir_option
@click.argument("topic")
def describe(directory: ClusterDirectory, topic: str) -> None:
    """Leaders and replicas of TOPIC."""
    with clear_errors(OperationsError, LayoutError), _operations(directory) as operations:
        found = operations.describe_topic(topic).topic
    click.echo(f"{found.topic}  id {uuid.UUID(bytes=found.topic_id)}")
    for key, value in sorted(found.configs.items()):
        click.echo(f"  {key}={value}")
    rows = [
        (
            each.partition,
            each.leader if each.leader >= 0 else "none",
            each.leader_epoch,
            ",".join(map(str, each.replicas)),
            ",".join(map(str, each.in_sync_replicas)),
        )
        for each in found.partitions
    ]
    print_table(("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC"), rows)


@topics.command()
@data_dir_option
@click.argument("topic")
def delete(directory: ClusterDirectory, topic: str) -> None:
    """Delete TOPIC and its records."""
    with clear_errors(OperationsError, LayoutError), _operations(directory) as operations:
        operations.delete_topic(topic)
    click.echo(f"deleted {topic}")
