"""A logstore: the core of a broker's logs, replicas and coordinators, on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from barnabas.channel.messages import CoordinateRequest, ExchangeRequest, Hello, ReadRequest, WatchRequest
from barnabas.cluster.messages import ControlRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from barnabas.cluster.topic_config import TopicConfig
from barnabas.runtime.compression import CODECS
from barnabas_logstore.core.logstore import LogstoreConfig, LogstoreCore
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory
from barnabas_logstore.core.streams.outbox import Outputs
from tests.logger_levels import FixedLoggers
from tests.sim.disk_model import DiskModel
from tests.sim.page_cache import carry_out

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER_EPOCH = 1
WALL_AT_START_MS = 1_700_000_000_000
DIRECTORY = "/data"
EXCHANGE, READ, WATCH, COORDINATE, CONTROL = 1, 2, 3, 4, 5
"""The streams of the one gateway, of its purgatory and of the controller."""

FIRST_PEER_STREAM = 100


class Node:
    """Effects are carried out at once. Each turn's messages go to `deliver`."""

    def __init__(self, config: LogstoreConfig, make_member_id: Callable[[str], str]) -> None:
        self.node_id = config.node_id
        self.broker_epoch = 100 + self.node_id
        self.disk = DiskModel()
        self.peer_streams = count(FIRST_PEER_STREAM)
        self._config = config
        self._make_member_id = make_member_id
        self._sequence = count(1)
        self._names = count()
        self.core = self._open()

    def _open(self) -> LogstoreCore:
        directory = LogDirectory.open(
            self.disk,
            DIRECTORY,
            cluster_id=CLUSTER_ID,
            node_id=self.node_id,
            kernel_boot_id="boot",
            new_directory_id=bytes([self.node_id]) * 16,
            unique_name=lambda: f"{next(self._names):032x}",
        )
        assert isinstance(directory, LogDirectory)
        loaded = directory.load(lambda _: TopicConfig(), 0)
        core = LogstoreCore(self._config, [directory], loaded, CODECS, self._make_member_id, lambda: 0, FixedLoggers())
        core.on_registered(self.broker_epoch)
        hello = Hello(CLUSTER_ID, "gateway")
        core.on_exchange(EXCHANGE, ExchangeRequest(hello))
        core.on_read(READ, ReadRequest(hello))
        core.on_watch(WATCH, WatchRequest(hello))
        core.on_coordinate(COORDINATE, CoordinateRequest(hello))
        return core

    def restart(self) -> None:
        """The process dies, and comes back under the next broker epoch with what its disk has."""
        self.broker_epoch += 100
        self.core = self._open()

    def turn(self, now_ms: int, written: Callable[[], None]) -> Outputs:
        """Take one turn, and return what is to be sent; `written` is called whenever the disk may have changed."""
        self.core.step(now_ms, WALL_AT_START_MS + now_ms)
        while (outputs := self.core.take_outputs()).effects:
            for effect in list(outputs.effects):
                outcome = carry_out(self.disk, effect)
                written()
                self.core.on_io_done(effect, outcome)
        return outputs

    def tick(self, now_ms: int) -> None:
        self.core.tick(now_ms)

    def command(self, body: LeaderAndIsr | StopReplica | UpdateMetadata) -> None:
        """Send a command of the controller."""
        request = ControlRequest(
            next(self._sequence),
            CONTROLLER_EPOCH,
            self.broker_epoch,
            leader_and_isr=body if isinstance(body, LeaderAndIsr) else None,
            stop_replica=body if isinstance(body, StopReplica) else None,
            update_metadata=body if isinstance(body, UpdateMetadata) else None,
        )
        self.core.on_control(CONTROL, request)
