"""How many files a produce and a fetch pass, and the spine of docs/architecture.md, which names them in order.

What is counted, and what is not, is said at `RequestPath`. The numbers may fall, and then these constants follow.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from barnabas.wire.errors import ErrorCode
from tests.compiled import COUNTS, interpreted_only
from tests.unit.house.request_path import ROOT, Cluster, RequestPath

pytestmark = interpreted_only(COUNTS)

FILES_HANDING_ON_MAX = 13
"""So many files are to be read to follow a request from its bytes to its answer."""
FILES_MAX = 25
"""The goal, with those that are only asked something."""
GATEWAY_FILES_MAX = {"produce": 14, "fetch": 18}
"""Of the gateway's core, with all that runs in every turn. One of them creates the turn's outputs: a generated
constructor has no file, and would not be counted.
"""

_ASK = {"produce": Cluster.produce, "fetch": Cluster.fetch}
_MENTION = re.compile(r"`([\w./]+\.py):([\w.]+)`")

requests = pytest.mark.parametrize("request_name", _ASK)


@cache
def path_of(request_name: str) -> RequestPath:
    return RequestPath(_ASK[request_name])


def spine_of(request_name: str) -> list[tuple[str, str]]:
    """(file, function) of each mention in the request's list, in order."""
    text = (ROOT / "docs/architecture.md").read_text()
    _, _, rest = text.partition(f"**A {request_name}.**")
    return _MENTION.findall(rest.partition("\n\n")[2].partition("\n\n")[0])


@requests
def test_the_request_is_served(request_name: str) -> None:
    response = path_of(request_name).response
    (topic,) = response.responses
    if request_name == "produce":
        assert [each.error_code for each in topic.partition_responses] == [ErrorCode.NONE]
    else:
        assert [each.error_code for each in topic.partitions] == [ErrorCode.NONE]
        assert len(topic.partitions[0].records) > 0


@requests
def test_few_files_hand_a_request_on(request_name: str) -> None:
    files = path_of(request_name).files_handing_on
    assert len(files) <= FILES_HANDING_ON_MAX, files


@requests
def test_no_more_files_run_for_a_request(request_name: str) -> None:
    files = path_of(request_name).files
    assert len(files) <= FILES_MAX, files


@requests
def test_what_has_nothing_to_do_is_not_called(request_name: str) -> None:
    files = [each for each in path_of(request_name).files_of_any_function if each.startswith("services/gateway/")]
    assert len(files) <= GATEWAY_FILES_MAX[request_name], files


@requests
def test_the_spine_is_in_the_order_of_the_calls(request_name: str) -> None:
    called = [(each.path, each.name) for each in path_of(request_name).functions]
    spine = spine_of(request_name)
    assert [each for each in spine if each not in called] == []
    assert spine == sorted(spine, key=called.index)


@requests
def test_the_spine_names_each_file_that_hands_a_request_on(request_name: str) -> None:
    named = {path for path, _ in spine_of(request_name)}
    assert [each for each in path_of(request_name).files_handing_on if each not in named] == []
