"""Which topics to read, and where in them to start or end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas_pipeline.core.cluster import Topic
from barnabas_pipeline.core.errors import TopicMissing, WrongOption
from barnabas_pipeline.core.positions import TopicPartition


class End(IntEnum):
    """As offsets they are written like this, in the JVM connector's JSON and in ListOffsets."""

    LATEST = -1
    EARLIEST = -2


class Place(NamedTuple):
    """Where to start or end: in this order of precedence a time for all, times or offsets by partition, `end`.

    Offsets may be those of `End`. Where there is no record at a time or later: the latest offset, or an error. Offsets
    that don't name just the partitions that there are: what is not named is at its earliest one, or an error.
    """

    end: End
    time_ms: int | None = None
    times_ms: Mapping[TopicPartition, int] | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    is_latest_where_no_time: bool = False
    is_earliest_where_unnamed: bool = False

    def mentions(self, end: End) -> bool:
        if self.time_ms is not None or self.times_ms is not None:
            return False
        return end in self.offsets.values() if self.offsets is not None else self.end is end


@dataclass(frozen=True, slots=True)
class Subscription:
    """One of three: topics by name, topics whose whole name a pattern matches, or partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None

    @property
    def named(self) -> tuple[str, ...] | None:
        """The topics to ask for; None: all, of which `select` takes those that match."""
        return None if self.pattern is not None else self.topics

    def select(self, found: Mapping[str, Topic]) -> dict[str, Topic]:
        """Of the topics that there are, those to read, with the partitions to read."""
        if self.pattern is not None:
            matches = re.compile(self.pattern).fullmatch
            return {name: found[name] for name in sorted(found) if matches(name) and not found[name].is_internal}
        selected = {name: found[name] for name in self.topics if name in found}
        if self.assigned is None:
            return selected
        return {name: _only(topic, self.assigned[name]) for name, topic in selected.items()}

    def check_all_there(self, selected: Mapping[str, Topic], cluster: str) -> None:
        """Topics that are named have to be there, a pattern may match none. Raises TopicMissing."""
        missing = [name for name in self.topics if name not in selected]
        if missing:
            raise TopicMissing(f"no topic {', '.join(missing)} in the cluster at {cluster}")


def _only(topic: Topic, partitions: tuple[int, ...]) -> Topic:
    missing = [partition for partition in partitions if partition not in topic.leaders]
    if missing:
        raise TopicMissing(
            f"topic {topic.name} has {len(topic.leaders)} partitions, so no {', '.join(map(str, missing))} to assign"
        )
    return Topic(topic.name, topic.topic_id, topic.is_internal, {each: topic.leaders[each] for each in partitions})


def parse_subscription(given: Mapping[str, str | None]) -> Subscription:
    """From the options `subscribe`, `subscribePattern` and `assign`. Raises WrongOption."""
    set_ones = [name for name, value in given.items() if value is not None]
    if len(set_ones) != 1:
        raise WrongOption(
            f"one of the options {', '.join(given)} says which topics to read; given: {', '.join(set_ones) or 'none'}"
        )
    text = given[set_ones[0]] or ""
    if set_ones == ["subscribe"]:
        topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
        if not topics:
            raise WrongOption("option 'subscribe' names no topic")
        return Subscription(topics)
    if set_ones == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise WrongOption(f"option 'subscribePattern': '{text}' is no pattern: {error}") from None
        return Subscription(pattern=text)
    assigned = _parse_assignment(text)
    return Subscription(tuple(sorted(assigned)), assigned=assigned)


def parse_places(option: str, text: str) -> dict[TopicPartition, int]:
    """Offsets by partition, `{"orders": {"0": 23, "1": -1}}`: -1 is the latest, -2 the earliest. Raises WrongOption."""
    return _parse_by_partition(option, text, -2, 'like {"orders": {"0": 23, "1": -2}}, or earliest or latest')


def parse_times(option: str, text: str) -> dict[TopicPartition, int]:
    """Times in ms by partition. Raises WrongOption."""
    return _parse_by_partition(option, text, 0, 'like {"orders": {"0": 1700000000000}}')


def _parse_by_partition(option: str, text: str, number_min: int, example: str) -> dict[TopicPartition, int]:
    wrong = WrongOption(f"option '{option}' has to be JSON {example}, not '{text}'")
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _parse_object(text, wrong).items():
        if not isinstance(partitions, dict):
            raise wrong
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int or number < number_min:
                raise wrong
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def _parse_assignment(text: str) -> dict[str, tuple[int, ...]]:
    wrong = WrongOption(f"option 'assign' has to be JSON like {{\"orders\": [0, 1]}}, not '{text}'")
    assigned = {}
    for topic, partitions in _parse_object(text, wrong).items():
        if not isinstance(partitions, list) or not partitions:
            raise wrong
        if any(type(each) is not int or each < 0 for each in partitions):
            raise wrong
        assigned[topic] = tuple(sorted(set(partitions)))
    if not assigned:
        raise wrong
    return assigned


def _parse_object(text: str, wrong: WrongOption) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(document, dict):
        raise wrong
    return document
