"""Messages of thousands of partitions are packed and scanned a few at a time; `tests/property` has all their forms."""

from __future__ import annotations

import pytest

from barnabas.channel.generated.packing import MalformedMessage, pack_park_request, pack_read_request
from barnabas.channel.messages import (
    FetchCondition,
    ParkFetch,
    ParkProduce,
    ParkRequest,
    ProduceCondition,
    Read,
    ReadPartition,
    ReadRequest,
)
from barnabas.channel.packing_in_steps import (
    ELEMENTS_AT_ONCE,
    is_long_park_request,
    is_long_read_request,
    pack_park_request_in_steps,
    pack_read_request_in_steps,
    scan_park_request_in_steps,
    scan_read_request_in_steps,
)
from barnabas.wire.primitives import Steps

TOPIC = b"t" * 16
MANY = 10_000
STEPS_MAX = 500
"""Of one piece, whose elements may take fewer bytes than usual."""


def run(steps: Steps[object]) -> tuple[object, list[int]]:
    """Return the result, and what each step cost."""
    costs = []
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as end:
            return end.value, costs


def read(partitions: int) -> Read:
    return Read(7, 1 << 20, 1, [ReadPartition(TOPIC, each, 5, each, 1 << 20) for each in range(partitions)], "r", True)


def fetch(partitions: int) -> ParkFetch:
    return ParkFetch(7, 500, 1, [FetchCondition(TOPIC, each, 1, 5, each, 0, 0) for each in range(partitions)])


def produce(partitions: int) -> ParkProduce:
    return ParkProduce(8, 500, [ProduceCondition(TOPIC, each, 1, 5, each) for each in range(partitions)])


def test_reads_of_many_partitions() -> None:
    request = ReadRequest(reads=[read(3), read(MANY), read(0), read(MANY)], cancels=[1, 2])
    packed, costs = run(pack_read_request_in_steps(request))
    assert packed == pack_read_request(request)
    assert max(costs) <= ELEMENTS_AT_ONCE
    assert isinstance(packed, bytes)
    scanned, costs = run(scan_read_request_in_steps(packed))
    assert scanned == request
    assert max(costs) <= STEPS_MAX
    assert sum(costs) >= 2 * MANY


def test_parks_of_many_partitions() -> None:
    request = ParkRequest(fetches=[fetch(MANY), fetch(2)], produces=[produce(2), produce(MANY)], cancels=[3])
    packed, costs = run(pack_park_request_in_steps(request))
    assert packed == pack_park_request(request)
    assert max(costs) <= ELEMENTS_AT_ONCE
    assert isinstance(packed, bytes)
    scanned, costs = run(scan_park_request_in_steps(packed))
    assert scanned == request
    assert max(costs) <= STEPS_MAX
    assert sum(costs) >= 2 * MANY


@pytest.mark.parametrize("partitions", [ELEMENTS_AT_ONCE, ELEMENTS_AT_ONCE + 1])
def test_a_request_is_long_for_one_of_its_parts(partitions: int) -> None:
    is_long = partitions > ELEMENTS_AT_ONCE
    assert is_long_read_request(ReadRequest(reads=[read(1), read(partitions)])) == is_long
    assert is_long_park_request(ParkRequest(fetches=[fetch(1), fetch(partitions)])) == is_long
    assert is_long_park_request(ParkRequest(produces=[produce(1), produce(partitions)])) == is_long


def test_what_ends_too_early_is_malformed() -> None:
    reads = pack_read_request(ReadRequest(reads=[read(MANY)]))
    parks = pack_park_request(ParkRequest(fetches=[fetch(MANY)], produces=[produce(MANY)]))
    for missing in (1, 100, 200_000):
        with pytest.raises(MalformedMessage):
            run(scan_read_request_in_steps(reads[:-missing]))
        with pytest.raises(MalformedMessage):
            run(scan_park_request_in_steps(parks[:-missing]))
