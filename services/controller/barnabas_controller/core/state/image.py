"""ControllerImage: the cluster's state in etcd at one revision. Applying what etcd says is the only way to change it.

The controller's own writes come back through the same watch as the members' registrations, in the order of their
revisions, so that the image is always exactly what a reload would give (a property test checks it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeVar, assert_never

from barnabas.cluster.acls import Acl
from barnabas.cluster.cluster_version import VersionRecord
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.features import FinalizedFeatures
from barnabas.cluster.keys import (
    PARTITIONS_PER_CHUNK,
    BrokerConfigsRecord,
    ClusterRecord,
    ControllerEpochRecord,
    ControllerRegistration,
    DeletionRecord,
    GatewayRegistration,
    Keys,
    LogstoreRegistration,
    MemberRecord,
    PartitionChunk,
    PartitionRecord,
    ProducerIdsRecord,
    PurgatoryRegistration,
    Role,
    TopicRecord,
    decode_record,
    decode_registration,
    member_id_of,
)
from barnabas.cluster.messages import ALL_BROKERS, NO_EPOCH, NO_LEADER, PartitionMetadata, TopicMetadata
from barnabas.cluster.operation_records import BalanceRecord, ControllerHistoryRecord, DrainRecord
from barnabas.cluster.quotas.entities import ClientQuota
from barnabas.cluster.scram import UserScramCredential
from barnabas.ports.etcd import KeyValue, Snapshot, WatchBatch, WatchEvent
from barnabas_controller.core.state.changes import (
    Changes,
    Elected,
    Held,
    Registered,
    Transition,
    note_changed_partitions,
    note_partitions,
    note_removed_replicas,
    note_whole_topic,
)
from barnabas_controller.core.state.replica_counts import ReplicaCounts

_UNKNOWN_PARTITION: Final = PartitionRecord(NO_LEADER, NO_EPOCH, NO_EPOCH, (), ())
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError)
"""What a value raises that is not what its key stands for."""

Decoded = TypeVar("Decoded")


class ControllerImage:
    """Everything under the prefix, parsed. `revision` is that of the last change applied; -1 before the load."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._directories = [(role, keys.registrations(role)) for role in Role]
        self.replica_counts = ReplicaCounts()
        self._clear()

    def _clear(self) -> None:
        self.revision = -1
        self.version: VersionRecord | None = None
        self.cluster_id = ""
        self.controller_epoch = 0
        self.election: Registered[ControllerRegistration] | None = None
        self.logstores: dict[int, Registered[LogstoreRegistration]] = {}
        self.gateways: dict[str, Registered[GatewayRegistration]] = {}
        self.purgatories: dict[str, Registered[PurgatoryRegistration]] = {}
        self.controllers: dict[str, Registered[ControllerRegistration]] = {}
        self.members: dict[tuple[Role, str], MemberRecord] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.topics_by_id: dict[bytes, TopicRecord] = {}
        # Kafka refuses names that differ only in "." and "_", because they would be one name in metrics.
        self.topics_by_collision_name: dict[str, str] = {}
        self.chunks: dict[bytes, dict[int, PartitionChunk]] = {}
        self.deletions: dict[bytes, DeletionRecord] = {}
        self.broker_configs: dict[int, BrokerConfigsRecord] = {}
        # By key.
        self.acls: dict[str, Acl] = {}
        # By user and number of the mechanism.
        self.scram_credentials: dict[tuple[str, int], UserScramCredential] = {}
        # By key.
        self.client_quotas: dict[str, ClientQuota] = {}
        # By id.
        self.delegation_tokens: dict[str, DelegationToken] = {}
        self.next_producer_id = 0
        self.finalized_features = FinalizedFeatures()
        self.drains: dict[int, DrainRecord] = {}
        # Present while the balance of leaders is paused.
        self.balance: BalanceRecord | None = None
        self.controller_history = ControllerHistoryRecord()
        # Keys whose value can't be read, with the reason: a problem to report, not a reason to stop.
        self.unreadable: dict[str, str] = {}
        self._mod_revisions: dict[str, int] = {}
        self._held: dict[str, Held] = {}

    @property
    def loaded(self) -> bool:
        return self.revision >= 0

    def mod_revision(self, key: str) -> int:
        """Return 0 if the key does not exist."""
        return self._mod_revisions.get(key, 0)

    def load(self, snapshot: Snapshot) -> None:
        """Replace the whole image."""
        self._clear()
        ignored = Changes()
        for key_value in snapshot.key_values:
            self._put(key_value, ignored)
        self.revision = snapshot.revision

    def apply(self, batch: WatchBatch) -> Changes:
        """Apply what changed after the image's revision."""
        assert batch.revision > self.revision, f"revision {batch.revision} after {self.revision}"
        changes = Changes()
        for event in batch.events:
            self._apply_event(event, changes)
        self.revision = batch.revision
        return changes

    def _apply_event(self, event: WatchEvent, changes: Changes) -> None:
        if event.deleted:
            self._delete(event.key_value.key, event.key_value.mod_revision, changes)
        else:
            self._put(event.key_value, changes)

    def _put(self, key_value: KeyValue, changes: Changes) -> None:
        key = key_value.key
        self._mod_revisions[key] = key_value.mod_revision
        try:
            held = self._put_readable(key_value, changes)
        except _MALFORMED as error:
            if key in self._held and key not in self.unreadable:
                self._forget(key, changes)
            # What it says may be a denial: no gateway may do without it.
            changes.everything |= key.startswith(self.keys.acls)
            self.unreadable[key] = f"{type(error).__name__}: {error}"
            return
        self._note_known_again(key, changes)
        if held is not None:
            changes.transitions.append(Transition(key_value.mod_revision, self._held.get(key), held))
            self._held[key] = held

    def _put_readable(self, key_value: KeyValue, changes: Changes) -> Held | None:
        key = key_value.key
        if key == self.keys.election:
            election = _decoded(decode_registration, Role.CONTROLLER, key_value.value)
            assert isinstance(election, ControllerRegistration)
            self.election = Registered(election, key_value.create_revision, key_value.lease)
            return Elected(election.controller_id)
        for role, directory in self._directories:
            if key.startswith(directory):
                return self._register(role, key_value, changes)
        record = _decoded(decode_record, self.keys, key, key_value.value)
        match record:
            case None:
                pass
            case ClusterRecord():
                self.cluster_id = record.cluster_id
            case ControllerEpochRecord():
                self.controller_epoch = record.controller_epoch
            case MemberRecord():
                if record.role is Role.LOGSTORE:
                    registered = self.logstores.get(int(record.member_id))
                    # It is not a suspect any more.
                    changes.logstores |= registered is not None and registered.record.may_lack_records
                self.members[record.role, record.member_id] = record
            case TopicRecord():
                self._note_changed_topic(record, changes)
                self.topics[record.topic] = record
                self.topics_by_id[record.topic_id] = record
                self.topics_by_collision_name[collision_name(record.topic)] = record.topic
            case PartitionChunk():
                before = self.chunks.get(record.topic_id, {}).get(record.chunk)
                note_removed_replicas(before, record, changes)
                self.chunks.setdefault(record.topic_id, {})[record.chunk] = record
                if not self._is_unclaimed(record.topic_id, record.chunk):
                    note_changed_partitions(before, record, changes)
            case DeletionRecord():
                self.deletions[record.topic_id] = record
            case BrokerConfigsRecord():
                self.broker_configs[record.broker_id] = record
                changes.broker_configs = True
            case Acl():
                self.acls[key] = record
                changes.acls[record] = True
            case UserScramCredential():
                of = record.user, record.mechanism
                self.scram_credentials[of] = changes.scram_credentials[of] = record
            case ClientQuota():
                self.client_quotas[key] = changes.client_quotas[key] = record
            case DelegationToken():
                token_id = record.token_id
                self.delegation_tokens[token_id] = changes.delegation_tokens[token_id] = record
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case FinalizedFeatures():
                self.finalized_features = record
                changes.finalized_features = True
            case VersionRecord():
                self.version = record
            case DrainRecord():
                self.drains[record.node_id] = record
                changes.drains = True
            case BalanceRecord():
                self.balance = record
                changes.balance = True
            case ControllerHistoryRecord():
                self.controller_history = record
            case _:
                assert_never(record)
        return record

    def _note_changed_topic(self, after: TopicRecord, changes: Changes) -> None:
        """If a topic has only got more partitions, note these alone."""
        before = self.topics_by_id.get(after.topic_id)
        if before is None or replace(before, partitions=after.partitions) != after:
            note_whole_topic(after.topic_id, changes)
        else:
            note_partitions(after.topic_id, range(before.partitions, after.partitions), changes)

    def _register(self, role: Role, key_value: KeyValue, changes: Changes) -> Registered[Any]:
        registration = _decoded(decode_registration, role, key_value.value)
        if key_value.key != self.keys.registration(role, member_id_of(registration)):
            raise ValueError(f"its value is the registration of {role.value} {member_id_of(registration)}")
        epoch, lease = key_value.create_revision, key_value.lease
        changes.members = True
        registered: Registered[Any]
        match registration:
            case LogstoreRegistration():
                registered = self.logstores[registration.node_id] = Registered(registration, epoch, lease)
                changes.logstores = True
            case GatewayRegistration():
                registered = self.gateways[registration.gateway_id] = Registered(registration, epoch, lease)
            case PurgatoryRegistration():
                registered = self.purgatories[registration.pod_id] = Registered(registration, epoch, lease)
            case ControllerRegistration():
                registered = self.controllers[registration.controller_id] = Registered(registration, epoch, lease)
            case _:
                assert_never(registration)
        return registered

    def _delete(self, key: str, revision: int, changes: Changes) -> None:
        self._mod_revisions.pop(key, None)
        before = self._held.pop(key, None)
        if before is not None:
            changes.transitions.append(Transition(revision, before, None))
        if key in self.unreadable:
            self._note_known_again(key, changes)
        elif before is not None:
            topic = self._forget(key, changes)
            if topic is not None:
                changes.deleted_topics[topic.topic_id] = None

    def _note_known_again(self, key: str, changes: Changes) -> None:
        """The value can be read, or is gone: comparing it with what was known does not show what the members need."""
        if self.unreadable.pop(key, None) is not None:
            keys = self.keys
            changes.everything |= key.startswith(
                (keys.topics, keys.partitions, keys.deletions, keys.broker_configs_directory, keys.acls)
            )

    def _forget(self, key: str, changes: Changes) -> TopicRecord | None:
        """Remove what a key stands for, as a reload would not find it: the key is deleted, or its value can't be read
        any more. Return the topic that is removed; the caller reports its deletion.
        """
        if key == self.keys.election:
            self.election = None
        elif key == self.keys.version:
            self.version = None
        elif key == self.keys.cluster:
            self.cluster_id = ""
        elif key == self.keys.controller_epoch:
            self.controller_epoch = 0
        elif key == self.keys.producer_ids:
            self.next_producer_id = 0
        elif key == self.keys.finalized_features:
            self.finalized_features = FinalizedFeatures()
            changes.finalized_features = True
        elif key.startswith(self.keys.topics):
            topic = self.topics.pop(key[len(self.keys.topics) :])
            del self.topics_by_id[topic.topic_id]
            del self.topics_by_collision_name[collision_name(topic.topic)]
            changes.topics.pop(topic.topic_id, None)
            changes.partitions.pop(topic.topic_id, None)
            return topic
        elif key.startswith(self.keys.partitions):
            topic_id, chunk = key[len(self.keys.partitions) :].split("/")
            chunks = self.chunks[bytes.fromhex(topic_id)]
            del chunks[int(chunk)]
            self.replica_counts.forget(bytes.fromhex(topic_id), int(chunk))
            if not chunks:
                del self.chunks[bytes.fromhex(topic_id)]
        elif key.startswith(self.keys.deletions):
            del self.deletions[bytes.fromhex(key[len(self.keys.deletions) :])]
        elif key.startswith(self.keys.broker_configs_directory):
            broker = key[len(self.keys.broker_configs_directory) :]
            del self.broker_configs[ALL_BROKERS if broker == "default" else int(broker)]
            changes.broker_configs = True
        elif key.startswith(self.keys.acls):
            changes.acls[self.acls.pop(key)] = False
        elif key.startswith(self.keys.credentials.scram):
            mechanism, _, user = key[len(self.keys.credentials.scram) :].partition("/")
            del self.scram_credentials[user, int(mechanism)]
            changes.scram_credentials[user, int(mechanism)] = None
        elif key.startswith(self.keys.client_quotas):
            changes.client_quotas[key] = ClientQuota(self.client_quotas.pop(key).entity)
        elif key.startswith(self.keys.credentials.delegation_tokens):
            token_id = key[len(self.keys.credentials.delegation_tokens) :]
            del self.delegation_tokens[token_id]
            changes.delegation_tokens[token_id] = None
        elif key.startswith(self.keys.operations.directory):
            self._forget_operation(key, changes)
        else:
            self._deregister(key, changes)
        return None

    def _forget_operation(self, key: str, changes: Changes) -> None:
        operations = self.keys.operations
        if key.startswith(operations.drains):
            del self.drains[int(key[len(operations.drains) :])]
            changes.drains = True
        elif key == operations.balance:
            self.balance = None
            changes.balance = True
        elif key == operations.controller_history:
            self.controller_history = ControllerHistoryRecord()

    def _deregister(self, key: str, changes: Changes) -> None:
        directory, _, member_id = key[len(self.keys.prefix) :].rpartition("/")
        match directory:
            case "logstores":
                del self.logstores[int(member_id)]
                changes.logstores = changes.members = True
            case "gateways":
                del self.gateways[member_id]
                changes.members = True
            case "purgatories":
                del self.purgatories[member_id]
                changes.members = True
            case "controllers":
                del self.controllers[member_id]
                changes.members = True
            case "members/logstore" | "members/gateway" | "members/purgatory" | "members/controller":
                del self.members[Role(directory.partition("/")[2]), member_id]
            case _:
                pass

    def partitions(self, topic_id: bytes) -> Iterator[tuple[int, PartitionRecord]]:
        """Yield the partitions of a topic (or of a deletion) in order, with their numbers."""
        for chunk in self.chunks_of(topic_id):
            yield from enumerate(chunk.partitions, chunk.chunk * PARTITIONS_PER_CHUNK)

    def chunks_of(self, topic_id: bytes) -> Iterator[PartitionChunk]:
        """Yield the chunks with the partitions of a topic (or of a deletion), in order."""
        chunks = self.chunks.get(topic_id, {})
        for chunk in sorted(chunks):
            if self._is_beyond(topic_id, chunk):
                break
            yield chunks[chunk]

    def partition(self, topic_id: bytes, number: int) -> PartitionRecord | None:
        topic = self.topics_by_id.get(topic_id)
        if topic is None or not 0 <= number < topic.partitions:
            return None
        chunk = self.chunks.get(topic_id, {}).get(number // PARTITIONS_PER_CHUNK)
        index = number % PARTITIONS_PER_CHUNK
        return None if chunk is None or index >= len(chunk.partitions) else chunk.partitions[index]

    def topic_metadata(
        self, topic: TopicRecord, node_id: int | None = None, numbers: Set[int] | None = None
    ) -> TopicMetadata:
        """Return the topic's metadata for members: complete, or with only the partitions in `numbers`, or only those
        that `node_id` has a replica of.

        A partition that can't be read has no replicas and no leader epoch.
        """
        partitions = self.partitions(topic.topic_id) if numbers is None else self._partitions(topic, sorted(numbers))
        if node_id is None and numbers is None:
            partitions = chain(partitions, self._placeholders(topic))
        return TopicMetadata(
            topic=topic.topic,
            topic_id=topic.topic_id,
            configs=topic.configs,
            partitions=[
                PartitionMetadata(
                    partition=number,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    replicas=partition.replicas,
                    in_sync_replicas=partition.in_sync_replicas,
                    adding_replicas=partition.adding_replicas,
                    removing_replicas=partition.removing_replicas,
                    eligible_leader_replicas=partition.eligible_leader_replicas,
                    leader_recovering=partition.leader_recovering,
                )
                for number, partition in partitions
                if node_id is None or node_id in partition.replicas
            ],
            partial=numbers is not None,
        )

    def unknown_ranges(self, topic: TopicRecord) -> Iterator[range]:
        """Return the partition numbers that the topic has by its record, but that are in no readable chunk."""
        chunks = self.chunks.get(topic.topic_id, {})
        for first in range(0, topic.partitions, PARTITIONS_PER_CHUNK):
            chunk = chunks.get(first // PARTITIONS_PER_CHUNK)
            known = 0 if chunk is None else len(chunk.partitions)
            end = min(first + PARTITIONS_PER_CHUNK, topic.partitions)
            if first + known < end:
                yield range(first + known, end)

    def _placeholders(self, topic: TopicRecord) -> Iterator[tuple[int, PartitionRecord]]:
        for numbers in self.unknown_ranges(topic):
            for number in numbers:
                yield number, _UNKNOWN_PARTITION

    def _partitions(self, topic: TopicRecord, numbers: Iterable[int]) -> Iterator[tuple[int, PartitionRecord]]:
        for number in numbers:
            if number < topic.partitions:
                yield number, self.partition(topic.topic_id, number) or _UNKNOWN_PARTITION

    def known_node_ids(self) -> frozenset[int]:
        """Return the logstores that are registered or once were."""
        remembered = [int(member_id) for role, member_id in self.members if role is Role.LOGSTORE]
        return frozenset([*remembered, *self.logstores])

    def unclaimed_chunks(self) -> list[tuple[bytes, int]]:
        """Return topic id and number of the chunks that belong to no topic or deletion: a creation that broke off left
        them.
        """
        return [
            (topic_id, chunk)
            for topic_id, chunks in self.chunks.items()
            for chunk in sorted(chunks)
            if self._is_unclaimed(topic_id, chunk)
        ]

    def _is_unclaimed(self, topic_id: bytes, chunk: int) -> bool:
        if topic_id in self.deletions:
            return False
        return topic_id not in self.topics_by_id or self._is_beyond(topic_id, chunk)

    def _is_beyond(self, topic_id: bytes, chunk: int) -> bool:
        """New partitions of the topic are being written to etcd, and its record does not count them yet."""
        topic = self.topics_by_id.get(topic_id)
        return topic is not None and chunk * PARTITIONS_PER_CHUNK >= topic.partitions


def collision_name(topic: str) -> str:
    return topic.replace(".", "_")


def _decoded(decode: Callable[..., Decoded], *of: object) -> Decoded:
    """Decode a value. Whatever is raised says that it is unreadable: as an unexpected exception it would end one
    controller after another, each at its start.
    """
    try:
        return decode(*of)
    except _MALFORMED:
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
