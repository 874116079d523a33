"""One of the three logstores: a core of production over a model disk, its streams, and what it has received."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from barnabas.channel.generated.packing import (
    pack_replicate_request,
    pack_replicate_response,
)
from barnabas.channel.messages import ExchangeRequest, Hello
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlRequest,
)
from barnabas.ports.disk import DiskError
from barnabas.runtime.compression import CODECS
from barnabas.wire.errors import ErrorCode
from barnabas.wire.record_batch import iterate_headers
from barnabas_logstore.core.logstore import LogstoreConfig, LogstoreCore
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.fetcher import FetchLimits
from barnabas_logstore.core.replication.replication import ReplicationConfig
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.storage.effect_execution import execute
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.core.streams.replication_outbox import LeaderLink
from tests.logger_levels import FixedLoggers
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.service.support import WALL_MS

if TYPE_CHECKING:
    from tests.property.replicated_trio import Trio

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TOPIC, TOPIC_ID = "orders", bytes(range(16))
NODES = (1, 2, 3)
LAG_MS_MAX = 3_000
MIN_ISR = 2
EXCHANGE = 1

StoredBatch = tuple[int, int, bytes]
"""Base offset, last offset, bytes."""


class ViolationError(AssertionError):
    """What must never be."""


@dataclass(eq=False)
class Connection:
    """A follower's stream to its leader, by its id at the leader."""

    follower: Node
    leader: Node
    leader_life: int
    stream_id: int
    to_leader: deque[bytes] = field(default_factory=deque)
    to_follower: deque[bytes] = field(default_factory=deque)


class Node:
    def __init__(self, node_id: int, trio: Trio) -> None:
        self.node_id = node_id
        self.trio = trio
        self.disk = DiskModel(chance=trio.random)
        self.core: LogstoreCore | None = None
        self.life = 0
        self.broker_epoch = -1
        self.held: list[StorageEffect] = []
        self.commands: deque[ControlRequest] = deque()
        self.wanted: list[LeaderLink] = []
        self.stream_ids = count(10)
        self.alter_partition: AlterPartitionRequest | None = None
        self.answers: deque[AlterPartitionResponse | None] = deque()
        self.terms: dict[int, int] = {}
        """By leader epoch: how far the watermark has come while this node led."""

    def start(self) -> None:
        self.life += 1
        self.broker_epoch = next(self.trio.revisions)
        directory = LogDirectory.open(
            self.disk,
            "/data",
            cluster_id=CLUSTER_ID,
            node_id=self.node_id,
            kernel_boot_id="boot",
            new_directory_id=bytes([self.node_id]) * 16,
            unique_name=lambda: self.trio.random.randbytes(16).hex(),
        )
        assert isinstance(directory, LogDirectory)
        loaded = directory.load(lambda _: self.trio.topic_config, 0)
        ours = [opened for opened in loaded if opened.topic_id is not None]
        for opened in loaded:
            if opened.topic_id is None:
                assert directory.record_topic_id(opened.topic_partition, TOPIC_ID) is None
        assert len(ours) == len(loaded) or not ours
        if len(ours) < len(loaded):
            directory.set_aside(loaded[0].topic_partition)
        config = LogstoreConfig(
            self.node_id,
            CLUSTER_ID,
            cleaner_is_enabled=False,
            recovery_point_checkpoint_interval_ms=500,
            replication=ReplicationConfig(LAG_MS_MAX, FetchLimits(*self.trio.fetch_bytes, 500, 100)),
        )
        self.core = LogstoreCore(
            config, [directory], ours, CODECS, lambda prefix: f"{prefix}-member", lambda: 0, FixedLoggers()
        )
        self.core._settings.topic_config = lambda overrides: self.trio.topic_config
        self.core.on_registered(self.broker_epoch)
        self.core.on_exchange(EXCHANGE, ExchangeRequest(Hello(CLUSTER_ID, "test")))
        self.held, self.wanted, self.alter_partition = [], [], None
        self.commands.clear()
        self.answers.clear()

    def stop(self, *, lose_power: bool) -> None:
        if not lose_power:
            # The kernel has what the process gave it: what was begun may be done or not.
            for effect in self.held:
                if self.trio.random.random() < 0.5:
                    self._execute(effect)
        self.core = None
        self.held = []
        if lose_power:
            self.disk.lose_power(self.trio.random)
        self.disk.faults.clear()

    @property
    def partition(self) -> Partition | None:
        return self.core.partitions[0] if self.core is not None and self.core.partitions else None

    def batches(self) -> list[StoredBatch]:
        """What the log holds, written."""
        partition = self.partition
        if partition is None or not partition.online:
            return []
        found = []
        for segment in partition.log.segments.all():
            if not self.disk.exists(segment.log_path):
                continue
            data = self.disk.read_file(segment.log_path)
            for position, header in iterate_headers(data):
                if header.last_offset < partition.log.log_end_offset:
                    found.append(
                        (header.base_offset, header.last_offset, data[position : position + header.size_bytes])
                    )
        return found

    # --- turns ---

    def turn(self) -> None:
        core = self.core
        if core is None:
            return
        core.step(self.trio.now_ms, WALL_MS)
        self._take_outputs(core)
        self.trio.look_at(self)
        if core.all_directories_offline:
            self.trio.crash(self, lose_power=False)

    def _take_outputs(self, core: LogstoreCore) -> None:
        while (outputs := core.take_outputs()).effects:
            self.held += outputs.effects
        self._send(outputs)

    def _send(self, outputs: Outputs) -> None:
        said = outputs.replication
        if said.problems:
            raise ViolationError(f"{self.node_id} can't go on: {said.problems}")
        if said.links is not None:
            self.wanted = said.links
            for connection in list(self.trio.connections):
                if connection.follower is self:
                    self.trio.disconnect(connection)
        for stream_id, reason in (*outputs.closes, *said.closes):
            raise ViolationError(f"{self.node_id} closes stream {stream_id}: {reason}")
        for connection in self.trio.connections:
            if connection.leader is self:
                answers = [each for stream_id, each in said.responses if stream_id == connection.stream_id]
                connection.to_follower += [pack_replicate_response(answer) for answer in answers]
            if connection.follower is self:
                asked = [each for node_id, each in said.requests if node_id == connection.leader.node_id]
                connection.to_leader += [pack_replicate_request(request) for request in asked]
        if said.alter_partition is not None:
            assert self.alter_partition is None, "two requests are under way"
            self.alter_partition = said.alter_partition
        for _, response in outputs.controls:
            for each in response.partition_errors:
                if each.error_code not in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR):
                    raise ViolationError(f"{self.node_id} refuses a command: {ErrorCode(each.error_code).name}")

    def run_effect(self, index: int) -> None:
        assert self.core is not None
        effect = self.held.pop(index)
        self.core.on_io_done(effect, self._execute(effect))
        self._take_outputs(self.core)

    def _execute(self, effect: StorageEffect) -> bytes | DiskError:
        try:
            return execute(self.disk, effect)
        except DiskError as error:
            return error
