"""CreateTopics and DeleteTopics answer as soon as they are decided, whatever else happened in etcd meanwhile."""

from __future__ import annotations

from barnabas.cluster.keys import Role
from barnabas.cluster.messages import CreateTopicsResponse, DeleteTopicsResponse, NewTopic
from barnabas.wire.errors import ErrorCode
from tests.unit.controller.cluster import Cluster, create, delete


def test_a_request_that_changes_nothing_names_a_revision_that_gateways_reach() -> None:
    """After a restart, creating a topic that exists took all of its timeout: a gateway's registration is not sent to
    members, so no gateway ever reached the revision that the answer named."""
    cluster = Cluster()
    controller = cluster.controller()
    cluster.logstore(1)
    cluster.settle()
    cluster.gateway(controller)
    cluster.settle()
    controller.request(create(NewTopic("events", partitions=1, replication_factor=1)))
    cluster.settle()
    gateway = controller.subscribe(Role.GATEWAY, "gateway-0")
    cluster.gateway(controller, "gateway-1")
    cluster.settle()
    again = controller.request(create(NewTopic("events", partitions=1, replication_factor=1)))
    absent = controller.request(delete("none"))
    cluster.settle()
    known_revision = controller.subscribers[gateway].revision
    assert known_revision < controller.core.image.revision
    exists, unknown = controller.responses[again], controller.responses[absent]
    assert isinstance(exists, CreateTopicsResponse)
    assert isinstance(unknown, DeleteTopicsResponse)
    assert exists.results[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert unknown.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert max(exists.revision, unknown.revision) <= known_revision
