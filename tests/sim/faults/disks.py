"""What goes wrong with the disks of logstores.

Some of it costs a disk what it had not flushed. One replica of a set at a time may be lossy in this way, until it has
everything again: then nothing committed may be lost, and a loss is a bug. Only where every topic has
`flush.messages=1`, so that nothing that was acknowledged was not flushed, any number of them may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from barnabas.ports.disk import DiskErrorKind
from barnabas.wire.primitives import MalformedFrame
from barnabas.wire.record_batch import HEADER_BYTES, iterate_headers, parse_header
from barnabas_logstore.core.storage.checkpoints import CLEAN_SHUTDOWN_MARKER
from tests.sim.disk_model import DiskModel
from tests.sim.disk_model import Fault as DiskFault
from tests.sim.faults.kinds import Fault
from tests.sim.nodes.logstore import DIRECTORY, LogstoreNode
from tests.sim.scheduler import MS, SECOND

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.faults.swarm import Faults

RESTART_US_MAX = 4 * SECOND
# Bytes of a batch's header.
UNPROTECTED = (*range(8), *range(12, 16))
# Names of files that a log can do without, though it may cost a scan.
EXPENDABLE = ("-checkpoint", ".index", ".timeindex", ".snapshot")


def lossy_crash_allowed(cluster: Cluster, node: LogstoreNode) -> bool:
    """Whether nothing committed may be lost when this disk loses what it has not flushed."""
    if all(topic.configs.get("flush.messages") == "1" for topic in cluster.shape.topics.values()):
        return True
    for promise in cluster.promises.all:
        others = [replica for node_id, replica in promise.replicas.items() if node_id != node.node_id]
        if node.node_id in promise.replicas and any(each.is_lossy or each.is_unknown for each in others):
            return False
    return True


def _victim(faults: Faults, *, is_lossy: bool) -> LogstoreNode | None:
    cluster = faults.cluster
    living = [each for each in cluster.logstores if each.alive and each.core is not None]
    return faults.one_of([each for each in living if not is_lossy or lossy_crash_allowed(cluster, each)])


# --- power -----------------------------------------------------------------------------------------------------------


def power_cut(faults: Faults) -> None:
    node = _victim(faults, is_lossy=True)
    if node is not None:
        faults.cluster.lose_power(node)
        faults.hit(Fault.POWER_CUT)
        faults.restart_later(node, RESTART_US_MAX)


def torn_write(faults: Faults) -> None:
    """Within some change of the disk that comes soon."""
    node = _victim(faults, is_lossy=True)
    if node is None:
        return

    def crash() -> None:
        if lossy_crash_allowed(faults.cluster, node):
            faults.cluster.lose_power(node)
            faults.hit(Fault.TORN_WRITE)
        else:
            node.kill()  # Another one has become lossy meanwhile.
        faults.restart_later(node, RESTART_US_MAX)

    node.interrupt_after(faults.random.randrange(60), crash)


# --- errors ----------------------------------------------------------------------------------------------------------


def _fail(faults: Faults, node: LogstoreNode, error: DiskFault) -> None:
    """One operation, soon."""
    node.disk.faults.append(error)
    faults.later(5 * SECOND, f"the disk of {node.name} works again", lambda: _works_again(node, error))


def _works_again(node: LogstoreNode, error: DiskFault) -> None:
    node.disk.faults = [each for each in node.disk.faults if each is not error]


def read_error(faults: Faults) -> None:
    node = _victim(faults, is_lossy=False)
    if node is not None:
        operation = faults.random.choice(("read_at", "read_at", "open", "list"))
        _fail(faults, node, DiskFault(operation, "", on_hit=faults.first_hit(Fault.READ_ERROR)))


def write_error(faults: Faults) -> None:
    node = _victim(faults, is_lossy=False)
    if node is not None:
        operation = faults.random.choice(("write_at", "write_at", "rename", "replace_file", "truncate", "remove"))
        written_bytes = faults.random.choice((0, 40, 1_000))
        hit = faults.first_hit(Fault.WRITE_ERROR)
        _fail(
            faults, node, DiskFault(operation, skip=faults.random.randrange(4), written_bytes=written_bytes, on_hit=hit)
        )


def flush_error(faults: Faults) -> None:
    """What was to be flushed is marked clean, and may leave the page cache before the process is back."""
    node = _victim(faults, is_lossy=True)
    if node is None:
        return

    def hit() -> None:
        faults.cluster.promises.power_lost(node)
        faults.hit(Fault.FLUSH_ERROR)

    _fail(faults, node, DiskFault("flush", kind=DiskErrorKind.IO, on_hit=hit))


def disk_full(faults: Faults) -> None:
    node = _victim(faults, is_lossy=False)
    if node is None:
        return
    disk = node.disk
    disk.capacity_bytes = disk.used_bytes() + faults.random.randrange(4_000)
    disk.on_full = faults.first_hit(Fault.DISK_FULL)

    def make_room() -> None:
        disk.capacity_bytes = None

    faults.later(6 * SECOND, f"the disk of {node.name} has room again", make_room)


def slow_disk(faults: Faults) -> None:
    """All that is asked of it until it recovers waits as long."""
    node = _victim(faults, is_lossy=False)
    if node is None:
        return
    hit = faults.first_hit(Fault.SLOW_DISK)
    end_us = faults.scheduler.now_us + faults.random.randrange(100 * MS, 5 * SECOND)

    def stall_us() -> int:
        hit()
        return max(0, end_us - faults.scheduler.now_us)

    node.disk_stall_us = stall_us
    faults.after(end_us - faults.scheduler.now_us, f"the disk of {node.name} is fast again", lambda: _is_fast(node))


def _is_fast(node: LogstoreNode) -> None:
    node.disk_stall_us = None


# --- what rots -------------------------------------------------------------------------------------------------------


def bit_flip(faults: Faults) -> None:
    """In what a log has not flushed, while the process is down: recovery reads that again, and must see it."""
    node = _victim(faults, is_lossy=True)
    if node is None:
        return
    cluster = faults.cluster
    with _undisturbed(node.disk) as disk:
        spans = [
            (path, position, len(data))
            for path in _files(disk, DIRECTORY)
            if path.endswith(".log")
            for position, data in disk.open(path).node.unflushed
            if data
        ]
        if spans:
            path, position, length = faults.random.choice(spans)
            node.kill()
            cluster.promises.power_lost(node)
            position += faults.random.randrange(length)
            bit = faults.random.randrange(8)
            if position < disk.size(disk.open(path)) and _is_detectable(disk.peek(path), position, bit):
                disk.flip_bit(path, position, bit)
                faults.hit(Fault.BIT_FLIP)
            faults.restart_later(node, RESTART_US_MAX)


def _is_detectable(data: bytes, position: int, bit: int) -> bool:
    """Whether a start can see that this bit has flipped. No checksum covers a batch's base offset and leader epoch
    (Kafka's format): one that is too large is found by the batch that follows, any other may look as good.
    """
    rotten = None
    with suppress(MalformedFrame):  # What is behind garbage is dropped as a whole.
        for start, header in iterate_headers(data):
            if rotten is not None:
                return rotten.next_offset > header.base_offset or (
                    rotten.partition_leader_epoch > header.partition_leader_epoch
                )
            if position - start in UNPROTECTED:
                flipped = bytearray(data[start : start + HEADER_BYTES])
                flipped[position - start] ^= 1 << bit
                rotten = parse_header(flipped)
                if rotten < header:
                    return False
    return rotten is None


def checkpoint_lost(faults: Faults) -> None:
    """While the process is down: the file is gone, or half of it is, or garbage."""
    node = _victim(faults, is_lossy=False)
    if node is None:
        return
    node.kill()
    random = faults.random
    with _undisturbed(node.disk) as disk:
        found = [path for path in _files(disk, DIRECTORY) if path.endswith(EXPENDABLE)]
        for path in random.sample(found, min(len(found), random.randint(1, 3))):
            size = disk.size(disk.open(path))
            if size == 0 or random.random() < 0.5:
                disk.lose_file(path)
            else:
                disk.flip_bit(path, random.randrange(size), random.randrange(8))
        if found:
            faults.hit(Fault.CHECKPOINT_LOST)
    faults.restart_later(node, RESTART_US_MAX)


def marker_lost(faults: Faults) -> None:
    """It stops cleanly, and what it had left behind to say so is not there when it comes back."""
    node = faults.one_of([each for each in faults.cluster.logstores if each.core is not None and not each.is_stopping])
    if node is None:
        return
    node.terminate()
    marker = f"{DIRECTORY}/{CLEAN_SHUTDOWN_MARKER}"

    def come_back() -> None:
        if not node.alive and node.disk.exists(marker):
            node.disk.lose_file(marker)
            faults.hit(Fault.MARKER_LOST)
        faults.restart_later(node, 500 * MS)

    faults.later(6 * SECOND, f"{node.name} loses its marker", come_back)


def _files(disk: DiskModel, directory: str) -> Iterator[str]:
    for entry in disk.list(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory:
            yield from _files(disk, path)
        else:
            yield path


@contextmanager
def _undisturbed(disk: DiskModel) -> Iterator[DiskModel]:
    """Nothing that is planned to go wrong hits those who only look."""
    kept, disk.faults = disk.faults, []
    try:
        yield disk
    finally:
        disk.faults = kept


STRIKES: dict[Fault, Callable[[Faults], None]] = {
    Fault.POWER_CUT: power_cut,
    Fault.TORN_WRITE: torn_write,
    Fault.DISK_FULL: disk_full,
    Fault.READ_ERROR: read_error,
    Fault.WRITE_ERROR: write_error,
    Fault.FLUSH_ERROR: flush_error,
    Fault.BIT_FLIP: bit_flip,
    Fault.SLOW_DISK: slow_disk,
    Fault.CHECKPOINT_LOST: checkpoint_lost,
    Fault.MARKER_LOST: marker_lost,
}


def heal(cluster: Cluster) -> None:
    for node in cluster.logstores:
        node.disk.faults.clear()
        node.disk.interrupt_after = node.disk.capacity_bytes = node.disk_stall_us = None
