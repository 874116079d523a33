"""The groups of one partition of `__consumer_offsets`, by name."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_logstore.core.coordinator.groups.group import Group, Steps


class Groups:
    """`steps` is shared by all partitions, and outlives this one."""

    __slots__ = ("_by_id", "steps")

    def __init__(self, steps: Steps) -> None:
        self._by_id: dict[str, Group] = {}
        self.steps = steps

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def get(self, group_id: str) -> Group | None:
        return self._by_id.get(group_id)

    def get_or_add(self, group_id: str, wall_ms: int) -> Group:
        group = self._by_id.get(group_id)
        if group is None:
            group = self._by_id[group_id] = Group(group_id, wall_ms, self.steps)
        return group

    def put(self, group: Group) -> None:
        """Add a group, replacing one of the same name."""
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._by_id.pop(group_id, None)

    def remove_if_unused(self, group: Group) -> None:
        """Remove a group of which only its name is known."""
        if group.is_unused:
            self.remove(group.group_id)

    def step_of(self, group_id: str) -> int:
        """Return a group's step; for one that does not exist, a step later than any that a call waits for."""
        group = self._by_id.get(group_id)
        return self.steps.count if group is None else group.step
