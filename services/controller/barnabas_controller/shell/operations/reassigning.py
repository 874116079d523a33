"""Elections and moves for operators: start them, report the progress of moves, and throttle their replication.

What may be asked for, and what it changes, `barnabas_controller.core.operations.partition_moves` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.cluster.messages import (
    NO_LEADER,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    Reassignment,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.operations.partition_moves import MovingPartition, NamedPartitions, PartitionMoves
from barnabas_controller.shell.driver import ControllerDriver
from barnabas_controller.shell.operations.calls import (
    Call,
    Method,
    page_size_of,
    position_of,
    require_done,
    require_topic,
    token_of,
)
from barnabas_controller.shell.operations.configs import alter_configs
from barnabas_controller.shell.operations.logstore_questions import LogstoreQuestions, gather_answers
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.logstore.v1 import administration_pb2

Replica = tuple[str, int]
"""A topic and a partition, on a node given otherwise."""


class Reassigning:
    def __init__(self, driver: ControllerDriver, questions: LogstoreQuestions) -> None:
        self._driver = driver
        self._image = driver.core.image
        self._moves = PartitionMoves(driver.core.image)
        self._questions = questions

    def methods(self) -> Mapping[str, Method]:
        return {
            "RunElection": self._run_election,
            "Reassign": self._reassign,
            "CancelReassignments": self._cancel_reassignments,
            "RemoveThrottles": self._remove_throttles,
            "ListReassignments": self._list_reassignments,
        }

    async def _run_election(self, request: pb.RunElectionRequest, call: Call) -> pb.RunElectionResponse:
        asked = self._moves.electing(request.kind, _named(request.partitions))
        election = ElectLeadersRequest(int(request.kind), not request.partitions, asked, call.timeout_ms)
        response = await self._driver.ask(election)
        assert isinstance(response, ElectLeadersResponse)
        require_done(response.error_code, "")
        elections = []
        for result in response.results:
            topic = self._image.topics.get(result.topic)
            partition = None if topic is None else self._image.partition(topic.topic_id, result.partition)
            elections.append(
                pb.Election(
                    topic=result.topic,
                    partition=result.partition,
                    error=ErrorCode(result.error_code).name,
                    message=result.error_message,
                    leader=NO_LEADER if partition is None else partition.leader,
                )
            )
        return pb.RunElectionResponse(elections=elections, revision=response.revision)

    # --- moves --------------------------------------------------------------------------------------------------------

    async def _reassign(self, request: pb.ReassignRequest, call: Call) -> pb.ReassignResponse:
        moves = [Reassignment(move.topic, move.partition, list(move.replicas)) for move in request.moves]
        self._moves.check(moves, request.throttle_bytes_per_second)
        throttles = self._moves.throttles(moves, request.throttle_bytes_per_second)
        if throttles:
            await alter_configs(self._driver, throttles, call)
        revision = await self._alter(moves, call)
        return pb.ReassignResponse(revision=revision)

    async def _alter(self, moves: list[Reassignment], call: Call) -> int:
        response = await self._driver.ask(AlterReassignmentsRequest(moves, call.timeout_ms))
        assert isinstance(response, AlterReassignmentsResponse)
        refused = [
            (move, result)
            for move, result in zip(moves, response.results, strict=True)
            if result.error_code != ErrorCode.NONE
        ]
        if refused:
            move, result = refused[0]
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            require_done(result.error_code, f"{move.topic}-{move.partition}: {result.error_message}{more}")
        return response.revision

    async def _cancel_reassignments(
        self, request: pb.CancelReassignmentsRequest, call: Call
    ) -> pb.CancelReassignmentsResponse:
        cancellations = self._moves.cancellations(_named(request.partitions))
        if not cancellations:
            return pb.CancelReassignmentsResponse(revision=self._image.revision)
        revision = await self._alter(cancellations, call)
        return pb.CancelReassignmentsResponse(cancelled=len(cancellations), revision=revision)

    async def _remove_throttles(self, request: pb.RemoveThrottlesRequest, call: Call) -> pb.RemoveThrottlesResponse:
        removals = self._moves.throttle_removals()
        if removals:
            await alter_configs(self._driver, removals, call)
        return pb.RemoveThrottlesResponse(changed=len(removals))

    # --- progress -----------------------------------------------------------------------------------------------------

    async def _list_reassignments(
        self, request: pb.ListReassignmentsRequest, call: Call
    ) -> pb.ListReassignmentsResponse:
        if request.topic:
            require_topic(self._image, request.topic)
        size = page_size_of(request.page_size)
        after = position_of(request.page_token)
        moving = list(self._moves.moving(request.topic))
        later = [each for each in moving if after is None or each.position > after]
        page = later[:size]
        sizes, unanswered = await self._replica_sizes(page, call)
        return pb.ListReassignmentsResponse(
            partitions=[_progress(each, sizes) for each in page],
            next_page_token=token_of(page[-1].position) if len(later) > size else "",
            unanswered=unanswered,
            total=len(moving),
        )

    async def _replica_sizes(
        self, page: Sequence[MovingPartition], call: Call
    ) -> tuple[dict[int, dict[Replica, administration_pb2.LogDirReplica]], list[str]]:
        """By node: the sizes of the partitions that it leads, or is to have."""
        asked: dict[int, administration_pb2.DescribeLogDirsRequest] = {}
        for each in page:
            for node_id in each.nodes_with_progress:
                question = asked.setdefault(node_id, administration_pb2.DescribeLogDirsRequest())
                question.partitions.add(topic_id=each.topic.topic_id, partition=each.number)
        answered, unanswered = await gather_answers(
            {
                node_id: self._questions.administer(
                    node_id,
                    "DescribeLogDirs",
                    question,
                    administration_pb2.DescribeLogDirsResponse,
                    call.timeout_ms,
                )
                for node_id, question in asked.items()
            }
        )
        sizes = {
            node_id: {
                (replica.topic, replica.partition): replica
                for log_dir in response.log_dirs
                for replica in log_dir.replicas
                if not replica.is_future
            }
            for node_id, response in answered.items()
        }
        return sizes, unanswered


def _named(partitions: Iterable[pb.TopicPartitions]) -> list[NamedPartitions]:
    return [(each.topic, each.partitions) for each in partitions]


def _progress(
    moving: MovingPartition, sizes: Mapping[int, Mapping[Replica, administration_pb2.LogDirReplica]]
) -> pb.ReassigningPartition:
    record = moving.record
    adding = []
    for node_id in record.adding_replicas:
        replica = sizes.get(node_id, {}).get(moving.position)
        adding.append(
            pb.AddingReplica(
                node_id=node_id,
                in_sync=node_id in record.in_sync_replicas,
                byte_count=-1 if replica is None else replica.byte_count,
                offset_lag=-1 if replica is None else replica.offset_lag,
            )
        )
    led = sizes.get(record.leader, {}).get(moving.position)
    return pb.ReassigningPartition(
        topic=moving.topic.topic,
        partition=moving.number,
        leader=record.leader,
        replicas=record.replicas,
        in_sync_replicas=record.in_sync_replicas,
        adding=adding,
        removing_replicas=record.removing_replicas,
        leader_byte_count=-1 if led is None else led.byte_count,
    )
