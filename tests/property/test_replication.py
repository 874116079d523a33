"""Whatever chance does to three replicas: nothing committed is lost, and in the end they are one log.

And the proof that this would be noticed: what others have got wrong is got wrong here on purpose (KIP-101, KIP-279,
KIP-320, KIP-497, KAFKA-7128), and some run out of a few hundred falls over it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.messages import ReplicaData
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.replica.in_sync_replicas import InSyncReplicas
from barnabas_logstore.core.replica.partition import Partition
from barnabas_logstore.core.replication.fetcher import Fetcher, FollowedPartition
from barnabas_logstore.core.replication.following import Following
from barnabas_logstore.core.replication.leading import FollowedSlot, Leading
from tests.compiled import interpreted_only
from tests.property.replicated_trio import run
from tests.tiers import Cost, examples

pytestmark = interpreted_only("gives a core a topic's configs by a function of its own")

RUNS_MAX = 150


@examples(Cost.HIGH)
@given(st.integers(0, 2**32))
def test_three_replicas_become_one_log_and_lose_nothing_committed(seed: int) -> None:
    run(seed)


# --- mutants ---

Patch = Callable[[pytest.MonkeyPatch], None]


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: the watermark of a follower is behind, and what it cuts may be committed."""
    original = Following.follow

    def follow(self: Following, partition: Partition) -> None:
        original(self, partition)
        leader_id = self._leader_of.get(partition.key)
        if leader_id is None or not partition.log.is_idle:
            return
        fetcher = self._fetchers[leader_id]
        followed = fetcher.of(partition.key)
        assert followed is not None
        if partition.high_watermark < partition.log.log_end_offset:
            self._begin_cut(fetcher, followed, partition.high_watermark, truncate_fully=False)

    patch.setattr(Following, "follow", follow)


def never_parts(patch: pytest.MonkeyPatch) -> None:
    """A leader that does not look at epochs."""
    original = Leading._problem

    def problem(self: Leading, partition: Partition, followed: FollowedSlot, replica_id: int) -> Any:
        found = original(self, partition, followed, replica_id)
        is_behind = followed.position.fetch_offset <= partition.log.log_end_offset
        return None if isinstance(found, ReplicaData) and is_behind else found

    patch.setattr(Leading, "_problem", problem)


def cuts_once_and_for_all(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: the leader's end of an epoch that the follower does not know is no place where the logs agree."""
    original = Leading._problem

    def problem(self: Leading, partition: Partition, followed: FollowedSlot, replica_id: int) -> Any:
        known = _agreed.setdefault((id(self), followed.key, followed.position.current_leader_epoch), 0)
        found = original(self, partition, followed, replica_id)
        if isinstance(found, ReplicaData) and known:
            return None
        if isinstance(found, ReplicaData):
            _agreed[id(self), followed.key, followed.position.current_leader_epoch] = 1
        return found

    _agreed: dict[object, int] = {}
    take = Following._take

    def cut_at_leaders_end(self: Following, fetcher: Fetcher, followed: FollowedPartition, data: ReplicaData) -> None:
        log = followed.partition.log
        if not data.error_code and 0 <= data.diverging_end_offset < log.log_end_offset:
            self._begin_cut(fetcher, followed, data.diverging_end_offset, truncate_fully=False)
        else:
            take(self, fetcher, followed, data)

    patch.setattr(Leading, "_problem", problem)
    patch.setattr(Following, "_take", cut_at_leaders_end)


def old_epochs_may_fetch(patch: pytest.MonkeyPatch) -> None:
    """KIP-320: a follower of another epoch votes for a watermark that is not its leader's."""
    original = Partition.check_leader_epoch

    def check(self: Partition, current_leader_epoch: int) -> ErrorCode:
        return original(self, -1)

    patch.setattr(Partition, "check_leader_epoch", check)


def shrinks_at_once(patch: pytest.MonkeyPatch) -> None:
    """KIP-497: a member that is about to leave the ISR may be elected until the controller has committed that."""

    def maximal(self: InSyncReplicas) -> tuple[int, ...]:
        return self.committed if self.pending is None else self.pending.members

    patch.setattr(InSyncReplicas, "_find_maximal", maximal)


def joins_when_committed(patch: pytest.MonkeyPatch) -> None:
    """KIP-497: the controller may have committed an expansion of which the leader has not heard."""
    patch.setattr(InSyncReplicas, "_find_maximal", lambda self: self.committed)
    original = Partition.advance_high_watermark

    def advance(self: Partition, lag_ms_max: int, now_ms: int) -> bool:
        return original(self, -1, now_ms)

    patch.setattr(Partition, "advance_high_watermark", advance)


def epoch_start_is_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128."""

    def outsiders(self: Partition) -> list[int]:
        return [
            node_id
            for node_id, follower in self.followers.items()
            if follower.may_join
            and follower.log_end_offset >= self.high_watermark
            and node_id not in self.isr.committed
        ]

    patch.setattr(Partition, "caught_up_outsiders", outsiders)


@pytest.mark.parametrize(
    ("mutant", "first_seed"),
    [
        (truncates_to_the_high_watermark, 0),
        (never_parts, 0),
        (cuts_once_and_for_all, 0),
        (old_epochs_may_fetch, 0),
        (shrinks_at_once, 0),
        (joins_when_committed, 370),
        (epoch_start_is_not_asked_for, 940),
    ],
)
def test_what_others_got_wrong_is_noticed(mutant: Patch, first_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first seeds are near the first ones that notice; it would take others a little longer."""
    mutant(monkeypatch)
    for seed in range(first_seed, first_seed + RUNS_MAX):
        try:
            run(seed)
        except AssertionError:
            return
    pytest.fail(f"{RUNS_MAX} runs went well")
