"""Timestamps of records that are past 64 bits, in a batch whose checksum is right: they ended the cleaner's process.

Found by `make fuzz` (compaction). A leader looks at a batch's header, where both timestamps may be sensible; the deltas
of its records are the producer's own. The log is uncleanable, and all others are cleaned.
"""

from __future__ import annotations

import pytest

from barnabas.wire.primitives import varint
from barnabas.wire.record_batch import assemble_batch, build_batch, parse_header
from barnabas_logstore.core.storage.compaction.orders import UncleanableLog
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.compaction.support import LogWriter, clean, compacted_topic, keyed
from tests.unit.logstore.storage.support import WALL_MS


def record(timestamp_delta: int, offset_delta: int, key: bytes, value: bytes | None) -> bytes:
    content = (varint(len(key)), key, varint(-1) if value is None else varint(len(value)) + value, b"\0")
    body = b"".join((b"\0", varint(timestamp_delta), varint(offset_delta), *content))
    return varint(len(body)) + body


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("value", [b"v", None])
def test_the_log_is_uncleanable(delta: int, value: bytes | None) -> None:
    header = parse_header(build_batch([keyed("a", "1"), keyed("b", "2"), keyed("c", "3")]))
    payload = record(0, 0, b"a", b"1") + record(delta, 1, b"b", value) + record(0, 2, b"c", None)
    writer = LogWriter(DiskModel())
    writer.add(assemble_batch(header, payload))
    writer.records(keyed("a", "later"))
    writer.roll()
    writer.records(keyed("z", "active"))
    log = writer.open(compacted_topic())
    with pytest.raises(UncleanableLog, match="timestamp"):
        clean(writer.disk, log, WALL_MS)


def test_one_that_is_no_number_makes_it_uncleanable_too() -> None:
    header = parse_header(build_batch([keyed("a", "1"), keyed("b", "2")]))
    endless = b"\0" + b"\xff" * 10 + b"\0" + b"\0" * 6
    writer = LogWriter(DiskModel())
    writer.add(assemble_batch(header, record(0, 0, b"a", b"1") + varint(len(endless)) + endless))
    writer.records(keyed("a", "later"))
    writer.roll()
    writer.records(keyed("z", "active"))
    with pytest.raises(UncleanableLog):
        clean(writer.disk, writer.open(compacted_topic()), WALL_MS)


def test_sensible_ones_are_cleaned() -> None:
    header = parse_header(build_batch([keyed("a", "1"), keyed("b", "2")]))
    writer = LogWriter(DiskModel())
    writer.add(assemble_batch(header, record(0, 0, b"a", b"1") + record(5, 1, b"b", None)))
    writer.records(keyed("a", "later"))
    writer.roll()
    writer.records(keyed("z", "active"))
    assert clean(writer.disk, writer.open(compacted_topic())).records_written > 0
