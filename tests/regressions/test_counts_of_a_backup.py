"""What a backup or an inspection counts is held against what it has before anything is made of it.

Its author computes its checksum, too. A topic of 2³¹ partitions was planned partition by partition until the memory of
`barnabas restore` ended; so was one log directory whose name ends in 2147483647.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from barnabas.cluster.backup import (
    Backup,
    BackupEntry,
    BackupHeader,
    UnreadableBackup,
    decode_backup,
    encode_backup,
)
from barnabas.cluster.inspection import (
    KnownTopic,
    LogDirFound,
    NodeInspection,
    PartitionFound,
    Register,
    UnreadableInspection,
    decode_inspection,
    encode_inspection,
)
from barnabas.cluster.keys import (
    TOPIC_PARTITIONS_MAX,
    ClusterRecord,
    Keys,
    PartitionChunk,
    PartitionRecord,
    Record,
    TopicRecord,
    encode_record,
)
from barnabas.cluster.recovery.plan import Plan, plan_recovery
from barnabas.cluster.recovery.remembered import PARTITIONS_MAX, Remembered, remember
from barnabas_cli.local.layout import ClusterDirectory
from barnabas_cli.recovery.choices import Choices
from barnabas_cli.recovery.etcd_options import EtcdOptions
from barnabas_cli.recovery.etcd_state import StateError
from barnabas_cli.recovery.restoring import read_backup, recover

KEYS = Keys("/b/")
TOPIC_ID = bytes(range(16))
PARTITION = PartitionRecord(0, 5, 9, (0,), (0,))


def backup(topic: TopicRecord, chunks: int = 1) -> bytes:
    records: list[tuple[str, Record]] = [(KEYS.cluster, ClusterRecord("c"))]
    for chunk in range(chunks):
        records.append((KEYS.chunk(TOPIC_ID, chunk), PartitionChunk(TOPIC_ID, chunk, (PARTITION,))))
    records.append((KEYS.topic(topic.topic), topic))
    entries = tuple(BackupEntry(key.removeprefix(KEYS.prefix), encode_record(record)) for key, record in records)
    return encode_backup(Backup(BackupHeader("c", KEYS.prefix, 1, 1, "0.2.0", len(entries)), entries))


def topic(partitions: int = 1, replication_factor: int = 1) -> TopicRecord:
    return TopicRecord("orders", TOPIC_ID, partitions, replication_factor, {})


def node(log: PartitionFound, register: Register | None = None) -> NodeInspection:
    return NodeInspection("c", 0, [LogDirFound("/data", "x", True, [log], register=register)])


def plan_of(remembered: Remembered, *nodes: NodeInspection) -> Plan:
    return plan_recovery(KEYS, remembered, nodes, picked_topic_ids={}, wall_ms=1)


@pytest.mark.parametrize("partitions", [2**31 - 1, 2**62, TOPIC_PARTITIONS_MAX + 1, -1])
def test_a_topic_of_more_partitions_than_any_has_is_left_out_and_named(partitions: int) -> None:
    remembered = remember(decode_backup(backup(topic(partitions))), KEYS)
    assert remembered.topics == {}
    (problem,) = remembered.problems
    assert problem.startswith("topics/orders can't be read, and is left out: ")
    assert f"partitions is {partitions}" in problem


def test_a_topic_without_partitions_is_named_with_its_line() -> None:
    with pytest.raises(UnreadableBackup, match=r"^line 4: topic orders has 0 partitions"):
        remember(decode_backup(backup(topic(0))), KEYS)


@pytest.mark.parametrize("replicas", [2**31, 0, -1])
def test_so_is_one_of_more_replicas_than_kafka_can_say(replicas: int) -> None:
    with pytest.raises(UnreadableBackup, match=rf"^line 4: topic orders has {replicas} replicas"):
        remember(decode_backup(backup(topic(1, replicas))), KEYS)


def test_partitions_of_chunks_that_rotted_are_no_reason_to_refuse() -> None:
    content = decode_backup(backup(topic(900), chunks=2))
    rotten = tuple(replace(each, value=b"{") if each.key.endswith("/00001") else each for each in content.entries)
    assert remember(replace(content, entries=rotten), KEYS).topics["orders"].partitions == 900


def test_nor_are_those_of_a_chunk_that_etcd_lacked_as_well() -> None:
    """A controller goes on without it, and its logstores keep the replicas; the backup could not be restored."""
    remembered = remember(decode_backup(backup(topic(501))), KEYS)
    assert remembered.problems == [
        "line 4: topic orders has 501 partitions, and the file has at most 500 of it: "
        "the others are known by log directories alone"
    ]
    plan = plan_of(remembered, node(PartitionFound("orders", TOPIC_ID.hex(), 500, 0, 7, 0)))
    assert [each.partitions for each in plan.topics] == [501]
    assert plan.partitions["orders"][500].replicas == (0,)
    assert remembered.problems[0] in plan.notes


def test_the_partitions_of_all_sources_together_are_bounded_before_they_are_planned() -> None:
    log = PartitionFound("orders", TOPIC_ID.hex(), 2**31 - 1, 0, 1, 0)
    plan = plan_of(Remembered(), node(log))
    assert plan.writes == {}
    (conflict,) = plan.conflicts
    assert conflict.startswith(f"there would be {2**31} partitions, {2**31} of them orders's, and {PARTITIONS_MAX}")
    assert plan_of(Remembered(), node(replace(log, partition=TOPIC_PARTITIONS_MAX))).writes == {}
    assert plan_of(Remembered(), node(replace(log, partition=TOPIC_PARTITIONS_MAX - 1))).conflicts == []
    register = Register(1, 1, [KnownTopic("orders", TOPIC_ID.hex(), 2**31 - 1, {})])
    assert plan_of(Remembered(), node(replace(log, partition=0), register)).writes == {}


@pytest.mark.parametrize(
    "log",
    [
        PartitionFound("orders", "g" * 32, 0, 0, 1, 0),
        PartitionFound("orders", "ab", 0, 0, 1, 0),
        PartitionFound("../orders", TOPIC_ID.hex(), 0, 0, 1, 0),
        PartitionFound("orders", TOPIC_ID.hex(), -2, 0, 1, 0),
    ],
)
def test_an_inspection_of_what_no_disk_has_is_refused(log: PartitionFound) -> None:
    with pytest.raises(UnreadableInspection, match=r"^/data "):
        decode_inspection(encode_inspection(node(log)))


def test_an_inspection_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(UnreadableInspection):
        decode_inspection(b'{"version":1,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_half_a_surrogate_pair_in_the_first_line_is_refused() -> None:
    body = backup(topic()).rpartition(b'{"sha256"')[0].replace(b'{"format"', b'{"\\ud800":1,"format"', 1)
    content = body + b'{"sha256":"%s"}\n' % hashlib.sha256(body).hexdigest().encode()
    with pytest.raises(UnreadableBackup, match="its first line"):
        decode_backup(content)


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas_cli.recovery.restoring.FILE_BYTES_MAX", 1 << 16)
    with pytest.raises(StateError, match="/dev/zero has more than 65536 bytes"):
        read_backup(Path("/dev/zero"), EtcdOptions((), KEYS.prefix))


def test_nothing_in_a_backup_steers_the_terminal(tmp_path: Path) -> None:
    """Names and values are printed: ESC ] could set the title, or more, of the operator's terminal."""
    configs = {"retention.ms": "\x1b]0;owned\x07\x9b2J\n1"}
    record = replace(topic(), configs=configs)
    content = decode_backup(backup(record))
    entries = (*content.entries, BackupEntry("\x1b[2Jkey", b"{}"))
    path = tmp_path / "backup"
    header = replace(content.header, keys=len(entries))
    path.write_bytes(encode_backup(Backup(header, entries)))
    etcd = EtcdOptions(("127.0.0.1:1",), KEYS.prefix)

    @click.command()
    def command() -> None:
        choices = Choices((), frozenset([0]), {}, accepts_losses=True, replace=False)
        recover(ClusterDirectory(tmp_path), etcd, choices, read_backup(path, etcd), dry_run=True)

    result = CliRunner().invoke(command, catch_exceptions=False)
    assert "owned" in result.output
    assert "key is left out" in result.output
    assert not [each for each in result.output if not each.isprintable() and each != "\n"]


def _mutants(content: bytes, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    words = [b"-1", b"1e400", b"NaN", b"null", b"[]", b"{}", b'"\\ud800"', b"9" * 30, b"9" * 5000, b'"\x00"', b"true"]
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(changed))
            changed[at : at + rng.randrange(4)] = rng.choice(words) if rng.random() < 0.5 else rng.randbytes(2)
        yield bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_a_value_that_was_changed_anywhere_never_ends_in_a_traceback(seed: int) -> None:
    whole = decode_backup(backup(topic()))
    for number, entry in enumerate(whole.entries):
        for changed in _mutants(entry.value, seed):
            entries = list(whole.entries)
            entries[number] = replace(entry, value=changed)
            try:
                remembered = remember(replace(whole, entries=tuple(entries)), KEYS)
            except UnreadableBackup:
                continue
            plan_of(remembered, node(PartitionFound("orders", TOPIC_ID.hex(), 0, 0, 1, 0)))


@pytest.mark.parametrize("seed", range(4))
def test_an_inspection_that_was_changed_anywhere_never_ends_in_a_traceback(seed: int) -> None:
    register = Register(1, 1, [KnownTopic("orders", TOPIC_ID.hex(), 1, {"retention.ms": "1"})], {0: {"a": "b"}}, [0])
    for changed in _mutants(
        encode_inspection(node(PartitionFound("orders", TOPIC_ID.hex(), 0, 0, 1, 0), register)), seed
    ):
        try:
            inspection = decode_inspection(changed)
        except UnreadableInspection:
            continue
        plan_of(remember(decode_backup(backup(topic())), KEYS), inspection)
