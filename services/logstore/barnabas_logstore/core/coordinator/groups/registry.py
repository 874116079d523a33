"""The groups of one partition of `__consumer_offsets`, by name."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas_logstore.core.coordinator.groups.group import Group, Steps, TopicOffsets
from barnabas_logstore.core.coordinator.groups.records import OffsetCommitValue, offset_key_prefix


class Groups:
    """`steps` is that of all partitions, whatever becomes of this one."""

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
        """In the place of who had its name."""
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._by_id.pop(group_id, None)

    def remove_if_unused(self, group: Group) -> None:
        """A group of which nothing is known but its name is not kept."""
        if group.is_unused:
            self.remove(group.group_id)

    def step_of(self, group_id: str) -> int:
        """Of a group that is not there: a step later than any that somebody waits for."""
        group = self._by_id.get(group_id)
        return self.steps.count if group is None else group.step


def put_offset(group: Group, topic: str, partition: int, value: OffsetCommitValue) -> None:
    offsets = group.offsets.get(topic)
    if offsets is None:
        offsets = group.offsets[topic] = TopicOffsets(offset_key_prefix(group.group_id, topic))
    offsets.partitions[partition] = value


def drop_offset(group: Group, topic: str, partition: int) -> bool:
    """Whether there was one."""
    offsets = group.offsets.get(topic)
    if offsets is None or offsets.partitions.pop(partition, None) is None:
        return False
    if not offsets.partitions:
        del group.offsets[topic]
    return True
