"""CVE-2018-17196: a Produce request said for itself whether it was transactional or idempotent, and its batches were
believed to be no different. What counts is what the batches say.
"""

from __future__ import annotations

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.message_set import encode_message
from barnabas.wire.record_batch import Record, build_batch, parse_header
from tests.sim.disk_model import DiskModel
from tests.unit.gateway.world import World
from tests.unit.logstore.storage.support import WALL_MS, append, new_log, refusal


def batch(sequence: int, *, is_transactional: bool = False) -> bytes:
    return build_batch(
        [Record(b"k", b"v", WALL_MS)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


@pytest.mark.parametrize("version", [2, 3, 8, 11])
def test_cve_2018_17196_a_transactional_batch_needs_a_transactional_id_whatever_the_version(version: int) -> None:
    world = World()
    client = world.client()
    client.produce(records=batch(0, is_transactional=True), version=version)
    assert client.error_codes() == [[ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]]
    assert world.logstore.appends == []


def test_cve_2018_17196_a_leader_looks_at_the_batch_itself() -> None:
    log = new_log(DiskModel())
    assert refusal(log, batch(0, is_transactional=True)) is ErrorCode.INVALID_TXN_STATE
    append(log, batch(0))
    assert append(log, batch(0)).is_duplicate
    assert refusal(log, batch(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_cve_2018_17196_what_is_converted_belongs_to_no_producer() -> None:
    world = World()
    world.client().produce(records=encode_message(0, 1, b"k", b"v", timestamp_ms=5), version=2)
    world.convert()
    (converted,) = world.logstore.appends
    header = parse_header(converted.records)
    assert (header.producer_id, header.is_transactional, header.is_control) == (-1, False, False)
