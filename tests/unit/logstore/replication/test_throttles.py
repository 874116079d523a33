"""Replication throttles: virtual bytes in virtual seconds, at the leader, at the follower and between directories."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from barnabas.channel.messages import ReplicaData
from barnabas.cluster.messages import BrokerConfigs, UpdateMetadata
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.throttles import QuotaWindows, ReplicationQuota, Throttles
from tests.unit.logstore.replication.support import (
    LEADER,
    REPLICAS,
    FollowerByHand,
    FollowingHost,
    answer,
    at,
    fetch_of,
    following_host,
    leading_host,
    partition_of,
    stored,
)
from tests.unit.logstore.service.support import CLUSTER_ID, EXCHANGE, NODE_ID, TOPIC, Host, batch, topic

RATE = 20_000
BATCHES = 200
BATCH_BYTES = len(batch(value_bytes=1_000))
TICK_MS = 100
KEYS = {
    "leader": "leader.replication.throttled.rate",
    "follower": "follower.replication.throttled.rate",
    "log_dirs": "replica.alter.log.dirs.io.max.bytes.per.second",
}
LEADERS_LIST = "leader.replication.throttled.replicas"
FOLLOWERS_LIST = "follower.replication.throttled.replicas"


def rates(host: Host, **bytes_per_second: int) -> UpdateMetadata:
    """Of this broker; those that are not named have no bound any more."""
    values = {KEYS[name]: str(rate) for name, rate in bytes_per_second.items()}
    image = host.core._replicas.image
    brokers = list(image.brokers.values())
    configs = [BrokerConfigs(NODE_ID, values)]
    return UpdateMetadata(image.revision + 1, True, CLUSTER_ID, 5, brokers, [], [], broker_configs=configs)


def set_rates(host: Host, **bytes_per_second: int) -> None:
    assert host.control(rates(host, **bytes_per_second)).error_code == ErrorCode.NONE


def pass_ticks(host: Host, ms: int, each: Callable[[], None]) -> None:
    for _ in range(ms // TICK_MS):
        host.now_ms += TICK_MS
        host.core.tick(host.now_ms)
        each()


# --- the quota itself ------------------------------------------------------------------------------------------------


def test_a_rate_is_measured_over_what_has_passed_of_its_windows() -> None:
    quota = ReplicationQuota(QuotaWindows(count=3, size_ms=1000))
    quota.record(10**9, 0)
    assert not quota.is_exceeded(0), "none is set"
    quota.bytes_per_second = 1_000
    assert quota.is_exceeded(2_999)
    assert not quota.is_exceeded(3_000), "the window is forgotten"
    quota.record(1_000, 3_000)
    assert not quota.is_exceeded(3_000)
    quota.record(1, 3_500)
    assert quota.is_exceeded(4_000)
    assert not quota.is_exceeded(4_001 + 1)
    quota.bytes_per_second = 0
    assert quota.is_exceeded(4_002)


@pytest.mark.parametrize(
    ("listed", "partitions"),
    [("*", [0, 1, 7]), ("", []), (f"0:{NODE_ID},7:{NODE_ID},1:9", [0, 7]), ("0:9", []), (f"1:1{NODE_ID}", [])],
)
def test_a_list_names_replicas_by_their_brokers(listed: str, partitions: list[int]) -> None:
    throttles = Throttles(NODE_ID, QuotaWindows(), QuotaWindows())
    assert [number for number in (0, 1, 7) if throttles.is_listed(listed, number)] == partitions


# --- the leader ------------------------------------------------------------------------------------------------------


class Copier:
    """A follower by hand that takes what it is given, and asks again at once."""

    def __init__(self, host: Host, node_id: int) -> None:
        self._host = host
        self._follower = FollowerByHand(host, node_id)
        self.byte_count = self.offset = 0
        self._is_begun = False

    def go_on(self) -> None:
        """Whatever can be got now. An answer may end in the midst of a batch, which is asked for again."""
        if not self._is_begun:
            self._is_begun = True
            self._follower.ask(at(0))
        while (answered := self._follower.answer()) is not None:
            records = b"".join(bytes(data.records) for data in answered)
            self.byte_count += len(records)
            self.offset += len(records) // BATCH_BYTES
            self._follower.ask(*([at(self.offset)] if records else []))
            if not records:
                return


def throttled_leader(listed: str, in_sync_replicas: list[int]) -> Host:
    host = leading_host(in_sync_replicas)
    for _ in range(BATCHES):
        host.append(batch(value_bytes=1_000), leader_epoch=0, acks=1)
    configs = {"min.insync.replicas": "2", LEADERS_LIST: listed}
    host.lead(topic(0, 1, replicas=REPLICAS, in_sync_replicas=in_sync_replicas, configs=configs))
    return host


@pytest.mark.parametrize("listed", ["*", f"0:{NODE_ID}"])
def test_a_leader_keeps_to_its_rate_with_who_is_not_in_sync(listed: str) -> None:
    host = throttled_leader(listed, [1, 2])
    set_rates(host, leader=RATE)
    copier = Copier(host, 3)
    pass_ticks(host, 5_000, copier.go_on)
    # One answer of a second's worth comes at once, and is in the measure like any other.
    assert 4 * RATE <= copier.byte_count <= 6 * RATE + BATCH_BYTES
    # What is outstanding is answered as the rate goes.
    host.core.on_control(7, host.command(rates(host)))
    copier.go_on()
    assert copier.offset == BATCHES, "without a rate everything that is left comes at once"


@pytest.mark.parametrize(
    ("listed", "in_sync_replicas", "rate"),
    [("*", [1, 2, 3], RATE), ("0:2,1:1", [1, 2], RATE), ("", [1, 2], RATE), ("*", [1, 2], 10**12)],
    ids=["in sync", "other replicas are listed", "none is listed", "a high rate"],
)
def test_a_leader_slows_down_no_other(listed: str, in_sync_replicas: list[int], rate: int) -> None:
    host = throttled_leader(listed, in_sync_replicas)
    set_rates(host, leader=rate)
    copier = Copier(host, 3)
    copier.go_on()
    assert copier.offset == BATCHES


def test_what_goes_to_members_of_the_isr_counts_for_the_rate() -> None:
    host = throttled_leader("*", [1, 2])
    set_rates(host, leader=RATE)
    member, copier = Copier(host, 2), Copier(host, 3)
    member.go_on()
    copier.go_on()
    pass_ticks(host, 5_000, copier.go_on)
    assert member.offset == BATCHES
    # It fills ten seconds at this rate, of the eleven that are measured.
    assert copier.byte_count <= RATE + BATCH_BYTES


def test_a_follower_that_is_throttled_still_hears_of_the_watermark() -> None:
    host = throttled_leader("*", [1, 2])
    set_rates(host, leader=RATE)
    copier, member = Copier(host, 3), FollowerByHand(host, 2)
    member.ask(at(BATCHES))
    copier.go_on()
    assert 0 < copier.offset < BATCHES
    host.append(batch(), leader_epoch=0, acks=1)
    member.ask(at(BATCHES + 1))
    host.settle()
    host.core.tick(host.now_ms)
    reported = copier._follower.answer()
    assert reported is not None
    assert [(data.high_watermark, bytes(data.records)) for data in reported] == [(BATCHES + 1, b"")]


# --- the follower ----------------------------------------------------------------------------------------------------


class LeaderByHand:
    """It gives one batch for each fetch that asks for the partition."""

    def __init__(self, host: FollowingHost, high_watermark: int) -> None:
        self._host = host
        self._high_watermark = high_watermark
        self.byte_count = 0

    def go_on(self) -> None:
        for _ in count():
            self._host.settle()
            fetch = self._host.fetch
            if fetch is None:
                return
            given = [
                ReplicaData(position.slot, 0, 0, LEADER, self._high_watermark, 0, records=stored(position.fetch_offset))
                for position in fetch.positions
            ]
            self.byte_count += sum(len(data.records) for data in given)
            answer(self._host, fetch, *given)
            if not given:
                return


def throttled_follower(listed: str) -> FollowingHost:
    host = following_host()
    configs = {FOLLOWERS_LIST: listed}
    host.lead(topic(0, 1, leader=LEADER, replicas=REPLICAS, in_sync_replicas=[LEADER], configs=configs))
    return host


def test_a_follower_keeps_to_its_rate_while_it_is_behind() -> None:
    host = throttled_follower("*")
    size = len(stored(0))
    set_rates(host, follower=10 * size)
    leader = LeaderByHand(host, 10**6)
    pass_ticks(host, 5_000, leader.go_on)
    assert 45 * size <= leader.byte_count <= 60 * size
    host.lead(topic(0, 2, leader=LEADER, replicas=REPLICAS, in_sync_replicas=[LEADER], configs={}))
    before = leader.byte_count
    leader._high_watermark = partition_of(host).log.log_end_offset + 50
    for _ in range(60):
        fetch = fetch_of(host)
        if fetch.positions:
            offset = fetch.positions[0].fetch_offset
            answer(host, fetch, ReplicaData(1, 0, 0, LEADER, 10**6, 0, records=stored(offset)))
            leader.byte_count += size
    assert leader.byte_count - before >= 50 * size, "it is no longer listed"


def test_a_follower_at_the_watermark_is_not_held_back() -> None:
    host = throttled_follower(f"0:{NODE_ID}")
    set_rates(host, follower=1)
    for offset in range(20):
        fetch = fetch_of(host)
        assert [position.fetch_offset for position in fetch.positions] == [offset]
        answer(host, fetch, ReplicaData(1, 0, 0, LEADER, offset, 0, records=stored(offset)))
    host.settle()
    assert partition_of(host).log.log_end_offset == 20


# --- between log directories -----------------------------------------------------------------------------------------


def test_a_move_between_directories_keeps_to_its_rate() -> None:
    host = Host(directories=2)
    host.greet(EXCHANGE)
    host.lead(topic())
    for _ in range(12):
        host.append(batch(value_bytes=1_000_000))
    set_rates(host, log_dirs=1_000_000)
    assert host.core._moves.request((TOPIC, 0), "/data1") == ErrorCode.NONE
    copied: list[int] = []

    def look() -> None:
        host.settle()
        copy = host.core._moves.future_in(host.log_directories[1])
        copied.append(12 * 1_000_000 if copy is None else copy.byte_count)

    pass_ticks(host, 4_000, look)
    assert 3_000_000 <= copied[-1] <= 5_000_000
    pass_ticks(host, 8_000, look)
    assert (TOPIC, 0) in host.log_directories[1].logs
