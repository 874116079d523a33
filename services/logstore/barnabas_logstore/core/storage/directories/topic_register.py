"""What the cluster's topics are, noted beside the records: for the day on which etcd is lost without a back-up.

A log directory of Kafka's holds no configs of topics, and without them a compacted topic would be one that is deleted
after a week. So every logstore keeps what it was last told of all topics, their ids, numbers of partitions and configs,
in the file `topic-register` of each of its log directories. It is written some seconds after a change, and read by
`barnabas inspect` alone: the cluster's state is etcd's.
"""

from __future__ import annotations

import json

from barnabas.cluster.image import ClusterImage
from barnabas.cluster.messages import TopicMetadata

TOPIC_REGISTER = "topic-register"


class TopicRegister:
    """The file's content is a `barnabas.cluster.inspection.Register`, made of lines that are kept from time to time:
    ten thousand topics are not formatted anew because one has changed.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._lines: dict[bytes, tuple[TopicMetadata, int, str]] = {}

    def content(self) -> bytes:
        image = self._image
        lines = {topic_id: self._line(topic) for topic_id, topic in image.topics_by_id.items()}
        self._lines = lines
        head = {
            "controller_epoch": image.controller_epoch,
            "revision": image.revision,
            "broker_configs": image.broker_configs,
            "node_ids": list(image.brokers),
        }
        topics = ",\n".join([line for _, _, line in lines.values()])
        return f'{json.dumps(head)[:-1]}, "topics": [\n{topics}\n]}}\n'.encode()

    def _line(self, topic: TopicMetadata) -> tuple[TopicMetadata, int, str]:
        known = self._lines.get(topic.topic_id)
        partitions = len(topic.partitions)
        if known is not None and known[1] == partitions and known[0].configs == topic.configs:
            return known
        values = {
            "topic": topic.topic,
            "topic_id": topic.topic_id.hex(),
            "partitions": partitions,
            "configs": topic.configs,
        }
        return topic, partitions, json.dumps(values)
