"""Leader changes and deletions pass by a full data channel; what waits for the old leader is answered at once.

Every produce here waits up to ten minutes, so whatever is answered within a test was not answered by its timeout. The
leases and the ISR are as patient: a replica that stands still (SIGSTOP) stays a member of the ISR, and keeps the high
watermark where it was.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import Record, build_batch
from barnabas_cli.local.layout import HOST
from barnabas_cli.local.processes import signal_process, signal_session
from tests.integration.load_process import LoadProcess
from tests.integration.pipelined_connection import PRODUCE_VERSION, PipelinedConnection, produce_error, produce_request
from tests.integration.raw_admin import Admin
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.deep]

LEADER, SUCCESSOR, THIRD = 0, 1, 2
PATIENCE_MS = 600_000
SECONDS_MAX = 60.0
PARKED = 50
QUEUED_MAX_REQUESTS = 500
"""Kafka's default, and ours."""
ACKS_ALL, ACKS_LEADER = -1, 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    patient = {"BARNABAS_LEASE_TTL_MS": "300000", "BARNABAS_REPLICA_LAG_TIME_MAX_MS": "300000"}
    with pytest.MonkeyPatch.context() as environment:
        for key, value in patient.items():
            environment.setenv(key, value)
        with RunningCluster(tmp_path_factory.mktemp("cluster"), 3) as running:
            yield running


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    """Every connection of a test is closed behind it."""
    yield
    while Producing.opened:
        Producing.opened.pop().close()


@pytest.fixture(scope="module")
def admin(cluster: RunningCluster) -> Iterator[Admin]:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Admin(host, int(port)) as asking:
        yield asking


class Producing:
    """Produces one after the other on one connection, without waiting for their answers."""

    opened: ClassVar[list[PipelinedConnection]] = []

    def __init__(self, cluster: RunningCluster, topic: str, acks: int) -> None:
        host, _, port = cluster.bootstrap.rpartition(":")
        self.connection = PipelinedConnection(host, int(port))
        self.opened.append(self.connection)
        self._topic, self._acks = topic, acks
        self.errors: list[int] = []
        """Of the answers so far."""

    def send(self, count: int, value: bytes = b"parked") -> None:
        batch = build_batch([Record(None, value, 1_700_000_000_000)])
        for _ in range(count):
            self.connection.send(produce_request(self._topic, 0, batch, self._acks, PATIENCE_MS), PRODUCE_VERSION)

    def take(self, seconds: float) -> None:
        """What has been answered, and send what did not go before; waits at most so long for either."""
        with selectors.DefaultSelector() as selector:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.connection.wants_to_send else 0)
            selector.register(self.connection, wanted)
            if selector.select(seconds):
                self.connection.flush()
                self.errors += [produce_error(response) for response in self.connection.receive()]

    def take_all(self) -> list[int]:
        """The errors of all that was sent, once everything is answered."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.connection.unanswered:
            assert time.monotonic() < deadline, "a produce is not answered"
            self.take(0.05)
        return self.errors


class Flood:
    """Appends that fill the leader's request channel, and more that wait for credit; one record of 1 KB each."""

    def __init__(self, cluster: RunningCluster, admin: Admin, topic: str) -> None:
        topic_id = admin.create(topic, {0: [LEADER]})
        address = f"{HOST}:{cluster.local.layout.logstore_data_port(LEADER)}"
        self._load = LoadProcess(address, topic_id, 1, 0, 1000)

    def __enter__(self) -> Flood:
        self._load.offer(2 * QUEUED_MAX_REQUESTS)
        until(lambda: self._load.standing().answered > 4 * QUEUED_MAX_REQUESTS, "the flood does not flow")
        return self

    def __exit__(self, *_: object) -> None:
        self._load.stop()

    def check_full(self) -> None:
        """There is no credit left, and what had some was taken."""
        standing = self._load.standing()
        assert standing.without_credit > 0
        assert standing.refused == 0


def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


@contextmanager
def paused(cluster: RunningCluster, *nodes: int, whole: bool = True) -> Iterator[None]:
    """SIGSTOP; the whole pod, or its data process alone, whose control listener goes on taking commands."""
    send = signal_session if whole else signal_process
    services = [cluster.local.service(f"logstore-{node}") for node in nodes]
    identities = [identity for each in services if (identity := cluster.local.identity(each)) is not None]
    assert len(identities) == len(nodes)
    for identity in identities:
        send(identity, signal.SIGSTOP)
    try:
        yield
    finally:
        for identity in identities:
            send(identity, signal.SIGCONT)


def parked_at_leader(cluster: RunningCluster, topic: str) -> Producing:
    """Produces with acks=all that the leader has written, and that can't be committed."""
    parked = Producing(cluster, topic, ACKS_ALL)
    parked.send(PARKED)
    until(lambda: log_of(cluster, LEADER, topic).count(b"parked") == PARKED, "the leader has not written it all")
    parked.take(0.2)
    assert parked.errors == [], "it waits for a replica that stands still"
    return parked


def log_of(cluster: RunningCluster, node: int, topic: str) -> bytes:
    directory = cluster.directory.logstore_path(node) / f"{topic}-0"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def replica_streams_closed(cluster: RunningCluster) -> int:
    """So many of its followers' streams the leader has ended since its start."""
    return cluster.directory.log_path(f"logstore-{LEADER}").read_text().count("method=Replicate")


def has_log(cluster: RunningCluster, node: int, topic: str) -> bool:
    return (cluster.directory.logstore_path(node) / f"{topic}-0").exists()


def test_a_leader_change_passes_by_a_full_data_channel(cluster: RunningCluster, admin: Admin) -> None:
    admin.create("moved", {0: [LEADER, SUCCESSOR, THIRD]})
    with paused(cluster, THIRD), Flood(cluster, admin, "flood-1") as flood:
        parked = parked_at_leader(cluster, "moved")
        flood.check_full()

        assert admin.reassign("moved", {0: [SUCCESSOR, LEADER, THIRD]}) == {0: ErrorCode.NONE}
        assert admin.elect_preferred("moved", [0]) == {0: ErrorCode.NONE}

        assert admin.leaders("moved")[0] == (SUCCESSOR, 1)
        parked.take(0.2)
        assert parked.errors == [], "the next leader holds them, and waits for the same replica"
        flood.check_full()
    assert parked.take_all() == [ErrorCode.NONE] * PARKED
    last = Producing(cluster, "moved", ACKS_ALL)
    last.send(1, b"last")
    assert last.take_all() == [ErrorCode.NONE]


def test_a_deletion_passes_by_a_full_data_channel(cluster: RunningCluster, admin: Admin) -> None:
    admin.create("deleted", {0: [LEADER, SUCCESSOR, THIRD]})
    with paused(cluster, THIRD), Flood(cluster, admin, "flood-2") as flood:
        parked = parked_at_leader(cluster, "deleted")
        flood.check_full()

        assert admin.delete("deleted") == ErrorCode.NONE

        assert set(parked.take_all()) <= {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert ErrorCode.NONE not in parked.errors
        until(lambda: not has_log(cluster, LEADER, "deleted"), "the leader keeps its replica")
        until(lambda: not has_log(cluster, SUCCESSOR, "deleted"), "the follower keeps its replica")
        flood.check_full()
        # The name is free at once, whatever a replica that stands still keeps of the old topic.
        admin.create("deleted", {0: [LEADER, THIRD]})
        again = Producing(cluster, "deleted", ACKS_LEADER)
        again.send(1)
        assert again.take_all() == [ErrorCode.NONE]
    end_of_old = Producing(cluster, "deleted", ACKS_ALL)
    end_of_old.send(1)
    assert end_of_old.take_all() == [ErrorCode.NONE], (
        "the replica that stood still has the new topic in place of the old"
    )
    until(lambda: log_of(cluster, THIRD, "deleted") == log_of(cluster, LEADER, "deleted") != b"", "the logs differ")


def test_an_old_leader_truncates_what_was_not_committed(cluster: RunningCluster, admin: Admin) -> None:
    admin.create("truncated", {0: [LEADER, SUCCESSOR, THIRD]})
    committed = Producing(cluster, "truncated", ACKS_ALL)
    committed.send(3, b"committed")
    assert committed.take_all() == [ErrorCode.NONE] * 3
    before = log_of(cluster, LEADER, "truncated")
    closed = replica_streams_closed(cluster)
    with ExitStack() as leader_stands_still:
        with paused(cluster, SUCCESSOR, THIRD):
            # Not before their streams are over: what lies in their sockets they would read when they go on.
            until(lambda: replica_streams_closed(cluster) >= closed + 2, "the leader keeps streams to who stands still")
            parked = parked_at_leader(cluster, "truncated")
            leader_stands_still.enter_context(paused(cluster, LEADER, whole=False))
        assert admin.reassign("truncated", {0: [SUCCESSOR, LEADER, THIRD]}) == {0: ErrorCode.NONE}
        assert admin.elect_preferred("truncated", [0]) == {0: ErrorCode.NONE}
        # The old leader can't say so itself: its epoch has ended for those that wait, and the new one takes records.
        assert parked.take_all() == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * PARKED
        late = Producing(cluster, "truncated", ACKS_LEADER)
        late.send(2, b"of the new epoch")
        assert late.take_all() == [ErrorCode.NONE] * 2
        assert log_of(cluster, LEADER, "truncated").count(b"parked") == PARKED
    after = Producing(cluster, "truncated", ACKS_ALL)
    after.send(1, b"everywhere")
    assert after.take_all() == [ErrorCode.NONE]
    logs = [log_of(cluster, node, "truncated") for node in (LEADER, SUCCESSOR, THIRD)]
    assert logs[0] == logs[1] == logs[2]
    assert logs[0].startswith(before)
    assert b"parked" not in logs[0]


@pytest.mark.parametrize("whole", [True, False], ids=["pod", "data process"])
def test_a_deletion_does_not_wait_for_a_replica_that_stands_still(
    cluster: RunningCluster, admin: Admin, whole: bool
) -> None:
    topic = f"stands-still-{whole}"
    admin.create(topic, {0: [LEADER, SUCCESSOR, THIRD]})
    with paused(cluster, LEADER, whole=whole):
        assert admin.delete(topic) == ErrorCode.NONE
        until(lambda: not has_log(cluster, SUCCESSOR, topic), "a follower keeps its replica")
        assert has_log(cluster, LEADER, topic)
    until(lambda: not has_log(cluster, LEADER, topic), "the deletion was forgotten")


def test_a_deletion_does_not_wait_for_a_replica_that_is_down(cluster: RunningCluster, admin: Admin) -> None:
    admin.create("down", {0: [THIRD, SUCCESSOR, LEADER]})
    with paused(cluster, SUCCESSOR):
        parked = Producing(cluster, "down", ACKS_ALL)
        parked.send(PARKED)
        until(lambda: log_of(cluster, THIRD, "down").count(b"parked") == PARKED, "the leader has not written it all")
        cluster.kill(f"logstore-{THIRD}")
        assert admin.delete("down") == ErrorCode.NONE
        assert ErrorCode.NONE not in parked.take_all()
        until(lambda: not has_log(cluster, LEADER, "down"), "a follower keeps its replica")
    cluster.up()
    until(lambda: not has_log(cluster, THIRD, "down"), "the deletion was forgotten")
    until(lambda: not has_log(cluster, SUCCESSOR, "down"), "the deletion was forgotten")
