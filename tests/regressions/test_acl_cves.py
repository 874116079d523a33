"""Classes of CVEs about authorization, as they were in Apache Kafka and in others."""

from __future__ import annotations

from itertools import permutations

import pytest

from barnabas.cluster.acls import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.request_context import ANONYMOUS
from tests.unit.controller.test_acls import Scene as ControllerScene
from tests.unit.gateway.test_authorizer import Scene, acl, update
from tests.unit.gateway.world import World, topic

DENIED = acl(Operation.READ, deny=True)
ALLOWED = acl(Operation.READ, principal="User:*")
OTHER = acl(Operation.WRITE)


@pytest.mark.parametrize("order", list(permutations((DENIED, ALLOWED, OTHER))))
def test_cve_2024_27309_a_removed_acl_takes_no_denial_with_it(order: tuple[Acl, ...]) -> None:
    """In Kafka, while it was migrated from ZooKeeper, a resource with several ACLs left after one was removed was
    treated as if it had only one of them.
    """
    scene = Scene(*order)
    assert not scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(full=False, removed=(OTHER,)))
    assert not scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(full=False, removed=(ALLOWED,)))
    assert not scene.may(Operation.READ)
    assert list(scene.authorizer.acls) == [DENIED]


def test_cve_2024_27309_the_controller_removes_what_a_filter_matches_and_nothing_else() -> None:
    scene = ControllerScene()
    scene.create(DENIED, ALLOWED, OTHER)
    scene.delete(AclFilter(ResourceType.TOPIC, PatternType.LITERAL, "orders", operation=Operation.WRITE))
    assert scene.known == {DENIED, ALLOWED}


def denying_world(operation: Operation) -> World:
    world = World(authorizer=AuthorizerConfig(True))
    everything = Acl(
        ResourceType.TOPIC, PatternType.LITERAL, "*", str(ANONYMOUS), "*", Operation.ALL, PermissionType.ALLOW
    )
    denied = Acl(ResourceType.TOPIC, PatternType.LITERAL, "t", "User:*", "*", operation, PermissionType.DENY)
    world.update(topic(), acls=[everything, denied], knows_acls=True)
    return world


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_denied_produce_writes_nothing(acks: int) -> None:
    """I15. With acks=0 the client learns of it by the end of its connection."""
    world = denying_world(Operation.WRITE)
    client = world.client()
    client.produce(0, acks=acks)
    assert not world.logstore.appends
    assert client.is_closed is (acks == 0)
    if acks:
        assert client.error_codes() == [[ErrorCode.TOPIC_AUTHORIZATION_FAILED]]


@pytest.mark.parametrize("replica_id", [-1, 1])
def test_cve_2018_1288_a_fetch_that_claims_to_be_a_followers_reads_and_moves_nothing(replica_id: int) -> None:
    world = denying_world(Operation.READ)
    client = world.client()
    partition = FetchPartition(0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=replica_id, max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=[partition])]
    )
    client.ask(request, ApiKey.FETCH, 12)
    (answered,) = client.answers[-1].responses[0].partitions
    assert answered.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not world.logstore.reads


def test_a_fetch_that_waits_is_decided_again_before_it_is_answered() -> None:
    """The right is taken away while it is parked."""
    world = World(authorizer=AuthorizerConfig(True), pods=("purgatory-0",))
    allowed = Acl(ResourceType.TOPIC, PatternType.LITERAL, "t", str(ANONYMOUS), "*", Operation.READ, 3)
    world.update(topic(), acls=[allowed], knows_acls=True)
    client = world.client()
    client.fetch(0)
    world.logstore.read_result(b"")
    assert not client.answers
    (parked,) = world.pod.fetches
    world.update(topic(), acls=[], knows_acls=True)
    world.pass_ms(2_000)
    assert not world.logstore.reads
    (answered,) = client.answers[-1].responses[0].partitions
    assert answered.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert parked
