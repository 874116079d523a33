"""`topics`: list, create, describe, alter and delete topics through the ops API."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import click

from barnabas_cli.formatting import plain
from barnabas_cli.operating import ListingGroup, json_option, operating, print_json, show
from barnabas_cli.operations import OperationsClient
from barnabas_cli.terminal import key_and_value, print_table
from barnabas_protos.controller.v1 import operations_pb2 as pb


@click.group(cls=ListingGroup)
def topics() -> None:
    """List, create, describe, alter and delete topics."""


@topics.command("list")
@click.option("--prefix", default="", help="Only topics whose names begin with this.")
@json_option
@operating
def list_topics(operations: OperationsClient, prefix: str, as_json: bool) -> None:
    """List all topics."""
    found: list[pb.TopicSummary] = []
    request = pb.ListTopicsRequest(prefix=prefix)
    while True:
        answer = operations.ask(lambda stub: stub.ListTopics, request)
        found += answer.topics
        if not answer.next_page_token:
            break
        request.page_token = answer.next_page_token
    header = ("TOPIC", "PARTITIONS", "REPLICATION FACTOR", "OFFLINE", "UNDER-REPLICATED", "UNDER MIN ISR")
    show(found, as_json, header, _row, "no topics")


def _row(topic: pb.TopicSummary) -> tuple[object, ...]:
    return (
        topic.topic,
        topic.partitions,
        topic.replication_factor,
        topic.offline_partitions,
        topic.under_replicated_partitions,
        topic.under_min_isr_partitions,
    )


@topics.command()
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(1), default=1, show_default=True)
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a config; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only check whether it could be created.")
@operating
def create(
    operations: OperationsClient,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: Sequence[str],
    dry_run: bool,
) -> None:
    """Create TOPIC."""
    request = pb.CreateTopicRequest(
        topic=topic,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=dict(map(key_and_value, configs)),
        validate_only=dry_run,
    )
    created = operations.ask(lambda stub: stub.CreateTopic, request)
    if dry_run:
        click.echo(f"{topic} could be created")
    else:
        click.echo(f"created {topic} ({uuid.UUID(bytes=created.topic_id)})")


@topics.command()
@click.argument("topic")
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Set a config; repeatable.")
@click.option(
    "--delete-config",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Delete a config, so that the default applies; repeatable.",
)
@click.option("--partitions", type=click.IntRange(1), help="New total; partitions are never removed.")
@operating
def alter(
    operations: OperationsClient,
    topic: str,
    configs: Sequence[str],
    deleted: Sequence[str],
    partitions: int | None,
) -> None:
    """Change configs of TOPIC, or add partitions."""
    if not (configs or deleted or partitions):
        raise click.UsageError("nothing to change: give --config, --delete-config or --partitions")
    request = pb.AlterTopicRequest(
        topic=topic,
        set_configs=dict(map(key_and_value, configs)),
        delete_configs=deleted,
        partitions=partitions or 0,
    )
    operations.ask(lambda stub: stub.AlterTopic, request)
    click.echo(f"altered {topic}")


@topics.command()
@click.argument("topic")
@json_option
@operating
def describe(operations: OperationsClient, topic: str, as_json: bool) -> None:
    """Describe the partitions and configs of TOPIC."""
    found = operations.ask(lambda stub: stub.DescribeTopic, pb.DescribeTopicRequest(topic=topic)).topic
    if as_json:
        print_json(plain(found))
        return
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
@click.argument("topic")
@operating
def delete(operations: OperationsClient, topic: str) -> None:
    """Delete TOPIC and its records."""
    operations.ask(lambda stub: stub.DeleteTopic, pb.DeleteTopicRequest(topic=topic))
    click.echo(f"deleted {topic}")
