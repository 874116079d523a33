"""ListPartitionReassignments, API key 46, version 0 (KIP-455).

- The moves in progress, from the gateway's own image: all of them, or those of the given partitions. Partitions that
  don't move, or don't exist, are left out.

Deviations: none known.
"""

from __future__ import annotations

from barnabas.cluster.acls import CLUSTER, Operation
from barnabas.cluster.messages import PartitionMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from barnabas.wire.primitives import Steps
from barnabas_gateway.core.connections.connection import PendingRequest
from barnabas_gateway.core.requests.handler import Handler


class ListPartitionReassignmentsHandler(Handler):
    api_key = ApiKey.LIST_PARTITION_REASSIGNMENTS

    def start(self, pending: PendingRequest, request: ListPartitionReassignmentsRequest) -> Steps[None]:
        if not self.authorizer.authorize(pending, Operation.DESCRIBE, CLUSTER):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            refusal = ListPartitionReassignmentsResponse(error_code=error, error_message=error.message)
            self.responder.respond(pending, refusal)
            return
        image = self.image
        # A topic named twice is answered once, with all the partitions that are requested.
        asked: dict[str, dict[int, None] | None] = dict.fromkeys(image.topics_by_name)
        if request.topics is not None:
            named: dict[str, dict[int, None]] = {}
            for each in request.topics:
                named.setdefault(each.name, {}).update(dict.fromkeys(each.partition_indexes))
                yield 1 + len(each.partition_indexes) // 10
            asked = {**named}
        topics = []
        for name, numbers in asked.items():
            topic = image.topics_by_name.get(name)
            if topic is None:
                continue
            partitions = image.partitions_by_topic_id[topic.topic_id]
            moving: list[OngoingPartitionReassignment] = []
            for number in list(partitions if numbers is None else numbers):
                each_partition = partitions.get(number)
                if each_partition is not None:
                    _add_if_moving(each_partition, moving)
                yield 1
            yield 1
            if moving:
                topics.append(OngoingTopicReassignment(name, moving))
        self.responder.respond(pending, ListPartitionReassignmentsResponse(topics=topics))


def _add_if_moving(partition: PartitionMetadata, moving: list[OngoingPartitionReassignment]) -> None:
    adding, removing = list(partition.adding_replicas), list(partition.removing_replicas)
    if adding or removing:
        moving.append(OngoingPartitionReassignment(partition.partition, list(partition.replicas), adding, removing))
