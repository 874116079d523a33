"""What becomes of operators' requests: drain and return a node, remove one, pause the balance."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from msgspec import structs

from barnabas.cluster.keys import PartitionRecord, Role
from barnabas.cluster.operation_records import BalanceRecord, DrainRecord
from barnabas_controller.core.chunk_changes import PartitionChange, PartitionKey, change_steps
from barnabas_controller.core.drains import Drains, named
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.liveness import LogstoreLiveness
from barnabas_controller.core.operator_requests import (
    DrainNode,
    OperatorRequest,
    OperatorResponse,
    Outcome,
    PauseBalance,
    RemoveNode,
    ReturnNode,
)
from barnabas_controller.core.partition_changes import led_by_preferred, reassignment_cancelled
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.unknown_state import knows_all_partitions
from barnabas_controller.core.writes import Step, Write, put, written

_DONE = OperatorResponse(Outcome.DONE)


class Operators:
    def __init__(
        self,
        image: ControllerImage,
        liveness: LogstoreLiveness,
        rules: TopicRulesTable,
        drains: Drains,
        wall_ms: Callable[[], int],
    ) -> None:
        self._image = image
        self._liveness = liveness
        self._rules = rules
        self._drains = drains
        self._wall_ms = wall_ms

    def decide(self, request: OperatorRequest) -> tuple[OperatorResponse, list[Step]]:
        """The answer, and the Txns that make it true; none where there is nothing to write."""
        match request:
            case DrainNode():
                return self._drain(request)
            case ReturnNode():
                return self._return(request)
            case RemoveNode():
                return self._remove(request)
            case PauseBalance():
                return self._pause_balance(request)
            case _:
                assert_never(request)

    def _drain(self, request: DrainNode) -> tuple[OperatorResponse, list[Step]]:
        image, node_id = self._image, request.node_id
        unknown = self._unknown(node_id)
        if unknown is not None:
            return unknown, []
        refusal = self._drains.refusal(node_id, move_replicas=request.move_replicas)
        if refusal:
            return OperatorResponse(Outcome.REFUSED, refusal), []
        before = image.drains.get(node_id)
        if request.validate_only or (before is not None and before.move_replicas == request.move_replicas):
            return _DONE, []
        since_ms = self._wall_ms() if before is None else before.since_ms
        record = DrainRecord(node_id, request.move_replicas, since_ms)
        return _DONE, [written([put(image.keys.operations.drain(node_id), record)])]

    def _return(self, request: ReturnNode) -> tuple[OperatorResponse, list[Step]]:
        image, node_id = self._image, request.node_id
        unknown = self._unknown(node_id)
        if unknown is not None:
            return unknown, []
        if node_id not in image.drains:
            return OperatorResponse(Outcome.NOT_FOUND, f"logstore {node_id} is not drained: nothing to return"), []
        called_off: dict[PartitionKey, PartitionChange] = {}
        led_again: dict[PartitionKey, PartitionChange] = {}
        for topic_id in image.topics_by_id:
            for number, partition in image.partitions(topic_id):
                key = (topic_id, number)
                if node_id in partition.removing_replicas and not request.let_moves_finish:
                    called_off[key] = self._called_off(key, node_id)
                if key in called_off or partition.replicas[0] == node_id:
                    led_again[key] = self._led_again(key, node_id)
        returned = written([Write(image.keys.operations.drain(node_id), None)])
        # Not returned before all moves are called off: whoever is the controller then can be asked again. No other move
        # begins in between, since requests are written before what can wait.
        return _DONE, [*change_steps(image, called_off), returned, *change_steps(image, led_again)]

    def _called_off(self, key: PartitionKey, node_id: int) -> PartitionChange:
        def change(partition: PartitionRecord) -> PartitionRecord:
            if node_id not in partition.removing_replicas:
                return partition
            live = self._liveness.current().at(*key)
            staying = reassignment_cancelled(partition, live, self._rules.of(key[0]))
            return partition if staying is None else _in_former_order(staying, partition)

        return change

    def _led_again(self, key: PartitionKey, node_id: int) -> PartitionChange:
        def change(partition: PartitionRecord) -> PartitionRecord:
            if partition.replicas[0] != node_id:
                return partition
            return led_by_preferred(partition, self._liveness.current().at(*key)) or partition

        return change

    def _remove(self, request: RemoveNode) -> tuple[OperatorResponse, list[Step]]:
        image, node_id = self._image, request.node_id
        unknown = self._unknown(node_id)
        if unknown is not None:
            return unknown, []
        if node_id in image.logstores:
            message = f"logstore {node_id} is alive: stop it first, drained where it has replicas"
            return OperatorResponse(Outcome.REFUSED, message), []
        if not knows_all_partitions(image):
            why = "partitions whose state in etcd is unreadable may have replicas there; make it readable first"
            return OperatorResponse(Outcome.REFUSED, f"logstore {node_id} can't be removed: {why}"), []
        kept = self._kept_by(node_id)
        if kept:
            message = (
                f"logstore {node_id} has replicas of {named(kept)}: "
                "move them off it first (drain it with its replicas moved, or reassign them)"
            )
            return OperatorResponse(Outcome.REFUSED, message), []
        keys = image.keys
        removed = (
            keys.member(Role.LOGSTORE, str(node_id)),
            keys.operations.drain(node_id),
            keys.broker_configs(node_id),
        )
        return _DONE, [lambda: [Write(key, None) for key in removed if image.mod_revision(key)]]

    def _kept_by(self, node_id: int) -> list[str]:
        image = self._image
        names = {topic_id: topic.topic for topic_id, topic in image.topics_by_id.items()}
        names |= {topic_id: f"{deletion.topic} (being deleted)" for topic_id, deletion in image.deletions.items()}
        return sorted(
            f"{name}-{number}"
            for topic_id, name in names.items()
            for number, partition in image.partitions(topic_id)
            if node_id in partition.replicas
        )

    def _pause_balance(self, request: PauseBalance) -> tuple[OperatorResponse, list[Step]]:
        image = self._image
        if request.paused == (image.balance is not None):
            return _DONE, []
        key = image.keys.operations.balance
        write = put(key, BalanceRecord(self._wall_ms())) if request.paused else Write(key, None)
        return _DONE, [written([write])]

    def _unknown(self, node_id: int) -> OperatorResponse | None:
        known = sorted(self._image.known_node_ids())
        if node_id in known:
            return None
        there_are = f"there are {', '.join(map(str, known))}" if known else "none has ever registered"
        return OperatorResponse(Outcome.NOT_FOUND, f"there is no logstore {node_id}; {there_are}")


def _in_former_order(staying: PartitionRecord, moving: PartitionRecord) -> PartitionRecord:
    """A move has its new replicas first, and what goes last. One for one, as drains move, the place of the one that has
    come is that of the one that was to go: preferred leaders are again what they were.
    """
    if len(moving.adding_replicas) != 1 or len(moving.removing_replicas) != 1:
        return staying
    (adding,), (removing,) = moving.adding_replicas, moving.removing_replicas
    order = [removing if each == adding else each for each in moving.replicas if each != removing]
    in_sync = [each for each in order if each in staying.in_sync_replicas]
    return structs.replace(staying, replicas=tuple(order), in_sync_replicas=tuple(in_sync))
