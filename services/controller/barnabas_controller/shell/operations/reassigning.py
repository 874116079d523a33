"""Elections and moves that operators ask for, how far moves have come, and the throttles of their replication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from barnabas.cluster.messages import (
    ALL_BROKERS,
    NO_LEADER,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    ConfigChange,
    ElectLeadersRequest,
    ElectLeadersResponse,
    Reassignment,
    TopicPartition,
)
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.config_changes import ResourceType
from barnabas_controller.core.partition_listing import (
    Condition,
    ListedPartition,
    PartitionFilter,
    list_partitions,
)
from barnabas_controller.shell.driver import Driver
from barnabas_controller.shell.operations.calls import (
    Call,
    Method,
    invalid,
    not_found,
    page_size_of,
    position_of,
    refused_state,
    require_done,
    require_topic,
    token_of,
)
from barnabas_controller.shell.operations.configs import alter_configs, changes_of
from barnabas_controller.shell.operations.logstore_questions import LogstoreQuestions, gather_answers
from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.logstore.v1 import administration_pb2

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"
_MOVES_MAX: Final = 10_000

Replica = tuple[str, int]
"""A topic and a partition, on a node that is known otherwise."""


class Reassigning:
    def __init__(self, driver: Driver, questions: LogstoreQuestions) -> None:
        self._driver = driver
        self._core = driver.core
        self._image = driver.core.image
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
        if request.kind not in pb.ElectionKind.values():
            raise invalid(f"there is no kind {request.kind} of elections: {', '.join(pb.ElectionKind.keys())}")
        if request.kind == pb.UNCLEAN and not request.partitions:
            raise invalid("an unclean election may lose records: name the partitions")
        asked = [TopicPartition(topic, number) for topic, number in self._named(request.partitions)]
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

    def _named(self, partitions: Iterable[pb.TopicPartitions]) -> Iterator[Replica]:
        """Raises Refusal for what there is not."""
        for each in partitions:
            topic = require_topic(self._image, each.topic)
            for number in each.partitions or range(topic.partitions):
                self._require_partition(each.topic, number)
                yield each.topic, number

    def _require_partition(self, name: str, number: int) -> None:
        topic = require_topic(self._image, name)
        if not 0 <= number < topic.partitions:
            raise not_found(f"there is no partition {name}-{number}: it has {topic.partitions}, from 0")

    # --- moves --------------------------------------------------------------------------------------------------------

    async def _reassign(self, request: pb.ReassignRequest, call: Call) -> pb.ReassignResponse:
        if not request.moves:
            raise invalid("nothing to move: moves is empty")
        if len(request.moves) > _MOVES_MAX:
            raise invalid(f"{len(request.moves)} moves: ask for {_MOVES_MAX} at most at a time")
        if request.throttle_bytes_per_second < 0:
            raise invalid("throttle_bytes_per_second is below 0: a rate in bytes, or 0 for none")
        for move in request.moves:
            self._require_partition(move.topic, move.partition)
            if not move.replicas:
                raise invalid(f"no replicas for {move.topic}-{move.partition}; CancelReassignments takes moves back")
        if request.throttle_bytes_per_second:
            await self._throttle(request, call)
        moves = [Reassignment(move.topic, move.partition, list(move.replicas)) for move in request.moves]
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

    async def _throttle(self, request: pb.ReassignRequest, call: Call) -> None:
        """As `kafka-reassign-partitions --throttle`: the rate of every broker, and of each topic the replicas that send
        (all that there are) and those that receive (the new ones).
        """
        rate = str(request.throttle_bytes_per_second)
        sending: dict[str, list[str]] = {}
        receiving: dict[str, list[str]] = {}
        for move in request.moves:
            partition = self._image.partition(self._image.topics[move.topic].topic_id, move.partition)
            assert partition is not None
            sending.setdefault(move.topic, []).extend(f"{move.partition}:{each}" for each in partition.replicas)
            receiving.setdefault(move.topic, []).extend(
                f"{move.partition}:{each}" for each in move.replicas if each not in partition.replicas
            )
        resources = [(ResourceType.BROKER, "", changes_of(dict.fromkeys(_RATES, rate), []))]
        for topic, replicas in sending.items():
            values = {_LEADERS: ",".join(replicas), _FOLLOWERS: ",".join(receiving[topic])}
            resources.append((ResourceType.TOPIC, topic, changes_of(values, [])))
        await alter_configs(self._driver, resources, call)

    async def _cancel_reassignments(
        self, request: pb.CancelReassignmentsRequest, call: Call
    ) -> pb.CancelReassignmentsResponse:
        named = list(self._named(request.partitions)) or [
            listed.position for listed in self._reassigning(PartitionFilter())
        ]
        if not named:
            return pb.CancelReassignmentsResponse(revision=self._image.revision)
        revision = await self._alter([Reassignment(topic, number, []) for topic, number in named], call)
        return pb.CancelReassignmentsResponse(cancelled=len(named), revision=revision)

    async def _remove_throttles(self, request: pb.RemoveThrottlesRequest, call: Call) -> pb.RemoveThrottlesResponse:
        image = self._image
        moving = sum(1 for _ in self._reassigning(PartitionFilter()))
        if moving:
            raise refused_state(f"{moving} partitions still move: wait until they are there, or call them off")
        resources = []
        for broker_id, record in sorted(image.broker_configs.items()):
            name = "" if broker_id == ALL_BROKERS else str(broker_id)
            resources += [(ResourceType.BROKER, name, each) for each in _deletions(record.configs, _RATES)]
        for topic, topic_record in sorted(image.topics.items()):
            resources += [
                (ResourceType.TOPIC, topic, each) for each in _deletions(topic_record.configs, (_LEADERS, _FOLLOWERS))
            ]
        if resources:
            await alter_configs(self._driver, resources, call)
        return pb.RemoveThrottlesResponse(changed=len(resources))

    def _reassigning(self, wanted: PartitionFilter) -> Iterator[ListedPartition]:
        for listed in list_partitions(self._image, self._core.rules, wanted):
            if Condition.REASSIGNING in listed.conditions:
                yield listed

    # --- progress -----------------------------------------------------------------------------------------------------

    async def _list_reassignments(
        self, request: pb.ListReassignmentsRequest, call: Call
    ) -> pb.ListReassignmentsResponse:
        if request.topic:
            require_topic(self._image, request.topic)
        size = page_size_of(request.page_size)
        after = position_of(request.page_token)
        moving = list(self._reassigning(PartitionFilter(request.topic)))
        later = [listed for listed in moving if after is None or listed.position > after]
        page = later[:size]
        sizes, unanswered = await self._replica_sizes(page, call)
        return pb.ListReassignmentsResponse(
            partitions=[_progress(listed, sizes) for listed in page],
            next_page_token=token_of(page[-1].position) if len(later) > size else "",
            unanswered=unanswered,
            total=len(moving),
        )

    async def _replica_sizes(
        self, page: Sequence[ListedPartition], call: Call
    ) -> tuple[dict[int, dict[Replica, administration_pb2.LogDirReplica]], list[str]]:
        """By node: what it has of the partitions that it leads, or is to have."""
        asked: dict[int, administration_pb2.DescribeLogDirsRequest] = {}
        for listed in page:
            for node_id in dict.fromkeys((listed.record.leader, *listed.record.adding_replicas)):
                if node_id != NO_LEADER:
                    question = asked.setdefault(node_id, administration_pb2.DescribeLogDirsRequest())
                    question.partitions.add(topic_id=listed.topic.topic_id, partition=listed.number)
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


def _deletions(configs: Mapping[str, str], names: Sequence[str]) -> Iterator[list[ConfigChange]]:
    found = [name for name in names if name in configs]
    if found:
        yield changes_of({}, found)


def _progress(
    listed: ListedPartition, sizes: Mapping[int, Mapping[Replica, administration_pb2.LogDirReplica]]
) -> pb.ReassigningPartition:
    record = listed.record
    adding = []
    for node_id in record.adding_replicas:
        replica = sizes.get(node_id, {}).get(listed.position)
        adding.append(
            pb.AddingReplica(
                node_id=node_id,
                in_sync=node_id in record.in_sync_replicas,
                byte_count=-1 if replica is None else replica.byte_count,
                offset_lag=-1 if replica is None else replica.offset_lag,
            )
        )
    led = sizes.get(record.leader, {}).get(listed.position)
    return pb.ReassigningPartition(
        topic=listed.topic.topic,
        partition=listed.number,
        leader=record.leader,
        replicas=record.replicas,
        in_sync_replicas=record.in_sync_replicas,
        adding=adding,
        removing_replicas=record.removing_replicas,
        leader_byte_count=-1 if led is None else led.byte_count,
    )
