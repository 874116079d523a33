"""What the controller cannot read in etcd, and so does not know: it is left as it is, and never taken for deleted.

A value that no one can read (`ControllerImage.unreadable`), or a chunk that a topic has by its record and that is not
there, says nothing of the replicas that it was written for. So

- a full LeaderAndIsr names the partitions and topics that are unknown, and logstores go on with their replicas of them
  instead of setting these aside as strays (KIP-516); an UpdateMetadata does likewise, for what else rests on a topic;
- nobody is elected for them, and no chunk is removed as one that no topic claims;
- a logstore that may have lost records stays under suspicion (correctness rule 15): its partitions have not all been
  looked through;
- where the value is one that the whole cluster rests on, no controller is elected at all.

What is known goes on. When the key has a value that can be read again, or is deleted, everybody is told everything.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.cluster.messages import ALL_BROKERS, UnknownPartitions
from barnabas_controller.core.image import ControllerImage


def unknown_partitions(image: ControllerImage) -> Iterator[UnknownPartitions]:
    """In ranges, of the topics whose own record can be read."""
    for topic in image.topics.values():
        for numbers in image.unknown_ranges(topic):
            yield UnknownPartitions(topic.topic_id, numbers.start, len(numbers))


def unknown_topics(image: ControllerImage) -> list[str]:
    """By name: of a record that no one can read the key is all that there is."""
    return [key.removeprefix(image.keys.topics) for key in image.unreadable if key.startswith(image.keys.topics)]


def unknown_broker_configs(image: ControllerImage) -> list[int]:
    """The brokers, ALL_BROKERS among them, whose configs given at run time are unknown."""
    directory = image.keys.broker_configs_directory
    brokers = [key.removeprefix(directory) for key in image.unreadable if key.startswith(directory)]
    return [
        ALL_BROKERS if each == "default" else int(each) for each in brokers if each == "default" or each.isdecimal()
    ]


def knows_all_partitions(image: ControllerImage) -> bool:
    """Every replica that there may be is one of the image's."""
    return knows_all_claims(image) and next(unknown_partitions(image), None) is None


def knows_all_claims(image: ControllerImage) -> bool:
    """Whose the chunks are: of a topic, of a deletion, or of nobody."""
    keys = image.keys
    return not any(key.startswith((keys.topics, keys.deletions)) for key in image.unreadable)


def unreadable_chunks(image: ControllerImage, topic_id: bytes) -> list[str]:
    """Keys of a topic's chunks: which logstores have replicas by them is unknown."""
    directory = f"{image.keys.partitions}{topic_id.hex()}/"
    return [key for key in image.unreadable if key.startswith(directory)]


def unreadable_foundation(image: ControllerImage) -> str:
    """A key whose value a controller would continue, and can't; empty where all can be read."""
    keys = image.keys
    foundation = (keys.version, keys.cluster, keys.controller_epoch)
    return next((key for key in foundation if key in image.unreadable), "")
