"""What a logstore reports of its own health: each kind of condition is brought about, and goes away."""

from __future__ import annotations

from barnabas.cluster.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.cluster.messages import LeaderAndIsr, UpdateMetadata
from barnabas.metrics.conditions import NAMED_MAX, NOTICES, ConditionKind
from barnabas.metrics.recent_exceptions import RECENT_MS
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas_logstore.core.observability.health import (
    COMPACTION_MS_MAX,
    LOAD_MS_MAX,
    MARKERS_MS_MAX,
    PARTITIONS_PER_STEP,
    PASS_MS,
)
from barnabas_logstore.core.replica.containment import APPEND_TO_LOG
from barnabas_logstore.core.replica.containment import READ as READ_PLACE
from barnabas_logstore.core.storage.compaction.orders import PassEnded
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from tests.sim.disk_model import Fault
from tests.unit.logstore.compaction.test_cleaning import COMPACTED, CleaningHost, let_cleaner_die
from tests.unit.logstore.service.group_host import OFFSETS_TOPIC, GroupHost, commit_request, offsets_topic
from tests.unit.logstore.service.support import (
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    EXCHANGE,
    READ,
    TOPIC,
    WALL_MS,
    WATCH,
    Host,
    topic,
)
from tests.unit.logstore.storage.test_transactions import end, write

STATE_TOPIC_ID = b"transactionstate"
LATE_MS = 900_000 + 300_000
"""`transaction.max.timeout.ms`, and five minutes."""


def found(host: Host, *, wall_ms: int = WALL_MS, steps: int = 2) -> list[tuple[str, str]]:
    """The kinds and texts after a pass that begins now."""
    health = host.core.measures.health
    host.now_ms += PASS_MS
    for _ in range(steps):
        health.step(host.now_ms, wall_ms)
    return [(each.kind.value, each.text) for each in health.conditions()]


def kinds(host: Host, *, wall_ms: int = WALL_MS) -> list[str]:
    return [kind for kind, _ in found(host, wall_ms=wall_ms)]


def leading(**configs: str) -> Host:
    host = Host()
    host.greet(EXCHANGE, READ, WATCH)
    host.lead(topic(configs=configs))
    return host


def compacting() -> CleaningHost:
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED))
    return host


def test_a_logstore_without_trouble_reports_nothing() -> None:
    assert found(leading()) == []
    assert found(compacting()) == []


def test_partitions_of_a_failed_directory() -> None:
    host = leading()
    host.disk.faults.append(Fault("write_at", f"{TOPIC}-0/"))
    host.append()
    ((kind, text),) = found(host)
    assert kind == "offline-partition"
    assert text.startswith(f"{TOPIC}-0 is offline here")


def test_many_of_one_kind_are_counted() -> None:
    host = leading()
    host.lead(topic(partitions=30, partition_epoch=1))
    host.disk.faults.append(Fault("write_at", f"{TOPIC}-0/"))
    host.append()
    texts = [text for _, text in found(host)]
    assert len(texts) == NAMED_MAX + 1
    assert texts[-1] == "and 20 more of offline-partition"


def test_a_pass_takes_as_many_steps_as_there_are_partitions_to_look_at() -> None:
    host = leading()
    host.lead(topic(partitions=2 * PARTITIONS_PER_STEP, partition_epoch=1))
    host.disk.faults.append(Fault("write_at", f"{TOPIC}-0/"))
    host.append()
    assert found(host, steps=1) == []
    assert found(host, steps=1) != []


def test_exceptions_that_were_contained_are_a_notice_for_an_hour() -> None:
    host = leading()
    contained = host.core._replicas.contained
    contained.contain(READ_PLACE, ValueError("planted"), {})
    (partition,) = host.core.partitions
    contained.log_in_doubt(APPEND_TO_LOG, ValueError("planted"), partition.log)
    host.settle()
    offline, exceptions = found(host)
    assert offline == (
        "offline-partition",
        f"{TOPIC}-0 is offline here after an internal error: ValueError: planted; the logstore's log has the "
        "traceback, and its restart brings the replica back",
    )
    assert exceptions == (
        "contained-exception",
        "2 unexpected exceptions were contained in the last hour, at logstore.append_to_log (1), logstore.read (1): "
        "its log has the tracebacks",
    )
    assert ConditionKind("contained-exception") in NOTICES
    host.now_ms += RECENT_MS
    assert kinds(host) == ["offline-partition"]


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_last_stable_offset_that_stands_still() -> None:
    host = leading()
    (partition,) = host.core.partitions
    write(partition.log, 0)
    assert kinds(host) == []
    host.now_ms += LATE_MS - PASS_MS
    assert kinds(host) == []
    ((kind, text),) = found(host)
    assert kind == "hanging-transaction"
    assert f"`barnabas transactions abort {TOPIC} 0 0` ends it" in text
    end(partition.log, commit=False)
    write(partition.log, 1)
    assert kinds(host) == [], "it has moved on"


def test_a_transaction_of_old_records_does_not_hang() -> None:
    host = leading()
    (partition,) = host.core.partitions
    write(partition.log, 0)
    assert kinds(host, wall_ms=WALL_MS + 10 * LATE_MS) == []


def coordinating() -> GroupHost:
    """A coordinator of transactions, of which one has a partition that has no leader."""
    host = GroupHost()
    state = topic(name=TRANSACTION_STATE_TOPIC, topic_id=STATE_TOPIC_ID)
    host.lead(state)
    host.control(UpdateMetadata(50, True, CLUSTER_ID, CONTROLLER_EPOCH, [], [], [state, topic(leader=-1)]))
    host.core.transactions.on_producer_ids(1000, 1000)
    host.settle()
    return host


def end_one(host: GroupHost) -> None:
    producer = host.ask(InitProducerIdRequest("tx", 60_000), 4)
    begun = AddPartitionsToTxnRequest([], "tx", producer.producer_id, producer.producer_epoch)
    begun.v3_and_below_topics = [AddPartitionsToTxnTopic(TOPIC, [0])]
    assert host.ask(begun, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    ended = EndTxnRequest("tx", producer.producer_id, producer.producer_epoch, committed=True)
    assert host.ask(ended, 4).error_code == 0


def test_markers_that_are_not_delivered() -> None:
    host = coordinating()
    end_one(host)
    assert kinds(host, wall_ms=WALL_MS + MARKERS_MS_MAX) == []
    ((kind, text),) = found(host, wall_ms=WALL_MS + MARKERS_MS_MAX + 1)
    assert kind == "marker-undelivered"
    assert "a transaction of tx is decided" in text
    assert text.endswith(f": {TOPIC}-0")


# --- coordinators ----------------------------------------------------------------------------------------------------


def until_reads_are_held(host: GroupHost) -> None:
    """Carry out all effects but the reads, which a disk does not answer."""
    while not any(isinstance(effect, ReadBatchesEffect) for effect in host.held):
        host.turn()
        for effect in [each for each in host.held if not isinstance(each, ReadBatchesEffect)]:
            host.held.remove(effect)
            host.run_effect(effect)


def test_a_coordinator_that_does_not_load() -> None:
    before = GroupHost()
    before.lead(offsets_topic())
    before.ask(commit_request(1))
    host = GroupHost(before.disk)
    host.holds_effects = True
    host.core.on_control(7, host.command(LeaderAndIsr(False, [offsets_topic(1)])))
    until_reads_are_held(host)
    assert kinds(host) == []
    host.now_ms += LOAD_MS_MAX
    assert found(host) == [
        (
            "coordinator-not-loaded",
            f"{OFFSETS_TOPIC}-0 is still being loaded after a minute: what it coordinates is not served",
        )
    ]
    host.holds_effects = False
    host.run_effects()
    host.settle()
    assert kinds(host) == []


def test_a_coordinator_whose_log_is_damaged() -> None:
    before = GroupHost()
    before.lead(offsets_topic())
    for number in range(20):
        before.ask(commit_request(number))
    host = GroupHost(before.disk)
    path = f"/data0/{OFFSETS_TOPIC}-0/{0:020d}.log"
    host.disk.write_at(host.disk.open(path), 8, [b"\x00\x00\x00\x01"])
    host.core.on_control(7, host.command(LeaderAndIsr(False, [offsets_topic(1)])))
    host.settle()
    assert found(host) == [
        ("coordinator-not-loaded", f"{OFFSETS_TOPIC}-0 can't be read: what it coordinates is not served")
    ]


# --- compaction ------------------------------------------------------------------------------------------------------


def test_a_cleaner_that_dies_until_it_cleans_again() -> None:
    host = compacting()
    host.fill("a", "b", "a", "b", "a")
    let_cleaner_die(host)
    assert found(host) == [
        ("cleaner-fails", "the cleaner's process has died once since a log was last compacted"),
    ]
    host.clean()
    assert kinds(host) == []


def test_a_partition_that_is_not_compacted() -> None:
    host = compacting()
    host.fill("a", "b", "a", "b", "a")
    host.disk.write_at(host.disk.open(f"{host.directory}/{0:020d}.log"), 100, (b"\0",))
    host.clean()
    reason = "the batch at offset 0: its CRC is wrong; not tried again until the next start"
    assert found(host) == [("uncleanable-partition", f"{TOPIC}-0 is not compacted: {reason}")]


def test_a_log_that_grows_though_it_is_compacted() -> None:
    host = compacting()
    host.fill("a", "b", "a", "b", "a")
    host.tick()
    order = host.take_order()
    assert order.directory == host.directory
    assert kinds(host) == []
    host.now_ms += COMPACTION_MS_MAX
    assert found(host) == [
        ("compaction-behind", f"{TOPIC}-0 grows: it is due for compaction for half an hour or more"),
    ]
    host.until(PassEnded)
    host.settle()
    assert kinds(host) == []


def test_each_kind_is_brought_about_here_or_by_a_process() -> None:
    """A kind that is added needs a test."""
    assert {each.value for each in ConditionKind} == {
        "offline-partition",
        "hanging-transaction",
        "marker-undelivered",
        "coordinator-not-loaded",
        "cleaner-fails",
        "uncleanable-partition",
        "compaction-behind",
        "contained-exception",
        "process-restarted",
    }
