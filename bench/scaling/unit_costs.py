"""Costs of one partition, one change and one message, measured on the real cores in one process.

The controller's core runs over the simulation's etcd, with logstores that answer its commands. Time is CPU of the calls
of the core alone; bytes are those of the values in etcd and of the messages as they are sent; memory is what Python
has allocated.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import AlterPartitionRequest, IsrChange, IsrMember, NewTopic, UpdateMetadata
from barnabas.ports.etcd import Get, Put, Txn
from barnabas.runtime.protobuf import from_proto, to_proto
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.members.metadata import full_update
from barnabas_controller.core.state.effects import PublishMetadata
from barnabas_protos.controller.v1 import cluster_pb2
from tests.unit.controller.cluster import KEYS, Cluster, ControllerNode, create, error_codes

LOGSTORES: Final = 30
PARTITIONS_EACH: Final = 1000
REPLICATION_FACTOR: Final = 3
_FIRST_LOGSTORE: Final = 100
"""Ids of three digits, as most of a large cluster have."""


@dataclass(slots=True)
class Load:
    """What a part of the measurement took of the controller."""

    cpu_seconds: float
    txns: int
    etcd_bytes: int
    """Values that were put."""
    update_bytes: int
    """What each subscriber was sent."""
    partitions: int
    """Whose record is another one since."""


@dataclass(slots=True)
class UnitCosts:
    partitions: int
    logstores: int
    image_bytes: float
    """Memory of a member's image, for each partition."""
    controller_image_bytes: float
    """The same of a controller, which keeps etcd's values too."""
    update_bytes: float
    """Of a whole image as a message, for each partition."""
    member_cpu_us: float
    """To decode and apply a whole image, for each partition."""
    controller_load_us: float
    """To take over a whole state from etcd, for each partition."""
    etcd_bytes: float
    """Of the values in etcd, for each partition."""
    death: Load
    """A logstore stops: its leaders are elected elsewhere, and it leaves its ISRs."""
    change: Load
    """One partition's ISR changes."""


class Timed:
    """A core whose calls are timed. Everything else of it is read through."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._core, name)
        if not callable(found):
            return found

        def timed(*arguments: Any) -> Any:
            began = time.process_time()
            try:
                return found(*arguments)
            finally:
                self.seconds += time.process_time() - began

        return timed


class Measurement:
    def __init__(self, partitions: int, say: Callable[[str], None]) -> None:
        assert partitions % PARTITIONS_EACH == 0
        self._say = say
        self._partitions = partitions
        self._cluster = Cluster()
        self._controller = self._cluster.controller()
        for number in range(LOGSTORES):
            self._cluster.logstore(_FIRST_LOGSTORE + number)
        self._cluster.settle()
        # A subscriber, so that changes are published.
        self._cluster.gateway(self._controller)
        self._cluster.settle()
        for number in range(partitions // PARTITIONS_EACH):
            topic = NewTopic(f"topic-{number:05d}", PARTITIONS_EACH, REPLICATION_FACTOR, [], {})
            request = self._controller.request(create(topic))
            self._cluster.settle()
            assert error_codes(self._controller, request) == [ErrorCode.NONE]

    def take(self) -> UnitCosts:
        update = full_update(self._controller.core.image, 1)
        data = to_proto(update, cluster_pb2.UpdateMetadata).SerializeToString()
        self._say(f"{self._partitions:,} partitions on {LOGSTORES} logstores: an image is {len(data):,} bytes")
        member_seconds, _ = _applied(data)
        _, member_bytes = _with_memory(lambda: _applied(data))
        chunks = self._cluster.etcd.get(Get(KEYS.partitions, KEYS.partitions[:-1] + "0"))
        load_seconds, standby_bytes = self._standby()
        count = self._partitions
        return UnitCosts(
            count,
            LOGSTORES,
            member_bytes / count,
            standby_bytes / count,
            len(data) / count,
            member_seconds / count * 1e6,
            load_seconds / count * 1e6,
            sum(len(each.value) for each in chunks) / count,
            self._load(lambda: self._cluster.stop(_FIRST_LOGSTORE + 7)),
            self._load(self._shrink_one),
        )

    def _standby(self) -> tuple[float, float]:
        """CPU seconds and bytes of another controller that takes the whole state from etcd."""
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        standby = self._cluster.controller("controller-1")
        self._cluster.settle()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        self._cluster.controllers.remove(standby)
        # Timed apart: tracing makes everything slower.
        timed = self._cluster.controller("controller-2")
        core = _time(timed)
        self._cluster.settle()
        self._cluster.controllers.remove(timed)
        return core.seconds, used

    def _load(self, disturb: Callable[[], None]) -> Load:
        """What the active controller does until everything has settled after that."""
        controller = self._controller
        before = self._records()
        first_txn = len(controller.submitted)
        published: list[UpdateMetadata] = []
        core = _time(controller)
        original = core.take_outputs

        def take_outputs() -> Any:
            outputs = original()
            published.extend(each.update for each in outputs.effects if isinstance(each, PublishMetadata))
            return outputs

        core.take_outputs = take_outputs
        disturb()
        self._cluster.advance(200)
        controller.core = core._core
        after = self._records()
        txns = controller.submitted[first_txn:]
        return Load(
            core.seconds,
            len(txns),
            sum(map(_put_bytes, txns)),
            sum(to_proto(each, cluster_pb2.UpdateMetadata).ByteSize() for each in published),
            sum(before[key] != after[key] for key in before),
        )

    def _records(self) -> dict[tuple[bytes, int], Any]:
        image = self._controller.core.image
        return {
            (topic.topic_id, number): record
            for topic in image.topics.values()
            for number, record in image.partitions(topic.topic_id)
        }

    def _shrink_one(self) -> None:
        key, record = next((key, each) for key, each in self._records().items() if len(each.in_sync_replicas) == 3)
        logstores = self._cluster.logstores
        known = logstores[record.leader].partitions[key]
        kept = [each for each in record.in_sync_replicas if each != record.replicas[-1]]
        members = [IsrMember(each, logstores[each].broker_epoch) for each in kept]
        change = IsrChange(*key, known.leader_epoch, known.partition_epoch, members)
        self._controller.request(AlterPartitionRequest(record.leader, logstores[record.leader].broker_epoch, [change]))


def _time(controller: ControllerNode) -> Any:
    core = Timed(controller.core)
    controller.core = core  # type: ignore[assignment]
    return core


def _put_bytes(txn: Txn) -> int:
    return sum(len(each.value) for each in txn.success if isinstance(each, Put))


def _applied(data: bytes) -> tuple[float, ClusterImage]:
    """CPU seconds to decode and apply a whole image, and what comes of it."""
    began = time.process_time()
    image = ClusterImage()
    image.apply(from_proto(UpdateMetadata, cluster_pb2.UpdateMetadata.FromString(data)))
    return time.process_time() - began, image


def _with_memory(make: Callable[[], Any]) -> tuple[Any, float]:
    """What was made, and the bytes that it keeps allocated."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return made, used
