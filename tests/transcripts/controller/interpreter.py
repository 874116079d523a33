"""The commands of transcripts about the controller, over etcd in memory and brokers that answer what it sends them.

Output is what a request was answered, each partition that etcd has in another state than before, and what the
controller has sent to brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.cluster.controller_calls.table import MembershipRequest, MembershipResponse
from barnabas.cluster.keys import PartitionChunk, PartitionRecord, TopicRecord, decode_record
from barnabas.cluster.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    Assignment,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IsrChange,
    IsrMember,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicPartition,
    TopicReference,
)
from barnabas.ports.etcd import Get, prefix_end
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.state.effects import Reject
from barnabas_controller.core.state.operator_requests import OperatorResponse
from barnabas_controller.core.state.settings import ElectionSettings
from tests.transcripts.script import Command, ScriptError, milliseconds, partition_of
from tests.unit.controller.cluster import KEYS, LEASE_MS, Cluster, ControllerNode

_TIMEOUT_MS = 10_000
_ELECTIONS = {"preferred": 0, "unclean": 1}
_STEP_MS = 100


class ControllerInterpreter:
    """One controller is active from the beginning; brokers are started by `start`."""

    def __init__(self) -> None:
        # A transcript moves leaders by its own commands.
        self._settings = ElectionSettings(auto_leader_rebalance_enable=False)
        self._cluster = Cluster()
        self._active: ControllerNode = self._cluster.controller(settings=self._settings)
        self._cluster.settle()
        self._seen: dict[str, PartitionRecord] = {}
        self._sent: dict[tuple[int, int], int] = {}
        """By broker and broker epoch, the commands that were shown."""
        self._names: dict[bytes, str] = {}
        self._lines: list[str] = []
        self._verbs: dict[str, Callable[[Command], None]] = {
            "start": self._start,
            "stop": self._stop,
            "controlled-shutdown": self._controlled_shutdown,
            "create-topic": self._create_topic,
            "create-partitions": self._create_partitions,
            "delete-topic": self._delete_topic,
            "alter-partition": self._alter_partition,
            "elect-leaders": self._elect_leaders,
            "reassign": self._reassign,
            "advance": self._advance,
            "replace-controller": self._replace_controller,
        }

    def run(self, command: Command) -> list[str]:
        carry_out = self._verbs.get(command.verb)
        if carry_out is None:
            raise ScriptError(f"there is no command {command.verb!r}")
        self._lines = []
        try:
            carry_out(command)
        except (KeyError, ValueError) as error:
            raise ScriptError(f"{command.verb}: {error}") from error
        self._cluster.settle()
        self._observe()
        return self._lines

    # --- brokers ------------------------------------------------------------------------------------------------------

    def _start(self, command: Command) -> None:
        """Start brokers, or start them again: under another broker epoch."""
        for each in command.arguments:
            self._cluster.logstore(int(each), rack=command.text("rack"), may_lack_records=command.flag("unclean"))
            self._cluster.settle()

    def _stop(self, command: Command) -> None:
        """End brokers' processes: their sessions are gone, and with them their leadership."""
        for each in command.arguments:
            self._cluster.stop(int(each))
            self._cluster.settle()

    def _controlled_shutdown(self, command: Command) -> None:
        broker_id = int(command.argument())
        broker_epoch = self._cluster.logstores[broker_id].broker_epoch
        response = self._ask(ControlledShutdownRequest(broker_id, broker_epoch))
        assert isinstance(response, ControlledShutdownResponse)
        self._lines.append(
            f"ControlledShutdown -> {ErrorCode(response.error_code).name} remaining-leaders={response.remaining}"
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def _ask(self, request: MembershipRequest) -> MembershipResponse:
        """Send a request, and let time pass until it is answered."""
        request_id = self._active.request(request)
        self._cluster.settle()
        for _ in range(2 * _TIMEOUT_MS // _STEP_MS):
            if request_id in self._active.responses:
                break
            self._cluster.advance(_STEP_MS)
        response = self._active.responses.get(request_id)
        if response is None or isinstance(response, Reject | OperatorResponse):
            raise ScriptError(f"the controller does not answer: {response}")
        return response

    def _create_topic(self, command: Command) -> None:
        name = command.argument()
        given = [_replicas_of(each) for each in command.arguments[1:]]
        topic = NewTopic(
            name,
            -1 if given else command.number("partitions", 1),
            -1 if given else command.number("replication-factor", 1),
            [Assignment(number, each) for number, each in enumerate(given)],
            command.configs(),
        )
        response = self._ask(CreateTopicsRequest([topic], _TIMEOUT_MS))
        assert isinstance(response, CreateTopicsResponse)
        self._say_results("CreateTopics", response.results)

    def _create_partitions(self, command: Command) -> None:
        asked = NewPartitions(command.argument(), command.number("count", 0))
        response = self._ask(CreatePartitionsRequest([asked], _TIMEOUT_MS))
        assert isinstance(response, CreatePartitionsResponse)
        self._say_results("CreatePartitions", response.results)

    def _delete_topic(self, command: Command) -> None:
        response = self._ask(DeleteTopicsRequest([TopicReference(command.argument(), b"")], _TIMEOUT_MS))
        assert isinstance(response, DeleteTopicsResponse)
        self._say_results("DeleteTopics", response.results)

    def _say_results(self, kind: str, results: Sequence[Any]) -> None:
        for result in results:
            message = f" {result.error_message}" if result.error_code else ""
            self._lines.append(f"{kind} -> {ErrorCode(result.error_code).name}{message}")

    def _alter_partition(self, command: Command) -> None:
        """The ISR that a leader asks for, by what it was sent last unless the options say otherwise."""
        topic, number = partition_of(command.argument())
        record = self._record(topic, number)
        by = command.number("by", record.leader)
        members: list[IsrMember] = []
        for each in command.texts("isr"):
            broker_id, _, epoch = each.partition("@")
            known = self._cluster.logstores[int(broker_id)].broker_epoch
            # A broker epoch is a revision of etcd: transcripts have them relative to the present one.
            members.append(IsrMember(int(broker_id), known + int(epoch or 0)))
        change = IsrChange(
            self._topic_id(topic),
            number,
            command.number("leader-epoch", record.leader_epoch),
            command.number("partition-epoch", record.partition_epoch),
            members,
        )
        response = self._ask(AlterPartitionRequest(by, self._cluster.logstores[by].broker_epoch, [change]))
        assert isinstance(response, AlterPartitionResponse)
        codes = [response.error_code, *(each.error_code for each in response.partitions)]
        error = next((ErrorCode(each) for each in codes if each), ErrorCode.NONE)
        self._lines.append(f"AlterPartition -> {error.name}")

    def _elect_leaders(self, command: Command) -> None:
        kind = _ELECTIONS[command.argument()]
        partitions = [TopicPartition(*partition_of(each)) for each in command.arguments[1:]]
        response = self._ask(ElectLeadersRequest(kind, not partitions, partitions, _TIMEOUT_MS))
        assert isinstance(response, ElectLeadersResponse)
        for each in response.results:
            self._lines.append(f"ElectLeaders -> {each.topic}-{each.partition}:{ErrorCode(each.error_code).name}")

    def _reassign(self, command: Command) -> None:
        """AlterPartitionReassignments; without replicas the one in progress is cancelled."""
        topic, number = partition_of(command.argument())
        asked = Reassignment(topic, number, command.numbers("replicas"))
        response = self._ask(AlterReassignmentsRequest([asked], _TIMEOUT_MS))
        assert isinstance(response, AlterReassignmentsResponse)
        self._say_results("AlterPartitionReassignments", response.results)

    def _advance(self, command: Command) -> None:
        self._cluster.advance(milliseconds(command.argument()))

    def _replace_controller(self, command: Command) -> None:
        """Cut off the active controller; a standby takes over when the lease has ended. Some brokers stop before."""
        self._active.cut_off = True
        for broker_id in command.numbers("stopped"):
            self._cluster.stop(broker_id)
        self._active = self._cluster.controller(f"controller-{len(self._cluster.controllers)}", self._settings)
        self._cluster.advance(LEASE_MS + 1000)
        if not self._active.is_active():
            raise ScriptError("no controller is active")
        del self._cluster.controllers[0]
        self._lines.append(f"{self._active.controller_id} is active, epoch {self._active.core.image.controller_epoch}")

    # --- what etcd has, and what brokers were sent --------------------------------------------------------------------

    def _records(self) -> dict[str, PartitionRecord]:
        """Return the partitions in etcd by name, those of topics that have their record."""
        topics: dict[bytes, TopicRecord] = {}
        chunks: list[PartitionChunk] = []
        for found in self._cluster.etcd.get(Get(KEYS.prefix, prefix_end(KEYS.prefix))):
            if not found.key.startswith((KEYS.topics, KEYS.partitions)):
                continue
            record = decode_record(KEYS, found.key, found.value)
            if isinstance(record, TopicRecord):
                topics[record.topic_id] = record
                self._names[record.topic_id] = record.topic
            elif isinstance(record, PartitionChunk):
                chunks.append(record)
        return {
            f"{topics[chunk.topic_id].topic}-{number}": partition
            for chunk in chunks
            if chunk.topic_id in topics
            for number, partition in enumerate(chunk.partitions)
        }

    def _record(self, topic: str, number: int) -> PartitionRecord:
        return self._records()[f"{topic}-{number}"]

    def _topic_id(self, topic: str) -> bytes:
        return next(topic_id for topic_id, name in reversed(self._names.items()) if name == topic)

    def _observe(self) -> None:
        records = self._records()
        for name in sorted(self._seen.keys() | records.keys()):
            before, after = self._seen.get(name), records.get(name)
            if after is None:
                self._lines.append(f"  {name} is gone")
            elif before is None or _shown(before) != _shown(after):
                self._lines.append(f"  {name} {_shown(after)}")
        self._seen = records
        for node_id, logstore in sorted(self._cluster.logstores.items()):
            key = node_id, logstore.broker_epoch
            for request in logstore.requests[self._sent.get(key, 0) :]:
                self._lines += [f"  to broker {node_id}: {line}" for line in _commands(request, self._names)]
            self._sent[key] = len(logstore.requests)


def _replicas_of(text: str) -> list[int]:
    """Parse `1:2:3`, the replicas of one partition."""
    try:
        return [int(each) for each in text.split(":")]
    except ValueError:
        raise ScriptError(f"{text} are no replicas: 1:2:3") from None


def _shown(record: PartitionRecord) -> str:
    shown = [
        f"leader={record.leader if record.leader >= 0 else 'none'}",
        f"leader-epoch={record.leader_epoch}",
        f"partition-epoch={record.partition_epoch}",
        f"replicas={_numbers(record.replicas)}",
        f"isr={_numbers(record.in_sync_replicas)}",
    ]
    if record.eligible_leader_replicas:
        shown.append(f"elr={_numbers(record.eligible_leader_replicas)}")
    if record.adding_replicas:
        shown.append(f"adding={_numbers(record.adding_replicas)}")
    if record.removing_replicas:
        shown.append(f"removing={_numbers(record.removing_replicas)}")
    if record.leader_recovering:
        shown.append("leader-recovery-state=RECOVERING")
    return " ".join(shown)


def _numbers(values: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, values))}]"


def _commands(request: ControlRequest, names: Mapping[bytes, str]) -> list[str]:
    """Describe the partitions of a LeaderAndIsr or StopReplica; UpdateMetadata repeats what etcd has."""
    lines: list[str] = []
    if request.leader_and_isr is not None:
        for topic in request.leader_and_isr.topics:
            for each in topic.partitions:
                leader = each.leader if each.leader >= 0 else "none"
                lines.append(
                    f"LeaderAndIsr {topic.topic}-{each.partition} leader={leader} leader-epoch={each.leader_epoch} "
                    f"isr={_numbers(each.in_sync_replicas)}"
                )
    if request.stop_replica is not None:
        for stopped in request.stop_replica.partitions:
            deletes = " delete" if stopped.delete else ""
            lines.append(f"StopReplica {names.get(stopped.topic_id, stopped.topic)}-{stopped.partition}{deletes}")
    return lines
