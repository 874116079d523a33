"""Describe what the image knows: the cluster, nodes, topics, partitions, drains, past controllers."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas import __version__
from barnabas.cluster.keys import Role
from barnabas.runtime.protobuf import to_proto
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.observability.description import NodeDescription, describe_nodes, describe_problems
from barnabas_controller.core.observability.partition_listing import (
    Condition,
    ListedPartition,
    PartitionCounts,
    PartitionFilter,
    count_partitions,
    list_partitions,
)
from barnabas_controller.core.topics.placement import replication_factor_of
from barnabas_controller.shell.operations.calls import (
    Call,
    Method,
    invalid,
    not_found,
    page_of,
    page_size_of,
    position_of,
    require_node,
    require_topic,
    token_of,
)
from barnabas_protos.controller.v1 import cluster_pb2
from barnabas_protos.controller.v1 import operations_pb2 as pb

_ROLES = [role.value for role in Role]


class Describing:
    def __init__(self, core: ControllerCore) -> None:
        self._core = core
        self._image = core.image

    def methods(self) -> Mapping[str, Method]:
        return {
            "DescribeCluster": self._describe_cluster,
            "ListNodes": self._list_nodes,
            "ListTopics": self._list_topics,
            "DescribeTopic": self._describe_topic,
            "ListPartitions": self._list_partitions,
            "ListDrains": self._list_drains,
            "DescribeControllerHistory": self._describe_controller_history,
        }

    def _counts(self, *topics: str) -> PartitionCounts:
        return count_partitions(self._image, self._core.rules, topics)

    def _describe_cluster(self, request: pb.DescribeClusterRequest, call: Call) -> pb.DescribeClusterResponse:
        image, counts = self._image, self._counts()
        assert image.election is not None, "an active controller is elected"
        return pb.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_id=image.election.record.controller_id,
            controller_epoch=image.controller_epoch,
            revision=image.revision,
            topics=len(image.topics),
            partitions=sum(topic.partitions for topic in image.topics.values()),
            offline_partitions=counts.conditions[Condition.OFFLINE],
            under_replicated_partitions=counts.conditions[Condition.UNDER_REPLICATED],
            under_min_isr_partitions=counts.conditions[Condition.UNDER_MIN_ISR],
            reassigning_partitions=counts.conditions[Condition.REASSIGNING],
            nodes=[_node(node) for node in describe_nodes(self._core, counts)],
            problems=describe_problems(self._core, counts),
            balance=pb.Balance(
                enabled=self._core.settings.auto_leader_rebalance_enable,
                paused=image.balance is not None,
                paused_since_ms=image.balance.paused_since_ms if image.balance is not None else 0,
            ),
            version=__version__,
            conditions=[
                pb.NodeCondition(
                    role=role.value,
                    id=member_id,
                    kind=condition.kind.value,
                    text=condition.text,
                    is_problem=condition.is_problem,
                )
                for role, member_id, condition in self._core.reported_health.conditions()
            ],
        )

    def _list_nodes(self, request: pb.ListNodesRequest, call: Call) -> pb.ListNodesResponse:
        if request.role and request.role not in _ROLES:
            raise invalid(f"there is no role '{request.role}': {', '.join(_ROLES)}")
        nodes = [
            node
            for node in describe_nodes(self._core)
            if request.role in ("", node.role.value) and request.id in ("", node.member_id)
        ]
        if not nodes and (request.role or request.id):
            raise not_found(f"there is no {request.role or 'node'}{request.id and f' {request.id}'}")
        return pb.ListNodesResponse(nodes=[_node(node) for node in nodes])

    def _list_topics(self, request: pb.ListTopicsRequest, call: Call) -> pb.ListTopicsResponse:
        names = sorted(topic for topic in self._image.topics if topic.startswith(request.prefix))
        page, token = page_of(names, request.page_size, request.page_token, str)
        return pb.ListTopicsResponse(topics=[self._summary(topic) for topic in page], next_page_token=token)

    def _summary(self, name: str) -> pb.TopicSummary:
        topic, counts = self._image.topics[name], self._counts(name).conditions
        return pb.TopicSummary(
            topic=name,
            topic_id=topic.topic_id,
            partitions=topic.partitions,
            replication_factor=replication_factor_of(self._image, topic),
            offline_partitions=counts[Condition.OFFLINE],
            under_replicated_partitions=counts[Condition.UNDER_REPLICATED],
            under_min_isr_partitions=counts[Condition.UNDER_MIN_ISR],
            min_insync_replicas=self._core.rules.of(topic.topic_id).min_insync_replicas,
        )

    def _describe_topic(self, request: pb.DescribeTopicRequest, call: Call) -> pb.DescribeTopicResponse:
        metadata = self._image.topic_metadata(require_topic(self._image, request.topic))
        return pb.DescribeTopicResponse(topic=to_proto(metadata, cluster_pb2.TopicMetadata))

    def _list_partitions(self, request: pb.ListPartitionsRequest, call: Call) -> pb.ListPartitionsResponse:
        """All are looked at, since the answer has their number: ten thousand take about 20 ms."""
        image, size = self._image, page_size_of(request.page_size)
        if request.topic:
            require_topic(image, request.topic)
        leader = request.leader if request.HasField("leader") else None
        replica = request.replica if request.HasField("replica") else None
        for node_id in (leader, replica):
            if node_id not in (None, -1):
                require_node(image, node_id)
        wanted = PartitionFilter(request.topic, frozenset(request.conditions), leader, replica)
        page: list[pb.Partition] = []
        last = after = position_of(request.page_token)
        total, token = 0, ""
        for listed in list_partitions(image, self._core.rules, wanted):
            total += 1
            if after is not None and listed.position <= after:
                continue
            if len(page) < size:
                page.append(_partition(listed))
                last = listed.position
            elif not token and last is not None:
                token = token_of(last)
        return pb.ListPartitionsResponse(partitions=page, next_page_token=token, total=total)

    def _list_drains(self, request: pb.ListDrainsRequest, call: Call) -> pb.ListDrainsResponse:
        drains = self._image.drains
        asked = sorted(drains)
        if request.HasField("node_id"):
            require_node(self._image, request.node_id)
            if request.node_id not in drains:
                raise not_found(f"logstore {request.node_id} is not drained")
            asked = [request.node_id]
        return pb.ListDrainsResponse(drains=[self._drain(node_id) for node_id in asked])

    def _drain(self, node_id: int) -> pb.Drain:
        record, progress = self._image.drains[node_id], self._core.drains.progress(node_id)
        return pb.Drain(
            node_id=node_id,
            move_replicas=record.move_replicas,
            since_ms=record.since_ms,
            done=not (progress.replicas if record.move_replicas else progress.leaders),
            leaders=progress.leaders,
            replicas=progress.replicas,
            moving=progress.moving,
            blocked=progress.blocked,
        )

    def _describe_controller_history(
        self, request: pb.DescribeControllerHistoryRequest, call: Call
    ) -> pb.DescribeControllerHistoryResponse:
        terms = self._image.controller_history.terms
        ends = [term.since_ms for term in terms[1:]] + [0]
        return pb.DescribeControllerHistoryResponse(
            terms=[
                pb.ControllerTerm(
                    controller_epoch=term.controller_epoch,
                    controller_id=term.controller_id,
                    address=term.address,
                    since_ms=term.since_ms,
                    until_ms=until_ms,
                )
                for term, until_ms in zip(terms, ends, strict=True)
            ]
        )


def _partition(listed: ListedPartition) -> pb.Partition:
    record = listed.record
    return pb.Partition(
        topic=listed.topic.topic,
        topic_id=listed.topic.topic_id,
        partition=listed.number,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        replicas=record.replicas,
        in_sync_replicas=record.in_sync_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas,
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        min_insync_replicas=listed.min_insync_replicas,
        conditions=[pb.PartitionCondition.ValueType(each) for each in listed.conditions],
    )


def _node(node: NodeDescription) -> pb.Node:
    return pb.Node(
        role=node.role.value,
        id=node.member_id,
        addresses=node.addresses,
        alive=node.alive,
        epoch=node.epoch,
        incarnation=node.incarnation,
        leaders=node.leaders,
        connected=node.connected,
        replicas=node.replicas,
        rack=node.rack,
        drained=node.drained,
        offline_log_dirs=node.offline_log_dirs,
        full_log_dirs=node.full_log_dirs,
        down_since_ms=node.down_since_ms,
        active=node.active,
    )
