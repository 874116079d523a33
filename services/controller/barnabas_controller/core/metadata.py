"""UpdateMetadata: the image as gateways, purgatory pods and logstores are told of it."""

from __future__ import annotations

from barnabas.cluster.messages import Broker, BrokerConfigs, Purgatory, UpdateMetadata
from barnabas_controller.core.image import Changes, ControllerImage
from barnabas_controller.core.unknown_state import unknown_broker_configs, unknown_topics


def full_update(image: ControllerImage, controller_epoch: int) -> UpdateMetadata:
    topics = [image.topic_metadata(topic) for topic in image.topics.values()]
    return UpdateMetadata(
        revision=image.revision,
        full=True,
        cluster_id=image.cluster_id,
        controller_epoch=controller_epoch,
        brokers=_brokers(image),
        purgatories=_purgatories(image),
        topics=topics,
        broker_configs=broker_configs(image),
        unknown_topics=unknown_topics(image),
        unknown_broker_configs=unknown_broker_configs(image),
    )


def incremental_update(image: ControllerImage, changes: Changes, controller_epoch: int) -> UpdateMetadata | None:
    """None when the changes are nothing to members: a chunk of a topic that is not committed yet, a gateway.

    A topic of which only some partitions have changed is told of these alone: ten thousand of them follow one another
    when a logstore is back, and every member has to read what it is told.
    """
    topics = [image.topics_by_id[topic_id] for topic_id in changes.topics if topic_id in image.topics_by_id]
    if not (topics or changes.deleted_topics or changes.members or changes.broker_configs):
        return None
    return UpdateMetadata(
        revision=image.revision,
        full=False,
        cluster_id=image.cluster_id,
        controller_epoch=controller_epoch,
        brokers=_brokers(image),
        purgatories=_purgatories(image),
        topics=[image.topic_metadata(topic, None, changes.partitions.get(topic.topic_id)) for topic in topics],
        deleted_topic_ids=list(changes.deleted_topics),
        broker_configs=broker_configs(image),
        unknown_broker_configs=unknown_broker_configs(image),
    )


def _brokers(image: ControllerImage) -> list[Broker]:
    return [
        Broker(node_id, registered.record.data_address, registered.epoch, registered.record.rack)
        for node_id, registered in sorted(image.logstores.items())
    ]


def broker_configs(image: ControllerImage) -> list[BrokerConfigs]:
    """Return what brokers were given at run time, ALL_BROKERS among them; without those that cannot be read."""
    return [BrokerConfigs(broker_id, record.configs) for broker_id, record in sorted(image.broker_configs.items())]


def _purgatories(image: ControllerImage) -> list[Purgatory]:
    return [Purgatory(pod_id, registered.record.address) for pod_id, registered in sorted(image.purgatories.items())]
