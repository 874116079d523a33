"""Obligations of groups when all processes are alive and nothing is cut: one generation with all live members, an owner
for every partition, everything read and committed; then nothing happens any more, and no member is left when they
leave.

Where a transaction hangs (`Transactions.readable_end`), who reads only what is committed stops there, and a group whose
offsets are in it does not get them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_logstore.core.coordinator.groups.group import GroupState
from tests.sim.groups.shape import GroupShape
from tests.sim.scheduler import MS, SECOND, InvariantViolation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

SETTLE_US_MAX = 90 * SECOND
"""At the first pace: members that commit every 50 s, and loops whose output others read, take longer."""
LOOK_US = 100 * MS


class LastActOfGroups:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups = cluster.groups

    def play(self) -> None:
        cluster, groups = self._cluster, self._groups
        if not groups.shapes:
            return
        groups.administrator.is_stopping = True
        cluster.wait_until(lambda: not groups.administrator.unanswered, "the administrator of groups is answered")
        for member in (*groups.members, *groups.twins):
            member.is_settled = True
        self._wait_until_it_is_settled()
        self._check_that_nothing_happens()
        for member in (*groups.members, *groups.twins):
            member.is_stopping = True
            member.kill()

    def _wait_until_it_is_settled(self) -> None:
        settle_us_max = SETTLE_US_MAX * self._cluster.shape.pace
        for _ in range(settle_us_max // LOOK_US):
            if not self._what_is_amiss():
                return
            self._cluster.run_for(LOOK_US)
        raise InvariantViolation(f"liveness: not within {settle_us_max // SECOND} s: {self._what_is_amiss()}")

    def _what_is_amiss(self) -> str:
        return next(filter(None, map(self._what_is_amiss_with, self._groups.shapes)), "")

    def _what_is_amiss_with(self, shape: GroupShape) -> str:
        name, living = shape.group_id, self._groups.members_of(shape)
        resting = [each.name for each in self._groups.members if each.group is shape and not each.is_there]
        if resting:
            return f"{resting} are back in {name}"
        known = self._groups.coordinated(name)
        if known is None or known.state is not GroupState.STABLE:
            return f"{name} is stable: {known and known.state}"
        if set(known.members) != {each.member_id for each in living}:
            return f"{name} has those who live: {list(known.members)}, {[each.member_id for each in living]}"
        if self._are_offsets_undecided(shape):
            return ""
        for member in living:
            if member.generation_id != known.generation_id or not member.has_its_share:
                return f"{member.name} has its share of generation {known.generation_id}"
        owned = sorted(each for member in living for each in member.wanted)
        counts = self._cluster.shape.partition_counts if shape.topics is None else shape.topics
        if owned != sorted((topic, each) for topic, count in counts.items() for each in range(count)):
            return f"every partition of {name} has one owner: {owned}"
        for member in living:
            if self._cluster.transactions.is_given_up(member.name):
                continue
            for topic, partition in member.wanted:
                topic_id = self._cluster.promises.elections.ids_of(topic)[-1]
                end = self._cluster.promises.of((topic_id, partition)).book.end
                if member.taste.isolation_level:
                    end = self._cluster.transactions.readable_end((topic_id, partition), end)
                if member.committed.get((topic, partition)) != end:
                    return f"{name} has read {topic}-{partition} up to {end}: {member.committed}"
        return ""

    def _are_offsets_undecided(self, shape: GroupShape) -> bool:
        """Whether they may be in a transaction that hangs; it matters to members that commit theirs in transactions."""
        if shape is not self._cluster.transactions.shape.loop:
            return False
        key = self._groups.offsets_key_of(shape.group_id)
        end = self._cluster.promises.of(key).book.end
        return self._cluster.transactions.readable_end(key, end) < end

    def _check_that_nothing_happens(self) -> None:
        """For a session: every member that is heard of stays, and there is no reason to rebalance."""
        before = self._generations()
        self._cluster.run_for(max(shape.session_ms for shape in self._groups.shapes) * MS + SECOND)
        if before != self._generations() or self._what_is_amiss():
            raise InvariantViolation(
                f"liveness: groups go from {before} to {self._generations()} by themselves: {self._what_is_amiss()}"
            )

    def _generations(self) -> dict[str, int]:
        known = {shape.group_id: self._groups.coordinated(shape.group_id) for shape in self._groups.shapes}
        return {name: -1 if group is None else group.generation_id for name, group in known.items()}

    def check_that_nothing_is_left(self) -> None:
        """Members have been gone for longer than their sessions."""
        for shape in self._groups.shapes:
            known = self._groups.coordinated(shape.group_id)
            if known is not None and (known.state is not GroupState.EMPTY or known.members or known.pending_joins):
                raise InvariantViolation(f"{shape.group_id} has members still: {known.state}, {list(known.members)}")
        for pod in self._cluster.purgatories:
            assert pod.core is not None
            if pod.core.watched_groups:
                raise InvariantViolation(f"{pod.name} still watches {pod.core.watched_groups} groups")
        for node in self._cluster.logstores:
            assert node.core is not None
            coordination = node.core._coordination
            if len(coordination.group_watches) or len(coordination._inbox):
                raise InvariantViolation(
                    f"{node.name} is watched for {len(coordination.group_watches)} groups, and holds "
                    f"{len(coordination._inbox)} calls"
                )
