"""What tests of groups share: a world with `__consumer_offsets`, and who leads what of it."""

from __future__ import annotations

from typing import Any

from barnabas.channel.messages import GroupWait
from barnabas.cluster.internal_topics import OFFSETS_TOPIC
from tests.unit.gateway.world import World, topic

OFFSETS_TOPIC_ID = b"__offsets_topic_"
EPOCH = 5
"""Of all leaders."""


def offsets_topic(*leaders: int, epoch: int = EPOCH) -> Any:
    return topic(OFFSETS_TOPIC, OFFSETS_TOPIC_ID, leaders, epoch)


def group_world(*leaders: int, pods: tuple[str, ...] = ("p-0",), **config: Any) -> World:
    """Topic `t` with partitions 0 and 1, led by logstore 1; `__consumer_offsets` led by these, by partition."""
    nodes = tuple(sorted({1, *(leader for leader in leaders if leader >= 0)}))
    return World(topic("t", leaders=(1, 1)), offsets_topic(*(leaders or (1,))), nodes=nodes, pods=pods, **config)


def answer_to_wait(group_id: str = "g", member_id: str = "m-1", step: int = 7, **wait: Any) -> GroupWait:
    known = {"coordinator_epoch": EPOCH, "generation_id": 3, "wait_ms_max": 60_000}
    return GroupWait(group_id=group_id, member_id=member_id, step=step, **(known | wait))


def by_partition(partitions: int, count: int = 1) -> list[list[str]]:
    """`count` group ids for each partition of `__consumer_offsets`: "a" has hash 97, "b" 98."""
    letters = [chr(number) for number in range(97, 123)]
    return [[each for each in letters if ord(each) % partitions == index][:count] for index in range(partitions)]
