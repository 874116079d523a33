"""State in etcd that the controller can't read: it is left unchanged, and never taken for deleted.

A value that can't be read (`ControllerImage.unreadable`), or a missing chunk that a topic has by its record, says
nothing about the replicas that it was written for. Therefore:

- a full LeaderAndIsr names the partitions and topics that are unknown, and logstores keep their replicas of them
  instead of treating these as strays (KIP-516); an UpdateMetadata names them too, for what else depends on a topic;
- no leader is elected for them, and no chunk is removed as one that no topic claims;
- a logstore that may have lost records stays under suspicion (correctness rule 15): its partitions have not all been
  looked through;
- gateways learn that not all ACLs are known, and allow nothing but to super users: the missing one may be a denial;
- if the value is one that the whole cluster depends on, no controller is elected at all.

Everything else continues. When the key's value can be read again, or is deleted, every member is sent the full state.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.cluster.keys import NODE_ID_MAX
from barnabas.cluster.messages import ALL_BROKERS, UnknownPartitions
from barnabas_controller.core.state.image import ControllerImage


def unknown_partitions(image: ControllerImage) -> Iterator[UnknownPartitions]:
    """Return ranges of partitions, of the topics whose own record can be read."""
    for topic in image.topics.values():
        for numbers in image.unknown_ranges(topic):
            yield UnknownPartitions(topic.topic_id, numbers.start, len(numbers))


def unknown_topics(image: ControllerImage) -> list[str]:
    """Return topics by name: of a record that can't be read, only the key is known."""
    return [key.removeprefix(image.keys.topics) for key in image.unreadable if key.startswith(image.keys.topics)]


def unknown_broker_configs(image: ControllerImage) -> list[int]:
    """Return the brokers, including ALL_BROKERS, whose dynamic configs are unknown."""
    directory = image.keys.broker_configs_directory
    brokers = [key.removeprefix(directory) for key in image.unreadable if key.startswith(directory)]
    return [ALL_BROKERS if each == "default" else int(each) for each in brokers if each == "default" or _is_id(each)]


def _is_id(name: str) -> bool:
    """Whether a key's name is a node id: no message has a larger number."""
    return name.isascii() and name.isdecimal() and len(name) <= len(str(NODE_ID_MAX)) and int(name) <= NODE_ID_MAX


def knows_acls(image: ControllerImage) -> bool:
    """Whether the image has every ACL that exists."""
    return not any(key.startswith(image.keys.acls) for key in image.unreadable)


def knows_all_partitions(image: ControllerImage) -> bool:
    """Whether the image has every replica that may exist."""
    return knows_all_claims(image) and next(unknown_partitions(image), None) is None


def knows_all_claims(image: ControllerImage) -> bool:
    """Whether it is known of every chunk if a topic or a deletion claims it."""
    keys = image.keys
    return not any(key.startswith((keys.topics, keys.deletions)) for key in image.unreadable)


def unreadable_chunks(image: ControllerImage, topic_id: bytes) -> list[str]:
    """Return the keys of a topic's unreadable chunks: it is unknown which logstores have replicas by them."""
    directory = f"{image.keys.partitions}{topic_id.hex()}/"
    return [key for key in image.unreadable if key.startswith(directory)]


def unreadable_foundation(image: ControllerImage) -> str:
    """Return a key whose value a controller would have to continue but can't read; empty if all can be read."""
    keys = image.keys
    foundation = (keys.version, keys.cluster, keys.controller_epoch)
    return next((key for key in foundation if key in image.unreadable), "")
