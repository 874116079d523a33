"""Operators' roles: the table names every method of the API, and a role has what the ones before it have."""

from __future__ import annotations

import pytest

from barnabas.cluster.access.operator_permissions import LEAST_ROLE_BY_METHOD, OperatorRole, highest_role, may_operate
from barnabas_protos.controller.v1 import operations_pb2

SERVICE = operations_pb2.DESCRIPTOR.services_by_name["Operations"]
METHODS = {f"/{SERVICE.full_name}/{name}" for name in SERVICE.methods_by_name}
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def test_every_method_has_a_role() -> None:
    assert set(LEAST_ROLE_BY_METHOD) == METHODS | {REFLECTION}


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_changes_something_is_not_for_viewers(method: str) -> None:
    name = method.rpartition("/")[2]
    reads = name.startswith(("Describe", "List", "Watch"))
    assert may_operate(OperatorRole.VIEWER, method) == reads
    assert may_operate(OperatorRole.ADMIN, method)
    assert not may_operate(None, method)


def test_an_operator_moves_and_does_not_delete() -> None:
    service = f"/{SERVICE.full_name}/"
    for name, expected in {"DrainNode": True, "Reassign": True, "DeleteTopic": False, "RemoveNode": False}.items():
        assert may_operate(OperatorRole.OPERATOR, service + name) == expected


def test_a_method_that_the_table_does_not_name_is_refused_to_all() -> None:
    for method in ("/barnabas.controller.v1.Membership/CreateTopics", "/x.Y/Z", ""):
        assert not any(may_operate(role, method) for role in OperatorRole)


def test_the_highest_of_several_roles_counts() -> None:
    names = {OperatorRole.VIEWER: {"viewer", "alice"}, OperatorRole.ADMIN: {"alice"}, OperatorRole.OPERATOR: {"bob"}}
    assert highest_role(["alice"], names) is OperatorRole.ADMIN
    assert highest_role(["x", "bob", "viewer"], names) is OperatorRole.OPERATOR
    assert highest_role(["mallory"], names) is None
    assert highest_role([], names) is None
