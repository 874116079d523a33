"""Who may do what, by the rules of Kafka's StandardAuthorizer; held to Kafka itself by tests/authorization."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest

from barnabas.cluster.acls import CLUSTER, Acl, Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.cluster.messages import UpdateMetadata
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.headers import RequestHeader
from barnabas_gateway.core.model import authorizer as module
from barnabas_gateway.core.model.audit import RECORDS_PER_SECOND_MAX, Audit
from barnabas_gateway.core.model.authorizer import Authorizer
from barnabas_gateway.core.model.config import AuthorizerConfig
from barnabas_gateway.core.model.deadlines import Clock
from barnabas_gateway.core.model.log_lines import LogLineBuffer
from barnabas_gateway.core.model.outputs import Turn
from barnabas_gateway.core.model.request_context import Principal, RequestContext

ALICE = "User:alice"
TOPIC: Resource = (ResourceType.TOPIC, "orders")
_revisions = count(1)


@dataclass
class Connection:
    context: RequestContext


@dataclass
class Request:
    """A produce request of a client."""

    connection: Connection
    header: RequestHeader = field(default_factory=lambda: RequestHeader(ApiKey.PRODUCE, 9, 1, "client"))


def of(principal: str = ALICE, peer: str = "10.0.0.1:5000") -> Request:
    return Request(Connection(RequestContext(1, "PLAINTEXT", peer, Principal(*principal.split(":", 1)))))


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    deny: bool = False,
    prefixed: bool = False,
    principal: str = ALICE,
    host: str = "*",
    resource_type: ResourceType = ResourceType.TOPIC,
) -> Acl:
    pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission_type = PermissionType.DENY if deny else PermissionType.ALLOW
    return Acl(resource_type, pattern_type, name, principal, host, operation, permission_type)


def update(*acls: Acl, removed: tuple[Acl, ...] = (), full: bool = True, knows_acls: bool = True) -> UpdateMetadata:
    return UpdateMetadata(
        next(_revisions), full, "c", 1, [], [], [], acls=list(acls), removed_acls=list(removed), knows_acls=knows_acls
    )


class Scene:
    def __init__(
        self, *acls: Acl, super_users: frozenset[str] = frozenset(), allows_without_acls: bool = False
    ) -> None:
        self.clock, self.turn = Clock(), Turn()
        self.audit = Audit(self.clock, LogLineBuffer(self.turn))
        self.authorizer = Authorizer(AuthorizerConfig(True, super_users, allows_without_acls), self.audit)
        self.authorizer.metadata_updated(update(*acls))

    def may(self, operation: Operation, resource: Resource = TOPIC, request: Request | None = None) -> bool:
        return self.authorizer.authorize(request or of(), operation, resource)

    def may_any(self, operation: Operation, request: Request | None = None) -> bool:
        return self.authorizer.authorize_any(request or of(), operation, ResourceType.TOPIC)


def test_without_an_authorizer_everything_is_allowed() -> None:
    scene = Scene()
    authorizer = Authorizer(AuthorizerConfig(), scene.audit)
    assert authorizer.authorize(of(), Operation.ALTER, CLUSTER)
    assert authorizer.authorize_any(of(), Operation.WRITE, ResourceType.TOPIC)
    assert authorizer.authorized_operations(of(), TOPIC) == 0b1101_1111_1000


def test_nothing_is_allowed_that_no_acl_allows() -> None:
    scene = Scene(acl(Operation.READ))
    assert scene.may(Operation.READ)
    assert not scene.may(Operation.WRITE)
    assert not scene.may(Operation.READ, (ResourceType.TOPIC, "orders-2"))
    assert not scene.may(Operation.READ, (ResourceType.GROUP, "orders"))
    assert not scene.may(Operation.READ, request=of("User:bob"))


def test_a_prefix_a_wildcard_and_every_principal() -> None:
    scene = Scene(
        acl(Operation.READ, "ord", prefixed=True),
        acl(Operation.WRITE, "*"),
        acl(Operation.DELETE, principal="User:*"),
    )
    assert scene.may(Operation.READ)
    assert not scene.may(Operation.READ, (ResourceType.TOPIC, "or"))
    assert scene.may(Operation.WRITE, (ResourceType.TOPIC, "anything"))
    assert scene.may(Operation.DELETE, request=of("User:bob"))
    # Of every type of principal, as in Kafka.
    assert scene.may(Operation.DELETE, request=of("Robot:c"))


def test_a_prefix_that_is_a_star_is_only_that() -> None:
    scene = Scene(acl(Operation.READ, "*", prefixed=True))
    assert not scene.may(Operation.READ)
    assert scene.may(Operation.READ, (ResourceType.TOPIC, "*x"))


def test_a_denial_wins_however_it_is_written() -> None:
    allowed = acl(Operation.ALL, "*", principal="User:*")
    for denied in (
        acl(Operation.READ, deny=True),
        acl(Operation.ALL, "o", deny=True, prefixed=True),
        acl(Operation.READ, "*", deny=True, principal="User:*", host="10.0.0.1"),
    ):
        scene = Scene(allowed, denied)
        assert not scene.may(Operation.READ)
        assert scene.may(Operation.READ, (ResourceType.GROUP, "g")) is False
        assert Scene(allowed).may(Operation.READ)


def test_what_implies_description_and_what_does_not() -> None:
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL):
        assert Scene(acl(operation)).may(Operation.DESCRIBE)
        # A denial implies nothing.
        assert Scene(acl(Operation.DESCRIBE), acl(operation, deny=True)).may(Operation.DESCRIBE) is (
            operation is not Operation.ALL
        )
    assert Scene(acl(Operation.ALTER_CONFIGS)).may(Operation.DESCRIBE_CONFIGS)
    assert not Scene(acl(Operation.ALTER_CONFIGS)).may(Operation.DESCRIBE)
    assert not Scene(acl(Operation.DESCRIBE_CONFIGS)).may(Operation.ALTER_CONFIGS)


def test_hosts() -> None:
    scene = Scene(acl(Operation.READ, host="10.0.0.1"), acl(Operation.WRITE, host="0:0:0:0:0:0:0:1"))
    assert scene.may(Operation.READ)
    assert not scene.may(Operation.READ, request=of(peer="10.0.0.2:5000"))
    assert scene.may(Operation.WRITE, request=of(peer="[::1]:5000"))


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("127.0.0.1:9", "127.0.0.1"),
        ("[::1]:9", "0:0:0:0:0:0:0:1"),
        ("[2001:db8::a0]:9", "2001:db8:0:0:0:0:0:a0"),
        ("[::ffff:10.1.2.3]:9", "10.1.2.3"),
        ("[fe80::1%eth0]:9", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_a_host_is_written_as_java_writes_it(peer: str, host: str) -> None:
    assert RequestContext(1, "PLAINTEXT", peer).address == host


def test_a_super_user_may_do_what_is_denied_and_while_nothing_is_known() -> None:
    scene = Scene(acl(Operation.ALL, "*", deny=True, principal="User:*"), super_users=frozenset({ALICE}))
    assert scene.may(Operation.READ)
    assert not scene.may(Operation.READ, request=of("User:bob"))
    scene.authorizer.metadata_updated(update(knows_acls=False))
    assert scene.may(Operation.READ)


def test_what_falls_under_no_acl() -> None:
    scene = Scene(acl(Operation.READ, principal="User:bob"), allows_without_acls=True)
    assert scene.may(Operation.WRITE, (ResourceType.TOPIC, "other"))
    # There is one for this topic, though for another principal.
    assert not scene.may(Operation.READ)


def test_without_knowledge_of_all_acls_nothing_is_allowed() -> None:
    """The controller can't read one of them: it may be a denial."""
    scene = Scene(acl(Operation.READ), allows_without_acls=True)
    assert scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(full=False, knows_acls=False))
    assert not scene.may(Operation.READ)
    assert not scene.may(Operation.READ, (ResourceType.TOPIC, "other"))
    assert not scene.may_any(Operation.READ)
    scene.authorizer.metadata_updated(update(full=False))
    assert scene.may(Operation.READ)


def test_before_the_first_image_nothing_is_allowed() -> None:
    authorizer = Authorizer(AuthorizerConfig(True, allows_without_acls=True), Scene().audit)
    assert not authorizer.authorize(of(), Operation.READ, TOPIC)


def test_changes_replace_what_was_decided() -> None:
    scene = Scene()
    allowed, denied = acl(Operation.READ), acl(Operation.READ, "ord", deny=True, prefixed=True)
    assert not scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(allowed, full=False))
    assert scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(denied, full=False))
    assert not scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(full=False, removed=(denied,)))
    assert scene.may(Operation.READ)
    scene.authorizer.metadata_updated(update(denied))
    assert not scene.may(Operation.READ)
    assert list(scene.authorizer.acls) == [denied]


def test_an_update_about_something_else_keeps_the_decisions() -> None:
    scene = Scene(acl(Operation.READ))
    assert scene.may(Operation.READ)
    kept = scene.authorizer._decisions.copy()
    scene.authorizer.metadata_updated(update(full=False))
    scene.authorizer.metadata_updated(update(acl(Operation.READ)))
    assert scene.authorizer._decisions == kept


def test_the_memory_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 10)
    scene = Scene(acl(Operation.READ, "t", prefixed=True))
    for number in range(35):
        assert scene.may(Operation.READ, (ResourceType.TOPIC, f"t{number}"))
        assert len(scene.authorizer._decisions) <= 10
    scene.authorizer._decisions.clear()
    assert not scene.may(Operation.READ, (ResourceType.GROUP, "g" * 10_000))
    assert not scene.authorizer._decisions


def test_a_right_to_any_resource_of_a_type() -> None:
    """KIP-679."""
    assert not Scene().may_any(Operation.WRITE)
    assert Scene(allows_without_acls=True).may_any(Operation.WRITE)
    write, read = Operation.WRITE, Operation.READ
    assert Scene(acl(write)).may_any(write)
    assert not Scene(acl(read)).may_any(write)
    assert Scene(acl(write, "*")).may_any(write)
    assert not Scene(acl(write), acl(write, "*", deny=True)).may_any(write)
    assert not Scene(acl(write), acl(write, deny=True)).may_any(write)
    assert not Scene(acl(write), acl(write, "ord", deny=True, prefixed=True)).may_any(write)
    assert not Scene(acl(write, "ords", prefixed=True), acl(write, "ord", deny=True, prefixed=True)).may_any(write)
    # A literal denial leaves the rest of the prefix.
    assert Scene(acl(write, "orders", prefixed=True), acl(write, deny=True)).may_any(write)
    assert not Scene(acl(write, principal="User:bob")).may_any(write)
    assert not Scene(acl(write, host="10.0.0.2")).may_any(write)


def test_authorized_operations_are_bits() -> None:
    """KIP-430: the bit of an operation is its number."""
    scene = Scene(acl(Operation.READ), acl(Operation.DESCRIBE, "kafka-cluster", resource_type=ResourceType.CLUSTER))
    assert scene.authorizer.authorized_operations(of(), TOPIC) == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert scene.authorizer.describable_operations(of(), CLUSTER) == 1 << Operation.DESCRIBE
    assert scene.authorizer.describable_operations(of("User:bob"), CLUSTER) == 0


def test_a_denial_is_recorded_with_who_from_where_what_and_for_which_request() -> None:
    scene = Scene()
    assert not scene.may(Operation.WRITE)
    (line,) = scene.turn.outputs.logs
    assert line.event == "authorization denied"
    assert (
        line.fields.items()
        >= {
            "verdict": "denied",
            "principal": ALICE,
            "peer": "10.0.0.1:5000",
            "operation": "WRITE",
            "resource_type": "TOPIC",
            "resource": "orders",
            "request": "PRODUCE",
            "client_id": "client",
        }.items()
    )


def test_what_is_only_asked_for_a_list_is_no_attempt() -> None:
    scene = Scene()
    assert not scene.authorizer.authorize(of(), Operation.DESCRIBE, TOPIC, log_denied=False)
    scene.authorizer.authorized_operations(of(), TOPIC)
    assert not scene.turn.outputs.logs
    assert not list(scene.audit.samples())


def test_records_of_denials_are_bounded_and_all_are_counted() -> None:
    scene = Scene()
    for _ in range(RECORDS_PER_SECOND_MAX + 50):
        scene.may(Operation.WRITE)
    assert len(scene.turn.outputs.logs) == RECORDS_PER_SECOND_MAX
    scene.clock.now_ms += 1000
    scene.may(Operation.READ)
    assert scene.turn.outputs.logs[-1].fields["left_out"] == 50
    by_labels = {sample.labels: sample.value for sample in scene.audit.samples()}
    assert by_labels == {("TOPIC", "WRITE"): RECORDS_PER_SECOND_MAX + 50, ("TOPIC", "READ"): 1}
