"""The cluster's topics, stored beside the records in case etcd is lost without a backup.

Kafka's log directories contain no configs of topics, and without them a compacted topic would be treated as one that is
deleted after a week. So every logstore keeps what it last learned of all topics, their ids, numbers of partitions and
configs, in the file `topic-register` of each of its log directories. It is written some seconds after a change, and
read only by `barnabas inspect`: the cluster's state is in etcd.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import TopicMetadata

TOPIC_REGISTER = "topic-register"


@dataclass(slots=True)
class _Line:
    topic: TopicMetadata
    partitions: int
    text: str
    replicas: frozenset[int]


class TopicRegister:
    """The file's content is a `barnabas.cluster.inspection.Register`, made of lines that are cached: ten thousand
    topics are not formatted again because one has changed.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._lines: dict[bytes, _Line] = {}

    def content(self) -> bytes:
        image = self._image
        lines = {topic_id: self._line(topic) for topic_id, topic in image.topics_by_id.items()}
        self._lines = lines
        head = {
            "controller_epoch": image.controller_epoch,
            "revision": image.revision,
            "broker_configs": image.broker_configs,
            # When all stop, the last one sees no other: those that have replicas belong to the cluster, alive or not.
            "node_ids": sorted({*image.brokers}.union(*[line.replicas for line in lines.values()])),
        }
        topics = ",\n".join([line.text for line in lines.values()])
        return f'{json.dumps(head)[:-1]}, "topics": [\n{topics}\n]}}\n'.encode()

    def _line(self, topic: TopicMetadata) -> _Line:
        known = self._lines.get(topic.topic_id)
        if known is not None and known.topic is topic:
            return known
        partitions = len(topic.partitions)
        replicas = frozenset([node_id for each in topic.partitions for node_id in each.replicas])
        if known is not None and known.partitions == partitions and known.topic.configs == topic.configs:
            return _Line(topic, partitions, known.text, replicas)
        values = {
            "topic": topic.topic,
            "topic_id": topic.topic_id.hex(),
            "partitions": partitions,
            "configs": topic.configs,
        }
        return _Line(topic, partitions, json.dumps(values), replicas)
