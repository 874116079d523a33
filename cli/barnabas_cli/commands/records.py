"""`produce` and `consume`: turn lines into records and back."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import click

from barnabas.wire.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.wire.record_batch import Record
from barnabas_cli.kafka_access import bootstrap_option, config_option, kafka_client
from barnabas_cli.local.layout import ClusterDirectory, LayoutError
from barnabas_cli.record_client import KafkaError, RecordClient
from barnabas_cli.terminal import clear_errors, data_dir_option

_BATCH_BYTES_MAX = 65_536
_WAIT_MS_MAX = 500


@click.command()
@data_dir_option
@bootstrap_option
@config_option
@click.argument("topic")
@click.option(
    "--partition", type=click.IntRange(0), help="Produce to this partition only; else batches go to all in turn."
)
@click.option("-K", "--key-separator", help="Separator of key and value in a line.")
def produce(
    directory: ClusterDirectory,
    bootstrap: str | None,
    config_path: Path | None,
    topic: str,
    partition: int | None,
    key_separator: str | None,
) -> None:
    """Produce each line of standard input to TOPIC with acks=all, creating the topic if necessary."""
    count = 0
    stdin = sys.stdin.buffer
    assert isinstance(stdin, io.BufferedReader), "standard input is buffered"
    with clear_errors(KafkaError, LayoutError), kafka_client(directory, bootstrap, config_path) as client:
        partitions = [each.partition_index for each in client.topic(topic, create=True).partitions]
        targets = cycle(sorted(partitions) if partition is None else [partition])
        for batch in _batches(stdin, key_separator):
            client.produce(topic, next(targets), batch)
            count += len(batch)
    click.echo(f"produced {count} records to {topic}", err=True)


def _batches(stdin: io.BufferedReader, key_separator: str | None) -> Iterator[list[Record]]:
    """Yield complete lines as they arrive: a line typed by hand is sent at once, a file in large batches."""
    partial = b""
    while chunk := stdin.read1(_BATCH_BYTES_MAX):
        *lines, partial = (partial + chunk).split(b"\n")
        if lines:
            yield [_record(line, key_separator) for line in lines]
    if partial:
        yield [_record(partial, key_separator)]


def _record(text: bytes, key_separator: str | None) -> Record:
    timestamp_ms = time.time_ns() // 1_000_000
    if key_separator is None:
        return Record(None, text, timestamp_ms)
    key, separator, value = text.partition(key_separator.encode())
    return Record(key, value, timestamp_ms) if separator else Record(None, text, timestamp_ms)


@click.command()
@data_dir_option
@bootstrap_option
@config_option
@click.argument("topic")
@click.option("--partition", type=click.IntRange(0), help="Consume this partition only.  [default: all]")
@click.option(
    "--offset", default="earliest", show_default=True, help="Where to begin: `earliest`, `latest` or an offset."
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.  [default: at Ctrl-C]")
@click.option("-K", "--key-separator", help="Print keys too, with this separator.")
@click.option("--exit", "exits_at_end", is_flag=True, help="Stop at the end of all partitions.")
def consume(
    directory: ClusterDirectory,
    bootstrap: str | None,
    config_path: Path | None,
    topic: str,
    partition: int | None,
    offset: str,
    count: int | None,
    key_separator: str | None,
    exits_at_end: bool,
) -> None:
    """Print the records of TOPIC, one per line."""
    out = sys.stdout.buffer
    with clear_errors(KafkaError, LayoutError), kafka_client(directory, bootstrap, config_path) as client:
        partitions = [each.partition_index for each in client.topic(topic, create=False).partitions]
        chosen = sorted(partitions) if partition is None else [partition]
        positions = {each: _first_offset(client, topic, each, offset) for each in chosen}
        for record in islice(_records(client, topic, positions, exits_at_end), count):
            if key_separator is not None:
                out.write((record.key or b"") + key_separator.encode())
            out.write((record.value or b"") + b"\n")
            out.flush()


def _first_offset(client: RecordClient, topic: str, partition: int, offset: str) -> int:
    match offset:
        case "earliest":
            return client.offset(topic, partition, EARLIEST_TIMESTAMP)
        case "latest":
            return client.offset(topic, partition, LATEST_TIMESTAMP)
    if not offset.isdigit():
        raise click.BadParameter(f"{offset} is neither earliest, latest nor a number", param_hint="--offset")
    return int(offset)


def _records(client: RecordClient, topic: str, positions: dict[int, int], exits_at_end: bool) -> Iterator[Record]:
    """Yield the records that exist, partition by partition, then new ones, until the end if `exits_at_end`."""
    # With one partition, the broker holds the fetch until there is data; with more, no partition may delay the others.
    wait_ms_max = _WAIT_MS_MAX if len(positions) == 1 and not exits_at_end else _WAIT_MS_MAX // (10 * len(positions))
    while True:
        found = 0
        for partition in sorted(positions):
            records = client.fetch(topic, partition, positions[partition], wait_ms_max)
            found += len(records)
            if records:
                positions[partition] = records[-1].offset + 1
                yield from records
        if exits_at_end and not found:
            return
