"""UpdateMetadata: the image as it is sent to gateways, purgatory pods and logstores."""

from __future__ import annotations

from dataclasses import replace

from barnabas.cluster.messages import Broker, BrokerConfigs, Purgatory, UpdateMetadata
from barnabas.cluster.scram import ScramUser
from barnabas_controller.core.state.changes import Changes
from barnabas_controller.core.state.image import ControllerImage
from barnabas_controller.core.state.unknown_state import knows_acls, unknown_broker_configs, unknown_topics


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
        acls=list(image.acls.values()),
        knows_acls=knows_acls(image),
        scram_credentials=list(image.scram_credentials.values()),
        client_quotas=list(image.client_quotas.values()),
        gateways=len(image.gateways),
        delegation_tokens=list(image.delegation_tokens.values()),
        finalized_features=image.finalized_features,
    )


def incremental_update(image: ControllerImage, changes: Changes, controller_epoch: int) -> UpdateMetadata | None:
    """Return None if the changes don't concern members: a chunk of a topic that is not committed yet, or a gateway.

    If only some partitions of a topic have changed, only these are sent: when a logstore is back, changes of ten
    thousand follow one another, and every member has to read them.
    """
    topics = [image.topics_by_id[topic_id] for topic_id in changes.topics if topic_id in image.topics_by_id]
    is_for_members = topics or changes.deleted_topics or changes.members or changes.broker_configs
    is_for_gateways = changes.scram_credentials or changes.client_quotas or changes.delegation_tokens
    if not (is_for_members or changes.acls or changes.finalized_features or is_for_gateways):
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
        acls=[acl for acl, is_new in changes.acls.items() if is_new],
        removed_acls=[acl for acl, is_new in changes.acls.items() if not is_new],
        knows_acls=knows_acls(image),
        scram_credentials=[each for each in changes.scram_credentials.values() if each is not None],
        removed_scram_credentials=[ScramUser(*of) for of, each in changes.scram_credentials.items() if each is None],
        client_quotas=list(changes.client_quotas.values()),
        gateways=len(image.gateways),
        delegation_tokens=[each for each in changes.delegation_tokens.values() if each is not None],
        removed_delegation_tokens=[token_id for token_id, each in changes.delegation_tokens.items() if each is None],
        finalized_features=image.finalized_features,
    )


def without_gateways_own(update: UpdateMetadata) -> UpdateMetadata:
    """Return an update for logstores and purgatory pods: without what only gateways need, keys of users, delegation
    tokens and quotas.
    """
    has_scram = update.scram_credentials or update.removed_scram_credentials
    has_tokens = update.delegation_tokens or update.removed_delegation_tokens
    if not (has_scram or has_tokens or update.client_quotas):
        return update
    return replace(
        update,
        scram_credentials=[],
        removed_scram_credentials=[],
        delegation_tokens=[],
        removed_delegation_tokens=[],
        client_quotas=[],
    )


def _brokers(image: ControllerImage) -> list[Broker]:
    return [
        Broker(node_id, registered.record.data_address, registered.epoch, registered.record.rack)
        for node_id, registered in sorted(image.logstores.items())
    ]


def broker_configs(image: ControllerImage) -> list[BrokerConfigs]:
    """Return the dynamic broker configs, including ALL_BROKERS, without those that cannot be read."""
    return [BrokerConfigs(broker_id, record.configs) for broker_id, record in sorted(image.broker_configs.items())]


def _purgatories(image: ControllerImage) -> list[Purgatory]:
    return [Purgatory(pod_id, registered.record.address) for pod_id, registered in sorted(image.purgatories.items())]
