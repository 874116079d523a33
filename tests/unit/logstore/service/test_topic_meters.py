"""What a topic's meter says of its appends: each counted once, however it ends."""

from __future__ import annotations

import pytest

from barnabas.metrics.family import Family
from barnabas.metrics.topic_families import BYTES_IN, FAILED_PRODUCE_REQUESTS, MESSAGES_IN, PRODUCE_REQUESTS
from barnabas.wire.errors import ErrorCode
from tests.unit.logstore.service.support import EXCHANGE, TOPIC, Host, append_results, batch, topic

OTHER_NODE = 2


@pytest.fixture
def host() -> Host:
    host = Host()
    host.greet(EXCHANGE)
    host.lead()
    return host


def counted(host: Host, label: str = TOPIC) -> tuple[float, float, float, float]:
    """Appends, failed ones, records, bytes."""

    def value(family: Family) -> float:
        (found,) = [
            each.value for each in host.core.measures.samples() if each.family is family and each.labels == (label,)
        ]
        assert isinstance(found, int | float)
        return found

    return value(PRODUCE_REQUESTS), value(FAILED_PRODUCE_REQUESTS), value(MESSAGES_IN), value(BYTES_IN)


def test_appends_of_one_write_are_counted_each_with_their_records_and_bytes(host: Host) -> None:
    one, three = batch(1), batch(3)
    host.send(host.append_request(one), host.append_request(three))
    assert len(append_results(host.turn())) == 2
    host.append(one)
    assert counted(host) == (3, 0, 5, 2 * len(one) + len(three))


def test_refused_appends_are_counted_and_leave_no_records(host: Host) -> None:
    assert host.append(leader_epoch=7).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.append(batch()[:-1] + b"?").error_code == ErrorCode.CORRUPT_MESSAGE
    assert counted(host) == (2, 2, 0, 0)


def test_an_append_to_a_partition_that_is_not_here_counts_for_the_broker_alone(host: Host) -> None:
    assert host.append(partition=9).error_code
    assert counted(host) == (0, 0, 0, 0)
    assert counted(host, "")[:2] == (1, 1)


def test_an_append_that_fails_while_its_write_is_under_way_is_counted_once(host: Host) -> None:
    host.holds_effects = True
    host.send(host.append_request())
    assert append_results(host.turn()) == []
    # Another leads from now on; what is under way may be written all the same.
    host.holds_effects = False
    host.lead(topic(leader_epoch=1, leader=OTHER_NODE, replicas=[1, OTHER_NODE], in_sync_replicas=[1, OTHER_NODE]))
    requests, failed, records, byte_count = counted(host)
    assert (requests, failed) == (1, 1)
    assert (records, byte_count) == (0, 0), "bytes that a follower writes are no producer's"
