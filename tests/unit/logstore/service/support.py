"""A host for the core, as the shell is one: a model disk, effects carried out or held back, answers collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import count

from barnabas.channel.assembly import ReadAssembler, ReadResult
from barnabas.channel.messages import (
    Append,
    AppendResult,
    ExchangeRequest,
    ExchangeResponse,
    Hello,
    OffsetAnswer,
    OffsetQuery,
    PartitionState,
    Read,
    ReadPartition,
    ReadRequest,
    StateAnswer,
    StateQuery,
    WatchedPartition,
    WatchRequest,
)
from barnabas.cluster.messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.cluster.topic_config import TopicConfig
from barnabas.ports.disk import DiskError
from barnabas.runtime.compression import CODECS
from barnabas.wire.record_batch import Record, build_batch, iterate_headers
from barnabas_logstore.core.logstore import LogstoreConfig, LogstoreCore
from barnabas_logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from barnabas_logstore.core.storage.effect_execution import EffectResult
from barnabas_logstore.core.storage.effects import StorageEffect
from barnabas_logstore.core.streams.outbox import Outputs
from barnabas_logstore.core.streams.replication_outbox import ReplicationOutputs
from tests.compiled import attributes_of
from tests.logger_levels import FixedLoggers
from tests.sim.disk_model import DiskModel
from tests.sim.page_cache import carry_out

NODE_ID = 1
OTHER_NODE = 2
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
BROKER_EPOCH = 40
CONTROLLER_EPOCH = 5
WALL_MS = 1_700_000_000_000
TOPIC = "orders"
TOPIC_ID = bytes(range(16))

EXCHANGE, READ, WATCH = 1, 2, 3


def batch(records_count: int = 1, *, value_bytes: int = 20, timestamp_ms: int = WALL_MS) -> bytes:
    return build_batch([Record(b"k", b"v" * value_bytes, timestamp_ms + index) for index in range(records_count)])


def topic(
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    *,
    partitions: int = 1,
    leader: int = NODE_ID,
    name: str = TOPIC,
    topic_id: bytes = TOPIC_ID,
    replicas: Sequence[int] = (NODE_ID,),
    in_sync_replicas: Sequence[int] = (NODE_ID,),
    configs: Mapping[str, str] | None = None,
) -> TopicMetadata:
    """A topic whose partitions are all in one state."""
    states = [
        PartitionMetadata(number, leader, leader_epoch, partition_epoch, tuple(replicas), tuple(in_sync_replicas))
        for number in range(partitions)
    ]
    return TopicMetadata(name, topic_id, dict(configs or {}), states)


def led_by_other(leader_epoch: int, *, configs: Mapping[str, str] | None = None) -> TopicMetadata:
    """The same topic once the leader of its partition is another node."""
    return topic(leader_epoch, leader=OTHER_NODE, replicas=(1, 2), in_sync_replicas=(1, 2), configs=configs)


class Host:
    """One logstore. Effects run at the end of a turn, unless `holds_effects`: then `run_effects` does it."""

    def __init__(self, disk: DiskModel | None = None, *, directories: int = 1, **config: object) -> None:
        self.disk = disk or DiskModel()
        self.holds_effects = False
        self.held: list[StorageEffect] = []
        self.now_ms = 0
        self.out = Outputs()
        self._said: list[Outputs] = []
        self._sequence = count(1)
        self._request_ids = count(1)
        self._unique = count()
        self._assembler = ReadAssembler()
        self.read_results: dict[int, ReadResult] = {}
        paths = [f"/data{number}" for number in range(directories)]
        self.log_directories = [self._open_directory(path) for path in paths]
        loaded: list[OpenedPartition] = []
        for directory in self.log_directories:
            loaded += directory.load(lambda _: TopicConfig(), 0)
        self.clock_us = 0
        """Passes when a test says so; requests are timed by it."""
        self.loggers = FixedLoggers()
        self.core = LogstoreCore(
            LogstoreConfig(NODE_ID, CLUSTER_ID, **config),  # type: ignore[arg-type]
            self.log_directories,
            loaded,
            CODECS,
            lambda prefix: f"{prefix}-{next(self._unique)}",
            lambda: self.clock_us,
            self.loggers,
        )
        self.core.on_registered(BROKER_EPOCH)

    def _open_directory(self, path: str) -> LogDirectory:
        directory = LogDirectory.open(
            self.disk,
            path,
            cluster_id=CLUSTER_ID,
            node_id=NODE_ID,
            kernel_boot_id="boot-1",
            new_directory_id=path.encode().ljust(16, b"0"),
            unique_name=lambda: f"{next(self._unique):032x}",
        )
        assert isinstance(directory, LogDirectory)
        return directory

    # --- turns ---

    def turn(self) -> Outputs:
        """One turn of the host; what the core said in it."""
        self.core.step(self.now_ms, WALL_MS)
        return self.collect()

    def take_effects(self) -> list[StorageEffect]:
        """What the disks have to do now. What is said, where that is nothing, is kept for `collect`."""
        outputs = self.core.take_outputs()
        if not outputs.effects:
            self._said.append(outputs)
        return outputs.effects

    def run_effects(self) -> None:
        """Carry out everything held, and what follows from it."""
        while self.held:
            for effect in list(self.held):
                self.run_effect(effect)
            if not self.holds_effects:
                self.held += self.take_effects()

    def run_effect(self, effect: StorageEffect) -> None:
        self.held.remove(effect)
        try:
            outcome: EffectResult | DiskError = carry_out(self.disk, effect)
        except DiskError as error:
            outcome = error
        self.core.on_io_done(effect, outcome)

    def collect(self) -> Outputs:
        """Take effects until there are none, and carry out all of them unless they are held; what was said in all."""
        while True:
            if not self.holds_effects:
                self.run_effects()
            effects = self.take_effects()
            if not effects:
                break
            self.held += effects
        self.out = out = joined(self._said)
        self._said = []
        for _, response in out.reads:
            for piece in response.pieces:
                result = self._assembler.add_piece(piece)
                if result is not None:
                    self.read_results[result.request_id] = result
        return out

    def settle(self) -> list[Outputs]:
        """Turns until nothing is left to be done."""
        said = [self.turn()]
        while self.core.has_work or self.held:
            said.append(self.turn())
        return said

    # --- control ---

    def command(
        self,
        body: LeaderAndIsr | StopReplica | UpdateMetadata,
        *,
        controller_epoch: int = CONTROLLER_EPOCH,
        broker_epoch: int = BROKER_EPOCH,
    ) -> ControlRequest:
        return ControlRequest(
            next(self._sequence),
            controller_epoch,
            broker_epoch,
            leader_and_isr=body if isinstance(body, LeaderAndIsr) else None,
            stop_replica=body if isinstance(body, StopReplica) else None,
            update_metadata=body if isinstance(body, UpdateMetadata) else None,
        )

    def control(self, body: LeaderAndIsr | StopReplica | UpdateMetadata, **epochs: int) -> ControlResponse:
        """Have one command carried out, in as many turns as it takes."""
        request = self.command(body, **epochs)
        self.core.on_control(7, request)
        ((session_id, response),) = [answer for out in self.settle() for answer in out.controls]
        assert (session_id, response.sequence) == (7, request.sequence)
        return response

    def lead(self, *topics: TopicMetadata, full: bool = False) -> ControlResponse:
        return self.control(LeaderAndIsr(full, list(topics) or [topic()]))

    def stop_replica(self, leader_epoch: int = -2, *, delete: bool = True) -> ControlResponse:
        return self.control(StopReplica([self.stopped(leader_epoch, delete=delete)]))

    @staticmethod
    def stopped(leader_epoch: int = -2, *, delete: bool = True) -> StopReplicaPartition:
        return StopReplicaPartition(TOPIC, TOPIC_ID, 0, leader_epoch, delete)

    # --- streams ---

    def greet(self, *stream_ids: int) -> None:
        """Open streams of the kinds EXCHANGE, READ and WATCH (ids of one kind are equal modulo 10)."""
        hello = Hello(CLUSTER_ID, "test")
        for stream_id in stream_ids:
            match stream_id % 10:
                case 1:
                    self.core.on_exchange(stream_id, ExchangeRequest(hello))
                case 2:
                    self.core.on_read(stream_id, ReadRequest(hello))
                case _:
                    self.core.on_watch(stream_id, WatchRequest(hello))
        self.turn()

    def append_request(
        self, records: bytes | None = None, *, leader_epoch: int = 0, acks: int = -1, partition: int = 0
    ) -> Append:
        return Append(next(self._request_ids), TOPIC_ID, partition, leader_epoch, acks, records or batch())

    def send(self, *appends: Append, stream_id: int = EXCHANGE) -> None:
        self.core.on_exchange(stream_id, ExchangeRequest(appends=list(appends)))

    def append(self, records: bytes | None = None, **fields: int) -> AppendResult:
        """One append, in a turn of its own, to its result."""
        request = self.append_request(records, **fields)
        self.send(request)
        (result,) = append_results(self.turn())
        assert result.request_id == request.request_id
        return result

    def read(self, *partitions: ReadPartition, bytes_max: int = 1 << 20, stream_id: int = READ) -> ReadResult:
        """One read, in as many turns as it takes, to its result."""
        request_id = self.read_request(*(partitions or [fetch()]), bytes_max=bytes_max, stream_id=stream_id)
        self.settle()
        return self.read_results.pop(request_id)

    def read_request(self, *partitions: ReadPartition, bytes_max: int = 1 << 20, stream_id: int = READ) -> int:
        """Ask for records; the id of the request, by which `read_results` has the result some turns later."""
        request_id = next(self._request_ids)
        self.core.on_read(stream_id, ReadRequest(reads=[Read(request_id, bytes_max, 0, list(partitions))]))
        return request_id

    def offset_request(self, timestamp: int, *, current_leader_epoch: int = -1, partition: int = 0) -> int:
        """Ask for an offset; the id of the request."""
        query = OffsetQuery(next(self._request_ids), TOPIC_ID, partition, current_leader_epoch, 0, timestamp)
        self.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=[query]))
        return query.request_id

    def query_offset(self, timestamp: int, *, current_leader_epoch: int = -1, partition: int = 0) -> OffsetAnswer:
        request_id = self.offset_request(timestamp, current_leader_epoch=current_leader_epoch, partition=partition)
        ((_, response),) = self.turn().exchanges
        (answer,) = response.offset_answers
        assert answer.request_id == request_id
        return answer

    def query_state(self, partition: int = 0, *, leader_epoch: int = -1, required_offset: int = -1) -> StateAnswer:
        query = StateQuery(next(self._request_ids), TOPIC_ID, partition, leader_epoch, required_offset)
        self.core.on_exchange(EXCHANGE, ExchangeRequest(state_queries=[query]))
        ((_, response),) = self.turn().exchanges
        (answer,) = response.state_answers
        return answer

    def watch(self, partition: int = 0, *, stream_id: int = WATCH) -> list[PartitionState]:
        self.core.on_watch(stream_id, WatchRequest(watches=[WatchedPartition(TOPIC_ID, partition)]))
        return states(self.turn(), stream_id)


def joined(said: Sequence[Outputs]) -> Outputs:
    """What was said one after the other, as said at once."""
    first, *others = said
    for other in others:
        for name in attributes_of(Outputs):
            if name not in ("replication", "transactions"):
                setattr(first, name, [*getattr(first, name), *getattr(other, name)])
        replication = ReplicationOutputs()
        for each in fields(ReplicationOutputs):
            before, after = getattr(first.replication, each.name), getattr(other.replication, each.name)
            if each.name in ("links", "alter_partition"):
                setattr(replication, each.name, before if after is None else after)
            else:
                setattr(replication, each.name, [*before, *after])
        first.replication = replication
        if first.transactions is None or other.transactions is None:
            first.transactions = first.transactions or other.transactions
        else:
            before, after = first.transactions, other.transactions
            before.links = before.links if after.links is None else after.links
            before.requests.extend(after.requests)
            before.wants_producer_ids |= after.wants_producer_ids
    return first


def fetch(
    offset: int = 0, *, partition: int = 0, bytes_max: int = 1 << 20, current_leader_epoch: int = -1
) -> ReadPartition:
    return ReadPartition(TOPIC_ID, partition, current_leader_epoch, offset, bytes_max)


def exchange(out: Outputs, stream_id: int = EXCHANGE) -> ExchangeResponse:
    (response,) = [response for id_, response in out.exchanges if id_ == stream_id]
    return response


def append_results(out: Outputs, stream_id: int = EXCHANGE) -> list[AppendResult]:
    return [result for id_, response in out.exchanges if id_ == stream_id for result in response.append_results]


def states(out: Outputs, stream_id: int = WATCH) -> list[PartitionState]:
    return [state for id_, response in out.watches if id_ == stream_id for state in response.states]


def offsets(records: object) -> list[int]:
    """The base offsets of the batches in a read's records."""
    return [header.base_offset for _, header in iterate_headers(records)]  # type: ignore[arg-type]
