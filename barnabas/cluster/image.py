"""ClusterImage: the cluster as one member knows it, built from UpdateMetadata alone (KIP-631's image, in small)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from barnabas.cluster.acls import Acl
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.features import FinalizedFeatures
from barnabas.cluster.messages import (
    NO_EPOCH,
    NO_LEADER,
    Broker,
    BrokerConfigs,
    PartitionMetadata,
    Purgatory,
    TopicMetadata,
    UpdateMetadata,
)
from barnabas.cluster.quotas.entities import Entity
from barnabas.cluster.scram import UserScramCredential


class ClusterImage:
    """Brokers, purgatory pods and topics at one revision.

    A newer leader epoch learned from a logstore (`adopt_leader`) survives updates that have not caught up with it, so a
    client is never sent back to a leader that has already refused it (design: no loops on a stale gateway). Nor is
    known state replaced by what the controller reports as unreadable in etcd.
    """

    __slots__ = (
        "_broker_configs_version",
        "acls",
        "broker_configs",
        "brokers",
        "client_quotas",
        "cluster_id",
        "controller_epoch",
        "delegation_tokens",
        "finalized_features",
        "gateways",
        "knows_acls",
        "partitions_by_topic_id",
        "purgatories",
        "revision",
        "scram_credentials",
        "topics_by_id",
        "topics_by_name",
    )

    def __init__(self) -> None:
        self.revision = -1
        self.cluster_id = ""
        self.controller_epoch = -1
        self.brokers: dict[int, Broker] = {}
        # Dynamic configs by broker id; ALL_BROKERS: for those without one of their own.
        self.broker_configs: dict[int, dict[str, str]] = {}
        # The controller epoch and the revision of these configs.
        self._broker_configs_version = (-1, -1)
        self.purgatories: list[Purgatory] = []
        # By user and number of the mechanism.
        self.scram_credentials: dict[tuple[str, int], UserScramCredential] = {}
        self.client_quotas: dict[Entity, dict[str, float]] = {}
        # How many gateways are registered.
        self.gateways = 0
        # By id.
        self.delegation_tokens: dict[str, DelegationToken] = {}
        self.finalized_features = FinalizedFeatures()
        self.acls: dict[Acl, None] = {}
        self.knows_acls = False
        self.topics_by_name: dict[str, TopicMetadata] = {}
        self.topics_by_id: dict[bytes, TopicMetadata] = {}
        self.partitions_by_topic_id: dict[bytes, dict[int, PartitionMetadata]] = {}

    def apply(self, update: UpdateMetadata) -> bool:
        """Apply an update. Return False if it is stale and nothing was changed."""
        if update.controller_epoch < self.controller_epoch:
            return False
        if update.revision <= self.revision and not (update.full and update.controller_epoch > self.controller_epoch):
            return False
        known = self.partitions_by_topic_id
        if update.full:
            kept = [self.topics_by_name[name] for name in update.unknown_topics if name in self.topics_by_name]
            self.topics_by_name = {topic.topic: topic for topic in kept}
            self.topics_by_id = {topic.topic_id: topic for topic in kept}
            self.partitions_by_topic_id = {topic.topic_id: known[topic.topic_id] for topic in kept}
        for topic_id in update.deleted_topic_ids:
            self._remove(topic_id)
        for topic in update.topics:
            if topic.partial:
                self._put_partitions(topic)
            else:
                self._put(topic, known.get(topic.topic_id, {}))
        self.brokers = {broker.node_id: broker for broker in sorted(update.brokers, key=lambda each: each.node_id)}
        self.learn_broker_configs(
            update.controller_epoch, update.revision, update.broker_configs, update.unknown_broker_configs
        )
        self.purgatories = sorted(update.purgatories, key=lambda each: each.pod_id)
        if update.full:
            self.acls = dict.fromkeys(update.acls)
        else:
            for acl in update.removed_acls:
                self.acls.pop(acl, None)
            self.acls.update(dict.fromkeys(update.acls))
        self.knows_acls = update.knows_acls
        if update.full:
            self.scram_credentials.clear()
        for removed in update.removed_scram_credentials:
            self.scram_credentials.pop((removed.user, removed.mechanism), None)
        for credential in update.scram_credentials:
            self.scram_credentials[credential.user, credential.mechanism] = credential
        if update.full:
            self.client_quotas.clear()
        for quota in update.client_quotas:
            self.client_quotas[quota.of()] = quota.values()
            if not quota.quotas:
                del self.client_quotas[quota.of()]
        self.gateways = update.gateways
        if update.full:
            self.delegation_tokens.clear()
        for token_id in update.removed_delegation_tokens:
            self.delegation_tokens.pop(token_id, None)
        self.delegation_tokens.update((token.token_id, token) for token in update.delegation_tokens)
        self.finalized_features = update.finalized_features or FinalizedFeatures()
        self.revision = update.revision
        self.cluster_id = update.cluster_id
        self.controller_epoch = update.controller_epoch
        return True

    def learn_broker_configs(
        self, controller_epoch: int, revision: int, broker_configs: Sequence[BrokerConfigs], unknown: Sequence[int]
    ) -> None:
        """Apply all dynamic broker configs, unless newer ones are known. Those of the brokers in `unknown` stay
        unchanged.

        A logstore gets them before the first update: with the first partitions that it may lead.
        """
        version = (controller_epoch, revision)
        if version < self._broker_configs_version:
            return
        self._broker_configs_version = version
        kept = {each: self.broker_configs.get(each, {}) for each in unknown}
        self.broker_configs = kept | {each.broker_id: each.configs for each in broker_configs}

    def _put(self, topic: TopicMetadata, known: dict[int, PartitionMetadata]) -> None:
        replaced = self.topics_by_name.get(topic.topic)
        if replaced is not None and replaced.topic_id != topic.topic_id:
            self._remove(replaced.topic_id)
        self.topics_by_name[topic.topic] = topic
        self.topics_by_id[topic.topic_id] = topic
        self.partitions_by_topic_id[topic.topic_id] = {
            each.partition: _newer(known.get(each.partition), each) for each in topic.partitions
        }

    def _put_partitions(self, changed: TopicMetadata) -> None:
        topic = self.topics_by_id.get(changed.topic_id)
        if topic is None:
            return  # there can't be news of an unknown topic
        reported = {each.partition: each for each in topic.partitions}
        partitions = self.partitions_by_topic_id[topic.topic_id]
        for each in changed.partitions:
            reported[each.partition] = each
            partitions[each.partition] = _newer(partitions.get(each.partition), each)
        topic = replace(topic, partitions=list(reported.values()))
        self.topics_by_id[topic.topic_id] = topic
        if self.topics_by_name[topic.topic].topic_id == topic.topic_id:
            self.topics_by_name[topic.topic] = topic

    def _remove(self, topic_id: bytes) -> None:
        topic = self.topics_by_id.pop(topic_id, None)
        if topic is None:
            return
        self.partitions_by_topic_id.pop(topic_id, None)
        if self.topics_by_name[topic.topic].topic_id == topic_id:
            del self.topics_by_name[topic.topic]

    def partition(self, topic_id: bytes, partition: int) -> PartitionMetadata | None:
        """Return the newest known state of one partition, or None."""
        partitions = self.partitions_by_topic_id.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def lagging_replicas(self, node_id: int) -> int | None:
        """Return partitions with a leader whose ISR lacks this node's replica; None before the first update.

        A process that waits for it to be 0 waits for nothing that waiting can't bring: in a partition without a leader,
        no replica can catch up.
        """
        if self.revision < 0:
            return None
        return sum(
            node_id in each.replicas and each.leader != NO_LEADER and node_id not in each.in_sync_replicas
            for partitions in self.partitions_by_topic_id.values()
            for each in partitions.values()
        )

    def adopt_leader(self, topic_id: bytes, partition: int, leader: int, leader_epoch: int) -> bool:
        """Adopt a newer (leader, epoch) that a logstore names. Return False if it is not newer than the image's."""
        known = self.partition(topic_id, partition)
        if known is None or leader == NO_EPOCH or leader_epoch <= known.leader_epoch:
            return False
        self.partitions_by_topic_id[topic_id][partition] = structs.replace(
            known, leader=leader, leader_epoch=leader_epoch
        )
        return True


def _newer(known: PartitionMetadata | None, reported: PartitionMetadata) -> PartitionMetadata:
    return known if known is not None and known.leader_epoch > reported.leader_epoch else reported
