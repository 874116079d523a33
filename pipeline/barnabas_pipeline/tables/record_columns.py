"""What every row says of the record it came from, and under which names.

A raw table has Kafka's own names; where the value is decoded into columns, the record's have a `_` before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
TIMESTAMP = pa.timestamp("us", tz="UTC")
RECORD_FIELDS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int64(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
}
TOMBSTONE = "_tombstone"


def record_schema(prefix: str, *, with_value: bool) -> pa.Schema:
    """A row's columns about its record, `prefix` being empty (raw) or `_` (decoded)."""
    names = [name for name in RECORD_FIELDS if with_value or name != "value"]
    return pa.schema([pa.field(prefix + name, RECORD_FIELDS[name]) for name in names])


def dead_letter_schema() -> pa.Schema:
    """Whence, why, and the record's own bytes: enough to send it again."""
    return record_schema("", with_value=True).append(pa.field("reason", pa.string()))


RecordIdentity: TypeAlias = tuple[str, int, int, int | None]
"""Topic, partition, offset, timestamp in microseconds: a topic made anew uses the offsets of the one before."""


def identities(records: pa.Table) -> Iterator[RecordIdentity]:
    """Of rows with Kafka's own names."""
    times = pc.cast(records["timestamp"], pa.int64()).to_pylist()
    columns = (records[name].to_pylist() for name in ("topic", "partition", "offset"))
    return zip(*columns, times, strict=True)


def is_raw(schema: pa.Schema) -> bool:
    return "offset" in schema.names and "_offset" not in schema.names
