"""How a table's files are laid apart: by the record's time, by Kafka's partition, by buckets of the key, or not."""

from __future__ import annotations

import datetime
import enum
import re
from dataclasses import dataclass

BUCKETS_MAX = 10_000
_BUCKET = re.compile(r"bucket\((\d{1,6})\)")
_EPOCH_DAY = datetime.date(1970, 1, 1)


class PartitionBy(enum.Enum):
    NONE = "none"
    DAY = "day"
    HOUR = "hour"
    KAFKA_PARTITION = "partition"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A partition's value is an int as Iceberg has it: days or hours since 1970, the partition's or bucket's number.

    None is the bucket of records without a key.
    """

    by: PartitionBy = PartitionBy.NONE
    buckets: int = 0

    @property
    def column(self) -> str:
        """The column in which formats without hidden partitioning (Delta, Parquet) keep the value."""
        match self.by:
            case PartitionBy.KAFKA_PARTITION:
                return "_kafka_partition"
            case PartitionBy.BUCKET:
                return f"_bucket_{self.buckets}"
            case _:
                return f"_{self.by.value}"

    @property
    def names(self) -> frozenset[str]:
        """What a table that is laid apart like this calls it, and no column of a value can be called: the column above,
        and in Iceberg the field of the partition spec."""
        return frozenset({self.column, *(f"_{name}_{self.by.value}" for name in ("timestamp", "key", "partition"))})

    def label(self, value: int | None) -> str:
        """The value as directories and Delta's log spell it."""
        if value is None:
            return "__HIVE_DEFAULT_PARTITION__"
        match self.by:
            case PartitionBy.DAY:
                return (_EPOCH_DAY + datetime.timedelta(days=value)).isoformat()
            case PartitionBy.HOUR:
                return f"{(_EPOCH_DAY + datetime.timedelta(days=value // 24)).isoformat()}-{value % 24:02d}"
            case _:
                return str(value)

    def value(self, label: str) -> int | None:
        """The opposite of `label`."""
        if label == "__HIVE_DEFAULT_PARTITION__":
            return None
        match self.by:
            case PartitionBy.DAY:
                return (datetime.date.fromisoformat(label) - _EPOCH_DAY).days
            case PartitionBy.HOUR:
                return (datetime.date.fromisoformat(label[:10]) - _EPOCH_DAY).days * 24 + int(label[11:])
            case _:
                return int(label)

    def __str__(self) -> str:
        return f"bucket({self.buckets})" if self.by is PartitionBy.BUCKET else self.by.value


def partitioning_of(columns: list[str]) -> Partitioning:
    """By the columns that a table is partitioned by: the opposite of `column`. ValueError if it is none of ours."""
    if not columns:
        return Partitioning()
    (column,) = columns
    bucket = re.fullmatch(r"_bucket_(\d{1,6})", column)
    if bucket is not None:
        return Partitioning(PartitionBy.BUCKET, int(bucket[1]))
    return next(Partitioning(by) for by in PartitionBy if Partitioning(by).column == column)


def parse_partitioning(text: str) -> Partitioning:
    """`none`, `day`, `hour`, `partition` or `bucket(16)`. ValueError says which there are."""
    cleaned = text.strip().lower()
    bucket = _BUCKET.fullmatch(cleaned)
    if bucket is not None and 0 < int(bucket[1]) <= BUCKETS_MAX:
        return Partitioning(PartitionBy.BUCKET, int(bucket[1]))
    for by in PartitionBy:
        if by.value == cleaned and by is not PartitionBy.BUCKET:
            return Partitioning(by)
    raise ValueError(f"no partitioning {text!r}: there are none, day, hour, partition, bucket(1..{BUCKETS_MAX})")
