"""Look up in the cluster where to start and to end, as the options say."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas_pipeline.core.cluster import Extents, Topic
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.positions import TopicPartition, TopicPositions
from barnabas_pipeline.core.subscription import End, Place, Subscription
from barnabas_pipeline.kafka.cluster_client import ClusterClient


def subscribed_topics(client: ClusterClient, subscription: Subscription) -> dict[str, Topic]:
    """Return the existing topics. Raises TopicMissing for an assigned partition that its topic does not have."""
    return subscription.select(client.topics(subscription.named))


def positions_at(client: ClusterClient, place: Place, extents: Extents) -> dict[str, TopicPositions]:
    """Raises WrongOption if `place` does not match the existing partitions, or if a time has no offset."""
    partitions = [TopicPartition(name, index) for name, extent in extents.items() for index in extent.latest]
    offsets: Mapping[TopicPartition, int]
    if place.time_ms is not None:
        offsets = _offsets_at_times(client, place, dict.fromkeys(partitions, place.time_ms), extents)
    elif place.times_ms is not None:
        _check_partitions("times", place.times_ms, partitions)
        offsets = _offsets_at_times(client, place, place.times_ms, extents)
    elif place.offsets is not None and place.is_earliest_where_unnamed:
        offsets = {**dict.fromkeys(partitions, End.EARLIEST), **place.offsets}
    elif place.offsets is not None:
        _check_partitions("offsets", place.offsets, partitions)
        offsets = place.offsets
    else:
        offsets = dict.fromkeys(partitions, place.end)
    return {
        name: TopicPositions(
            extent.topic_id,
            {index: _resolved(offsets[TopicPartition(name, index)], extents, name, index) for index in extent.latest},
        )
        for name, extent in extents.items()
    }


def _resolved(offset: int, extents: Extents, name: str, index: int) -> int:
    match offset:
        case End.EARLIEST:
            return extents[name].earliest[index]
        case End.LATEST:
            return extents[name].latest[index]
        case _:
            return offset


def _offsets_at_times(
    client: ClusterClient, place: Place, times_ms: Mapping[TopicPartition, int], extents: Extents
) -> dict[TopicPartition, int]:
    offsets = {}
    for partition, found in client.offsets(times_ms).items():
        if found.offset < 0 and not place.is_latest_where_no_time:
            raise WrongOption(
                f"{partition} has no record at {times_ms[partition]} ms or later: set "
                "startingOffsetsByTimestampStrategy to 'latest' to start there at its end"
            )
        latest = extents[partition.topic].latest[partition.partition]
        offsets[partition] = found.offset if found.offset >= 0 else latest
    return offsets


def _check_partitions(what: str, given: Mapping[TopicPartition, int], there: list[TopicPartition]) -> None:
    """As in the JVM connector all must be named, so that none is forgotten."""
    missing = [str(each) for each in there if each not in given]
    unknown = [str(each) for each in given if each not in there]
    if missing or unknown:
        raise WrongOption(
            f"{what} by partition must name the partitions that are read: "
            + "; ".join(
                f"{text} {', '.join(names)}"
                for text, names in (("missing are", missing), ("not read are", unknown))
                if names
            )
        )
