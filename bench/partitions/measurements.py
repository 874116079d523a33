"""What is measured on one side: idle, empty and with all partitions; their creation; first writes; single changes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from barnabas.client.kafka_connection import KafkaConnection
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from bench.accounting import cpu_seconds, memory_bytes
from bench.failover.leaders import Leaders
from bench.failover.load import Writers, create_topics
from bench.loads import create_topic, delete_topic
from bench.sides import Side

REPLICATION_FACTOR = 3
SETTLE_SECONDS = 10.0
"""After the last thing that was done: checkpoints, flushes and what a virtual machine compiles."""
_SECONDS_MAX = 600.0
_ANSWER_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.01
_ELECT_LEADERS_VERSION = 1
_REASSIGNMENTS_VERSION = 0
_METADATA_VERSION = 9
_PREFERRED = 0

Say = Callable[[str], None]


@dataclass(slots=True)
class Change:
    """One kind of change, several times."""

    seconds: list[float] = field(default_factory=list)
    """From the request until clients see what has changed."""
    cpu_seconds: list[float] = field(default_factory=list)
    """Of all processes of the side, without what it uses when idle."""


@dataclass(slots=True)
class Measured:
    side: str
    partitions: int
    idle_empty_percent: list[float] = field(default_factory=list)
    """CPU of all processes in percent of one core, by window; so are all of `percent`."""
    created_seconds: float = 0.0
    """Topic after topic, until CreateTopics was answered for the last and every replica was in sync."""
    created_cpu_seconds: float = 0.0
    first_writes_seconds: float = 0.0
    """Until each partition had acknowledged its first record, of a producer that knew none of them."""
    first_writes_median_seconds: float = 0.0
    first_writes_cpu_seconds: float = 0.0
    idle_percent: list[float] = field(default_factory=list)
    """With all partitions, after their first writes."""
    topic_created: Change = field(default_factory=Change)
    leader_moved: Change = field(default_factory=Change)
    memory_bytes: int = 0


def measure(
    side: Side, topics: int, partitions_each: int, windows: int, window_seconds: float, changes: int, say: Say
) -> Measured:
    """All parts on a side that runs and has no topics yet."""
    measured = Measured(side.name, topics * partitions_each)
    time.sleep(SETTLE_SECONDS)
    measured.idle_empty_percent = idle_percent(side, windows, window_seconds)
    say(f"idle, empty: {statistics.median(measured.idle_empty_percent):.1f} % of a core")
    names = [f"many-{number:02d}" for number in range(topics)]
    cpu, began = cpu_seconds(side.sessions), time.monotonic()
    for name in names:
        create_topics(side.bootstrap, [name], partitions_each, REPLICATION_FACTOR)
    Leaders(side.bootstrap, names, partitions_each).wait_until_whole()
    measured.created_seconds = time.monotonic() - began
    measured.created_cpu_seconds = cpu_seconds(side.sessions) - cpu
    say(f"{measured.partitions:,} partitions created in {measured.created_seconds:.1f} s")
    time.sleep(SETTLE_SECONDS)
    first_writes(side, [(name, number) for name in names for number in range(partitions_each)], measured)
    say(f"first writes: the last after {measured.first_writes_seconds:.1f} s")
    time.sleep(SETTLE_SECONDS)
    measured.idle_percent = idle_percent(side, windows, window_seconds)
    say(f"idle, {measured.partitions:,} partitions: {statistics.median(measured.idle_percent):.1f} % of a core")
    idle_share = statistics.median(measured.idle_percent) / 100
    for number in range(changes):
        topic = f"single-{number}"
        _change(side, measured.topic_created, idle_share, partial(_create_topic, side, topic))
        delete_topic(side.bootstrap, topic)
    for number in range(changes):
        _change(side, measured.leader_moved, idle_share, partial(_move_leader, side, names[0], number))
    measured.memory_bytes = memory_bytes(side.sessions)
    for what, change in (("topic created", measured.topic_created), ("leader moved", measured.leader_moved)):
        seconds, cpu = statistics.median(change.seconds), statistics.median(change.cpu_seconds)
        say(f"{what}: {seconds * 1e3:,.0f} ms, {cpu * 1e3:,.0f} ms of CPU")
    return measured


def idle_percent(side: Side, windows: int, seconds: float) -> list[float]:
    percents = []
    for _ in range(windows):
        cpu, began = cpu_seconds(side.sessions), time.monotonic()
        time.sleep(seconds)
        percents.append((cpu_seconds(side.sessions) - cpu) / (time.monotonic() - began) * 100)
    return percents


def first_writes(side: Side, partitions: list[tuple[str, int]], measured: Measured) -> None:
    cpu, began = cpu_seconds(side.sessions), time.monotonic()
    with Writers(side.bootstrap, partitions, pause_seconds=_SECONDS_MAX) as writers:
        writers.wait_for_all(began, _SECONDS_MAX)
    seconds = [(writers.resumed(each, began) or 0.0) - began for each in partitions]
    measured.first_writes_seconds = max(seconds)
    measured.first_writes_median_seconds = statistics.median(seconds)
    measured.first_writes_cpu_seconds = cpu_seconds(side.sessions) - cpu


# --- single changes ---------------------------------------------------------------------------------------------------


def _change(side: Side, change: Change, idle_share: float, carry_out: Callable[[], None]) -> None:
    cpu, began = cpu_seconds(side.sessions), time.monotonic()
    carry_out()
    change.seconds.append(time.monotonic() - began)
    time.sleep(1.0)
    whole = time.monotonic() - began
    change.cpu_seconds.append(max(0.0, cpu_seconds(side.sessions) - cpu - idle_share * whole))


def _create_topic(side: Side, topic: str) -> None:
    create_topic(side.bootstrap, topic, REPLICATION_FACTOR, 1)
    _wait_for(side, topic, 0, lambda leader_id, replicas: leader_id >= 0)


def _move_leader(side: Side, topic: str, partition: int) -> None:
    """Give one partition another preferred leader, and elect it."""
    host, _, port = side.bootstrap.rpartition(":")
    replicas: list[int] = []

    def note(leader_id: int, found: list[int]) -> bool:
        replicas[:] = found
        return True

    _wait_for(side, topic, partition, note)
    with KafkaConnection(host, int(port), _ANSWER_SECONDS_MAX) as connection:
        order = [*replicas[1:], replicas[0]]
        reassign = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[ReassignableTopic(topic, [ReassignablePartition(partition, order)])]
        )
        answer = connection.ask(reassign, _REASSIGNMENTS_VERSION, AlterPartitionReassignmentsResponse)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE, answer
        elect = ElectLeadersRequest(_PREFERRED, [TopicPartitions(topic, [partition])], 30_000)
        elected = connection.ask(elect, _ELECT_LEADERS_VERSION, ElectLeadersResponse)
        assert elected.error_code == ErrorCode.NONE, elected
    _wait_for(side, topic, partition, lambda leader_id, found: leader_id == order[0])


def _wait_for(side: Side, topic: str, partition: int, is_so: Callable[[int, list[int]], bool]) -> None:
    """Ask for the metadata of the topic until its leader and replicas are so."""
    host, _, port = side.bootstrap.rpartition(":")
    deadline = time.monotonic() + _ANSWER_SECONDS_MAX
    with KafkaConnection(host, int(port), _ANSWER_SECONDS_MAX) as connection:
        while True:
            request = MetadataRequest([MetadataRequestTopic(name=topic)])
            response = connection.ask(request, _METADATA_VERSION, MetadataResponse)
            found = [each for each in response.topics[0].partitions if each.partition_index == partition]
            if found and is_so(found[0].leader_id, list(found[0].replica_nodes)):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}-{partition}: {response.topics[0]}")
            time.sleep(_POLL_SECONDS)
