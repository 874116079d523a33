"""Appends: who may, in what order, answered when, failed how."""

from __future__ import annotations

import pytest

from barnabas.channel.messages import ExchangeRequest
from barnabas.cluster.messages import LeaderAndIsr, UpdateMetadata
from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.errors import ErrorCode
from services.logstore.core.storage.effects import WriteEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.service.support import (
    EXCHANGE,
    READ,
    TOPIC_ID,
    Host,
    append_results,
    batch,
    offsets,
    topic,
)


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE, READ)
    host.lead()
    return host


def test_an_append_is_answered_when_it_is_written_and_committed_at_once_without_followers(host: Host) -> None:
    host.append(batch(3))
    result = host.append(batch(2))
    assert (result.error_code, result.base_offset, result.required_offset) == (ErrorCode.NONE, 3, 5)
    assert (result.committed, result.leader_epoch, result.log_start_offset) == (True, 0, 0)
    assert result.log_append_time_ms == -1
    assert offsets(host.read().partitions[0].records) == [0, 3]
