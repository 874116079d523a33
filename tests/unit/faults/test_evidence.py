"""What is kept of a run that failed says whose doing a record is that is there twice."""

from __future__ import annotations

from pathlib import Path

from barnabas.wire.record_batch import Record, build_batch
from tests.faults.checker import Kind, Verdict
from tests.faults.evidence import keep
from tests.faults.rolling_groups import TOPIC, written_twice


def batch(base_offset: int, count: int, producer_epoch: int, base_sequence: int) -> bytes:
    return build_batch(
        [Record(None, b"v", 0)] * count,
        base_offset=base_offset,
        partition_leader_epoch=7,
        producer_id=1000,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def log_directory(directory: Path) -> Path:
    """A log whose record at 1039 came again at 1044, under the producer's next epoch; its end is not written yet."""
    partition = directory / "logstore-0-a" / f"{TOPIC}-3"
    partition.mkdir(parents=True)
    batches = batch(1039, 1, 0, 500) + batch(1040, 4, 0, 900) + batch(1044, 5, 1, 0)
    (partition / "00000000000000001039.log").write_bytes(batches + bytes(4096))
    return partition.parent


def test_a_record_that_is_there_twice_is_reported_with_the_producers_epochs(tmp_path: Path) -> None:
    verdict = Verdict()
    verdict.add(Kind.DUPLICATED, "partition 3: 'rolling-groups|idempotent-1/1|7788' is at offsets 1039 and 1044")
    first, second = written_twice(verdict, [log_directory(tmp_path)])
    assert first == f"logstore-0-a/{TOPIC}-3 offsets 1039-1039 leader epoch 7 producer 1000 epoch 0 sequences 500-500"
    assert second == f"logstore-0-a/{TOPIC}-3 offsets 1044-1048 leader epoch 7 producer 1000 epoch 1 sequences 0-4"


def test_logs_and_all_batches_are_kept(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "logstore-0.log").write_text("serving\n")
    kept = tmp_path / "kept"
    kept.mkdir()
    keep(tmp_path / "logs", [log_directory(tmp_path)], kept)
    assert (kept / "logs" / "logstore-0.log").read_text() == "serving\n"
    assert [line.split()[2] for line in (kept / "batches.txt").read_text().splitlines()] == [
        "1039-1039",
        "1040-1043",
        "1044-1048",
    ]
