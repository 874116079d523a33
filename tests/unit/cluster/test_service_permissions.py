"""The table of callers names every method of every service, and nothing else."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health_pb2

import barnabas_protos
from barnabas.cluster.access.service_permissions import CALLERS_BY_METHOD, HEALTH_METHODS, may_call, role_that_serves
from barnabas.cluster.keys import Role

OPERATORS = "/barnabas.controller.v1.Operations/"


def declared() -> set[str]:
    """Return the path of every method that a .proto of Barnabas declares."""
    methods = set()
    for module in pkgutil.walk_packages(barnabas_protos.__path__, "barnabas_protos."):
        if not module.name.endswith("_pb2") or ".etcd." in module.name:
            continue
        file: FileDescriptor = importlib.import_module(module.name).DESCRIPTOR
        for service in file.services_by_name.values():
            methods |= {f"/{service.full_name}/{method}" for method in service.methods_by_name}
    return methods


def test_the_table_names_every_method_but_those_for_operators() -> None:
    methods = declared()
    operators = {method for method in methods if method.startswith(OPERATORS)}
    assert len(operators) > 20
    assert set(CALLERS_BY_METHOD) == methods - operators


@pytest.mark.parametrize("role", Role)
def test_no_role_may_call_what_the_table_does_not_grant_it(role: Role) -> None:
    granted = {method for method in declared() if may_call({role}, method)}
    assert granted == {method for method, callers in CALLERS_BY_METHOD.items() if role in callers}


def test_a_caller_without_a_role_may_ask_for_health_alone() -> None:
    assert not [method for method in declared() if may_call((), method)]
    health = health_pb2.DESCRIPTOR.services_by_name["Health"]
    assert {f"/{health.full_name}/{method}" for method in health.methods_by_name} == HEALTH_METHODS
    assert all(may_call((), method) for method in HEALTH_METHODS)
    assert not may_call(list(Role), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")


def test_roles_add_up() -> None:
    park, replicate = "/barnabas.purgatory.v1.Purgatory/Park", "/barnabas.logstore.v1.Replication/Replicate"
    both = {Role.GATEWAY, Role.LOGSTORE}
    assert may_call(both, park)
    assert may_call(both, replicate)
    assert not may_call({Role.PURGATORY}, replicate)


def test_a_method_is_served_by_the_role_of_its_package() -> None:
    assert {role_that_serves(method) for method in CALLERS_BY_METHOD} == {
        Role.CONTROLLER,
        Role.LOGSTORE,
        Role.PURGATORY,
    }
    assert role_that_serves("/etcdserverpb.KV/Range") is None
    assert role_that_serves("/barnabas.nobody.v1.X/Y") is None
