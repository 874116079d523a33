"""Offsets and groups that have to go: unused for too long, or of deleted topics. Looked at some in each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from barnabas_logstore.core.coordinator.groups.group import Group, GroupState
from barnabas_logstore.core.coordinator.groups.offsets import Offsets
from barnabas_logstore.core.coordinator.groups.registry import Groups
from barnabas_logstore.core.coordinator.runtime.shard import Result

_OFFSETS_PER_STEP: Final = 500
"""Looked at in one step, or those of one group."""
_GROUPS_PER_STEP: Final = 500


class OffsetExpiry:
    """Of one partition, once it is loaded; topics may be deleted before that."""

    def __init__(
        self,
        groups: Groups,
        result: Result,
        offsets: Offsets,
        remove_group: Callable[[Group], None],
    ) -> None:
        """`remove_group` removes an empty group of which nothing is left."""
        self._groups = groups
        self._result = result
        self._offsets = offsets
        self._remove_group = remove_group
        self._to_expire: deque[str] = deque()
        self._to_clean: deque[str] | None = None
        """Groups that may have offsets of `deleted_topics`; None: all may."""
        self.deleted_topics: dict[str, None] = {}

    def begin(self) -> None:
        """Look for offsets that have not been wanted for long, and for groups of which nothing is left then."""
        if not self._to_expire:
            self._to_expire.extend(group.group_id for group in self._groups)

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Remove the offsets of topics that are gone, when that can be written."""
        self.deleted_topics.update(dict.fromkeys(topics))
        self._to_clean = None

    @property
    def has_work(self) -> bool:
        """There is more to look at, and nothing to wait for."""
        return bool(self._to_expire) or bool(self._to_clean)

    def step(self) -> bool:
        """A piece of both; whether nothing is left to do."""
        if self._result.check():
            # What is to go is found the next time as well.
            self._to_expire.clear()
            self._to_clean = None
            return not self.deleted_topics
        if self.deleted_topics and self._to_clean is None:
            self._to_clean = deque(group.group_id for group in self._groups)
        looked_at = 0
        for _ in range(_GROUPS_PER_STEP):
            if looked_at >= _OFFSETS_PER_STEP:
                break
            if self._to_clean:
                looked_at += self._clean(self._to_clean.popleft())
            elif self._to_expire:
                looked_at += self._expire(self._to_expire.popleft())
        if not self._to_clean:
            self.deleted_topics.clear()
        return not self._to_expire and not self._to_clean

    def _clean(self, group_id: str) -> int:
        group = self._groups.get(group_id)
        if group is None:
            return 0
        looked_at = 0
        for topic in [topic for topic in self._offsets.topics_of(group) if topic in self.deleted_topics]:
            looked_at += self._offsets.delete_topic(group, topic)
        self._groups.remove_if_unused(group)
        return looked_at

    def _expire(self, group_id: str) -> int:
        group = self._groups.get(group_id)
        if group is None:
            return 0
        looked_at = self._offsets.expire(group)
        is_left = group.offsets or group.pending_joins or self._offsets.pending.places_of(group_id)
        if group.state is GroupState.EMPTY and not is_left:
            self._remove_group(group)
        return looked_at
