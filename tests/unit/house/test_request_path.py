"""How many files four requests pass, and the spine of docs/architecture.md, which names them in order.

What is counted, and what is not, is said at `RequestPath`. The numbers may fall, and then these constants follow.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

import pytest

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.coordinator.transactions.transaction import TransactionState
from tests.compiled import COUNTS, interpreted_only
from tests.unit.docs.test_architecture_names import ROOT, in_full
from tests.unit.house.coordinated_requests import CoordinatingCluster
from tests.unit.house.request_path import Cluster, RequestPath

pytestmark = interpreted_only(COUNTS)


class Bound(NamedTuple):
    handing_on: int
    """So many files are to be read to follow a request from its bytes to its answer."""
    files: int
    """With those that are only asked something. The goal of a produce and of a fetch is 25."""
    of_gateway: int
    """Of the gateway's core, with all that runs in every turn. One of them creates the turn's outputs: a generated
    constructor has no file, and would not be counted.
    """


MAXIMA: Final = {
    "produce": Bound(13, 25, 14),
    "fetch": Bound(13, 25, 18),
    "commit of a group": Bound(25, 43, 16),
    "commit of a transaction": Bound(26, 47, 15),
}
_ASK: Final = {
    "produce": (Cluster, "produce"),
    "fetch": (Cluster, "fetch"),
    "commit of a group": (CoordinatingCluster, "commit_offset"),
    "commit of a transaction": (CoordinatingCluster, "end_transaction"),
}
"""By whom it is asked, and by which method."""
_MENTION = re.compile(r"`([\w./]+\.py):([\w.]+)`")

requests = pytest.mark.parametrize("request_name", MAXIMA)


@cache
def path_of(request_name: str) -> RequestPath:
    create_cluster, method = _ASK[request_name]
    cluster = create_cluster()
    return RequestPath(cluster, getattr(cluster, method))


def spine_of(request_name: str) -> list[tuple[str, str]]:
    """(file, function) of each mention in the request's list, in order."""
    text = in_full((ROOT / "docs/architecture.md").read_text())
    _, _, rest = text.partition(f"**A {request_name}.**")
    return _MENTION.findall(rest.partition("\n\n")[2].partition("\n\n")[0])


def error_codes(request_name: str, response: Any) -> list[int]:
    """Of the one partition, or of the whole."""
    match request_name:
        case "produce":
            return [each.error_code for each in response.responses[0].partition_responses]
        case "fetch":
            return [each.error_code for each in response.responses[0].partitions]
        case "commit of a group":
            return [each.error_code for each in response.topics[0].partitions]
        case _:
            return [response.error_code]


@requests
def test_the_request_is_served(request_name: str) -> None:
    response = path_of(request_name).response
    assert error_codes(request_name, response) == [ErrorCode.NONE]
    if request_name == "fetch":
        assert len(response.responses[0].partitions[0].records) > 0


def test_a_commit_of_a_transaction_is_followed_to_its_end() -> None:
    """Its markers are written, and then that they are: the partition's records are stable, and the id is at rest."""
    cluster = CoordinatingCluster()
    cluster.prepare()
    partition, (coordinated,) = cluster.partition, cluster.logstore.core.transactions.partitions
    assert partition.last_stable_offset < partition.high_watermark
    cluster.end_transaction()
    assert partition.last_stable_offset == partition.high_watermark
    (transaction,) = coordinated.shard.transactions.values()
    assert transaction.state is TransactionState.COMPLETE_COMMIT


@requests
def test_few_files_hand_a_request_on(request_name: str) -> None:
    files = path_of(request_name).files_handing_on
    assert len(files) <= MAXIMA[request_name].handing_on, files


@requests
def test_no_more_files_run_for_a_request(request_name: str) -> None:
    files = path_of(request_name).files
    assert len(files) <= MAXIMA[request_name].files, files


@requests
def test_what_has_nothing_to_do_is_not_called(request_name: str) -> None:
    files = [each for each in path_of(request_name).files_of_any_function if each.startswith("services/gateway/")]
    assert len(files) <= MAXIMA[request_name].of_gateway, files


@requests
def test_the_spine_is_in_the_order_of_the_calls(request_name: str) -> None:
    called = [(each.path, each.name) for each in path_of(request_name).functions]
    spine = spine_of(request_name)
    assert [each for each in spine if each not in called] == []
    assert spine == sorted(spine, key=called.index)


@requests
def test_the_spine_names_each_file_that_hands_a_request_on(request_name: str) -> None:
    """Or one above it does, to which it refers."""
    requests_so_far = list(MAXIMA)[: list(MAXIMA).index(request_name) + 1]
    named = {path for name in requests_so_far for path, _ in spine_of(name)}
    assert [each for each in path_of(request_name).files_handing_on if each not in named] == []
