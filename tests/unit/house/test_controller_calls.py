"""One row per call to the active controller, and few files that name its types."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from typing import Final, get_args

import pytest

from barnabas.cluster.controller_calls.method import ControllerMethod
from barnabas.cluster.controller_calls.table import (
    CONTROLLER_CALLS,
    ClusterRequest,
    ClusterResponse,
    LogstoreRequest,
    MembershipRequest,
    MembershipResponse,
    method_of,
)
from barnabas.wire.errors import ErrorCode
from barnabas_protos.controller.v1 import membership_pb2
from tests.test_house import ROOT, sources
from tests.unit.runtime.test_protobuf import sample

SERVED_BY_SHELLS: Final = {"Subscribe", "ReportHealth", "RecordOperatorCalls"}
"""Methods that the core does not answer: a stream, and reports that are taken at once."""
FILES_OF_A_CALL_MAX: Final = 6
"""Its proto, its dataclasses, its row, the controller's decision and what decides, and the handler of the API key."""
ASKERS: Final = {
    "cli/barnabas_cli/": "a client without an event loop, and Kafka's own AlterScramCredentials",
    "services/controller/barnabas_controller/shell/operations/": "operators ask for the same changes",
    "services/gateway/barnabas_gateway/core/": "handlers, and gateways that ask for topics and ids of producers",
    "services/gateway/barnabas_gateway/shell/quota_sharing.py": "gateways ask for shares of quotas",
    "services/logstore/": "logstores ask for themselves",
}
"""Code that makes a request names its type. A new call needs one such file: the handler of the API key."""
TABLES: Final = {
    "barnabas/cluster/controller_calls/table.py": "the rows",
    "barnabas/cluster/messages.py": "the dataclasses",
    "services/controller/barnabas_controller/core/requests/request_decisions.py": "what is decided by which function",
}
CALLS_IN_ANOTHER_FILE_MAX: Final = 3

calls = pytest.mark.parametrize("method", CONTROLLER_CALLS, ids=lambda method: method.name)
Method = ControllerMethod[object, object]


@cache
def files_by_call() -> dict[str, list[str]]:
    """Return the production files that name the types of each call, its gRPC method or its messages."""
    found: dict[str, list[str]] = {method.name: [] for method in CONTROLLER_CALLS}
    for path in sources("barnabas", "cli", "services"):
        if not path.startswith("barnabas/wire/"):
            for name in _calls_named_in((ROOT / path).read_text(), path):
                found[name].append(path)
    return found


def _calls_named_in(source: str, path: str) -> set[str]:
    """Types of Kafka's protocol have the same names: an import counts by its module."""
    named = set()
    nodes = list(ast.walk(ast.parse(source)))
    imported = {(each.module, alias.name) for each in nodes if isinstance(each, ast.ImportFrom) for alias in each.names}
    attributes = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    texts = {each.value for each in nodes if isinstance(each, ast.Constant)}
    classes = {each.name for each in nodes if isinstance(each, ast.ClassDef)}
    for method in CONTROLLER_CALLS:
        kinds = {method.request.__name__, method.response.__name__}
        module = method.request.__module__
        is_defined_here = module == path.removesuffix(".py").replace("/", ".") and kinds <= classes
        is_imported = not imported.isdisjoint({(module, kind) for kind in kinds})
        if is_defined_here or is_imported or kinds & attributes or method.name in attributes | texts:
            named.add(method.name)
    return named


def test_every_method_that_a_core_answers_has_its_row() -> None:
    declared = membership_pb2.DESCRIPTOR.services_by_name["Membership"].methods_by_name
    assert {method.name for method in CONTROLLER_CALLS} == set(declared) - SERVED_BY_SHELLS
    for method in CONTROLLER_CALLS:
        types = (declared[method.name].input_type.name, declared[method.name].output_type.name)
        assert types == (method.request.__name__, method.response.__name__)


def test_the_unions_are_the_rows_in_their_order() -> None:
    requests = [method.request for method in CONTROLLER_CALLS]
    responses = [method.response for method in CONTROLLER_CALLS]
    assert list(get_args(MembershipRequest)) == requests
    assert list(get_args(MembershipResponse)) == responses
    assert list(get_args(ClusterResponse)) == responses[: len(get_args(ClusterRequest))]
    assert requests.index(get_args(LogstoreRequest)[0]) == len(get_args(ClusterRequest))


@calls
def test_what_was_not_done_has_timed_out_for_each_element(method: Method) -> None:
    """Those of quotas alone have no error: what is not granted is not."""
    request = sample(method.request)
    assert method_of(request) is method
    answer = method.not_done(request, "too late")
    assert type(answer) is method.response
    assert getattr(answer, "revision", -1) == -1
    results = getattr(answer, "results", [answer])
    if method.name != "ShareQuotas":
        assert {each.error_code for each in results} == {ErrorCode.REQUEST_TIMED_OUT}
        assert {getattr(each, "error_message", "too late") for each in results} <= {"too late", ""}


@calls
def test_a_call_has_a_timeout_of_its_request_or_of_its_row(method: Method) -> None:
    has_own = hasattr(method.request, "timeout_ms")
    assert has_own == (method.timeout_ms == 0)
    assert method.timeout_of(sample(method.request, number=7)) == (7 if has_own else method.timeout_ms)


@calls
def test_what_is_only_validated_is_no_change(method: Method) -> None:
    request = sample(method.request)
    response = sample(method.response)
    if hasattr(request, "validate_only"):
        assert list(method.changes_asked_for(request)) == list(method.changes(request, response)) == []


@calls
def test_few_files_are_written_for_a_call(method: Method) -> None:
    """Beside its proto and the file that makes the request."""
    files = [path for path in files_by_call()[method.name] if not path.startswith(tuple(ASKERS))]
    assert len(files) <= FILES_OF_A_CALL_MAX - 2, files


def test_a_new_call_is_written_in_six_files() -> None:
    """UpdateFeatures, for which its handler alone asks, was written in 13."""
    files = ["protos/barnabas_protos/controller/v1/membership.proto", *files_by_call()["UpdateFeatures"]]
    assert len(files) == FILES_OF_A_CALL_MAX, files


def test_no_other_file_has_a_table_of_the_calls() -> None:
    named = Counter(path for paths in files_by_call().values() for path in paths)
    assert {path for path, count in named.items() if count > CALLS_IN_ANOTHER_FILE_MAX} == set(TABLES)
