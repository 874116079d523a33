"""Where replicas of new partitions go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas_controller.core.replica_spread import ReplicaSpread


def placed(racks: dict[int, str], partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
    spread = ReplicaSpread(racks)
    return [spread.place(replication_factor) for _ in range(partitions)]


def test_leaders_and_replicas_are_spread_evenly() -> None:
    replicas = placed({1: "", 2: "", 3: ""}, 9, 2)
    assert set(Counter(each[0] for each in replicas).values()) == {3}
    assert set(Counter(node_id for each in replicas for node_id in each).values()) == {6}


def test_replicas_are_in_as_many_racks_as_there_are() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    for replicas in placed(racks, 20, 3):
        assert {racks[node_id] for node_id in replicas} == {"a", "b", "c"}


def test_what_is_there_already_counts() -> None:
    spread = ReplicaSpread({1: "", 2: ""})
    for _ in range(3):
        spread.count((1, 7))
    assert [spread.place(1) for _ in range(3)] == [(2,), (2,), (2,)]


@given(
    racks=st.dictionaries(st.integers(0, 9), st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=8),
    partitions=st.integers(1, 30),
    data=st.data(),
)
def test_replicas_are_always_distinct_and_leaders_differ_by_one_at_most(
    racks: dict[int, str], partitions: int, data: st.DataObject
) -> None:
    replication_factor = data.draw(st.integers(1, len(racks)))
    replicas = placed(racks, partitions, replication_factor)
    assert all(len(set(each)) == replication_factor and set(each) <= set(racks) for each in replicas)
    leaders = Counter(dict.fromkeys(racks, 0))
    leaders.update(each[0] for each in replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 1
