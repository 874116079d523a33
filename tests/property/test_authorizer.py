"""The authorizer against the rules as they are said: every ACL is compared with every question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from barnabas_gateway.core.model.acl_index import AclIndex
from tests.unit.gateway.test_authorizer import Scene, of, update

NAMES = st.text("ab-*", min_size=1, max_size=5)
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*", "Robot:a"])
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2", "*"])
OPERATIONS = st.sampled_from(Operation)
TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP])
ACLS = st.builds(
    Acl, TYPES, st.sampled_from(PatternType), NAMES, PRINCIPALS, HOSTS, OPERATIONS, st.sampled_from(PermissionType)
)

IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def covers(acl: Acl, resource_type: ResourceType, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def expected(
    acls: list[Acl], principal: str, host: str, operation: Operation, resource: tuple[ResourceType, str]
) -> bool:
    of_client = [
        acl
        for acl in acls
        if covers(acl, *resource) and acl.principal in (principal, "User:*") and acl.host in (host, "*")
    ]
    for acl in of_client:
        if acl.permission_type == PermissionType.DENY and acl.operation in (operation, Operation.ALL):
            return False
    return any(
        acl.permission_type == PermissionType.ALLOW
        and acl.operation in {operation, Operation.ALL, *IMPLIED.get(operation, ())}
        for acl in of_client
    )


@given(
    st.lists(ACLS, max_size=12),
    st.lists(ACLS, max_size=4),
    st.lists(st.tuples(PRINCIPALS, st.sampled_from(["10.0.0.1", "10.0.0.2"]), OPERATIONS, TYPES, NAMES), min_size=1),
)
def test_every_question_has_the_answer_of_the_rules(
    acls: list[Acl], removed: list[Acl], questions: list[tuple[str, str, Operation, ResourceType, str]]
) -> None:
    scene = Scene(*acls, *removed)
    scene.authorizer.metadata_updated(update(full=False, removed=tuple(removed)))
    left = [acl for acl in acls if acl not in removed]
    # Twice: the second time from memory.
    for principal, host, operation, resource_type, name in questions * 2:
        request = of(principal, f"{host}:5000")
        resource = (resource_type, name)
        assert scene.may(operation, resource, request) is expected(left, principal, host, operation, resource)


@given(st.lists(ACLS, max_size=20), st.lists(ACLS, max_size=20), TYPES, NAMES)
def test_the_index_finds_what_covers_a_name_after_any_changes(
    first: list[Acl], second: list[Acl], resource_type: ResourceType, name: str
) -> None:
    index = AclIndex()
    index.replace_all(first)
    list(index.matching(resource_type, name))
    index.replace_all(second)
    for acl in first[::2]:
        index.add(acl)
    for acl in second[::3]:
        index.remove(acl)
    held = (set(second) | set(first[::2])) - set(second[::3])
    assert set(index) == held
    found = [acl for entries in index.matching(resource_type, name) for acls in entries.values() for acl in acls]
    assert len(found) == len(set(found))
    assert set(found) == {acl for acl in held if covers(acl, resource_type, name)}
