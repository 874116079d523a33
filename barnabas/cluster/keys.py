"""The cluster's state in etcd: the layout of the keys under a prefix, and the records as JSON.

Members write their own registrations, under their own lease; only the active controller writes everything else, in Txns
that compare its election key. A topic's partitions are packed into chunks keyed by topic id; the topic's own record,
keyed by name, is written last and is the commit point: chunks without one (and without a deletion record), or beyond
its number of partitions, are left over from an incomplete creation. A deletion record outlives the topic until every
replica is gone.

    /barnabas/version                       VersionRecord
    /barnabas/cluster                       ClusterRecord
    /barnabas/controller/election           ControllerRegistration of the active one, under its lease
    /barnabas/controller/epoch              ControllerEpochRecord, put again by every write of a controller
    /barnabas/controllers/<id>              ControllerRegistration
    /barnabas/logstores/<id>                LogstoreRegistration
    /barnabas/gateways/<id>                 GatewayRegistration
    /barnabas/purgatories/<id>              PurgatoryRegistration
    /barnabas/members/<role>/<id>           MemberRecord: once registered, until removed
    /barnabas/topics/<name>                 TopicRecord
    /barnabas/partitions/<topic id>/<n>     PartitionChunk, partitions from 500 × n
    /barnabas/deletions/<topic id>          DeletionRecord
    /barnabas/broker_configs/<id>           BrokerConfigsRecord, "default" for those of all brokers
    /barnabas/acls/<digest>                 Acl; the digest is of its content
    /barnabas/scram_credentials/…, …/delegation_tokens/…  see barnabas/cluster/credential_records.py
    /barnabas/client_quotas/<digest>        ClientQuota; the digest is of its entity
    /barnabas/producer_ids                  ProducerIdsRecord
    /barnabas/finalized_features            FinalizedFeatures
    /barnabas/operations/…                  see barnabas/cluster/operation_records.py
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import msgspec
from msgspec import structs

from barnabas.cluster.acls import Acl, acl_problem
from barnabas.cluster.cluster_version import VersionRecord
from barnabas.cluster.credential_records import CredentialKeys, CredentialRecord, with_bytes
from barnabas.cluster.delegation_tokens import DelegationToken
from barnabas.cluster.features import FinalizedFeatures, finalized_features_from_json
from barnabas.cluster.json_values import UnreadableValue, dump_object, held_by, load_object, typed
from barnabas.cluster.messages import ALL_BROKERS, NO_LEADER
from barnabas.cluster.operation_records import OperationKeys, OperationRecord
from barnabas.cluster.quotas.entities import ClientQuota, Entity, client_quota_from_json, digest_of
from barnabas.cluster.scram import UserScramCredential
from barnabas.wire.topic_names import topic_name_problem

PARTITIONS_PER_CHUNK = 500
NODE_ID_MAX = 2**31 - 1
TOPIC_PARTITIONS_MAX = 200_000  # each costs a controller some 300 bytes; Kafka has no limit


class Role(Enum):
    LOGSTORE = "logstore"
    GATEWAY = "gateway"
    PURGATORY = "purgatory"
    CONTROLLER = "controller"


_DIRECTORY_BY_ROLE = {
    Role.LOGSTORE: "logstores/",
    Role.GATEWAY: "gateways/",
    Role.PURGATORY: "purgatories/",
    Role.CONTROLLER: "controllers/",
}


class Keys:
    """The keys under one prefix, which ends with a slash."""

    __slots__ = (
        "acls",
        "broker_configs_directory",
        "client_quotas",
        "cluster",
        "controller_epoch",
        "credentials",
        "deletions",
        "election",
        "finalized_features",
        "operations",
        "partitions",
        "prefix",
        "producer_ids",
        "topics",
        "version",
    )

    def __init__(self, prefix: str = "/barnabas/") -> None:
        assert prefix.endswith("/"), "a prefix ends with a slash, so that no other cluster's keys begin with it"
        self.prefix = prefix
        self.version = prefix + "version"
        self.cluster = prefix + "cluster"
        self.election = prefix + "controller/election"
        self.controller_epoch = prefix + "controller/epoch"
        self.topics = prefix + "topics/"
        self.partitions = prefix + "partitions/"
        self.deletions = prefix + "deletions/"
        self.broker_configs_directory = prefix + "broker_configs/"
        self.acls = prefix + "acls/"
        self.credentials = CredentialKeys(prefix)
        self.client_quotas = prefix + "client_quotas/"
        self.producer_ids = prefix + "producer_ids"
        self.finalized_features = prefix + "finalized_features"
        self.operations = OperationKeys(prefix + "operations/")

    def registrations(self, role: Role) -> str:
        """Return the directory of a role's registrations."""
        return self.prefix + _DIRECTORY_BY_ROLE[role]

    def registration(self, role: Role, member_id: str) -> str:
        return self.registrations(role) + member_id

    def member(self, role: Role, member_id: str) -> str:
        return f"{self.prefix}members/{role.value}/{member_id}"

    def topic(self, topic: str) -> str:
        return self.topics + topic

    def chunk(self, topic_id: bytes, chunk: int) -> str:
        return f"{self.partitions}{topic_id.hex()}/{chunk:05d}"

    def deletion(self, topic_id: bytes) -> str:
        return self.deletions + topic_id.hex()

    def acl(self, acl: Acl) -> str:
        """Return the key of an ACL, which is the same for the same content: it can't be there twice."""
        return self.acls + hashlib.sha256(encode_record(acl)).hexdigest()[:32]

    def client_quota(self, entity: Entity) -> str:
        return self.client_quotas + digest_of(entity)

    def broker_configs(self, broker_id: int) -> str:
        return self.broker_configs_directory + ("default" if broker_id == ALL_BROKERS else str(broker_id))


@dataclass(slots=True, frozen=True)
class LogstoreRegistration:
    node_id: int
    # New for every start of the process: distinguishes a restart from an earlier registration.
    incarnation: str
    # One id for all log directories: the same after a restart, another one after a disk was replaced.
    directory_id: str
    data_address: str
    control_address: str
    rack: str = ""
    # The kernel's boot id, which distinguishes a crash of the process from one of the machine.
    boot_id: str = ""
    # Log directories that can't be used any more, by path, with the reason.
    offline_log_dirs: dict[str, str] = field(default_factory=dict)
    # Log directories whose disk is full, by path, with what found no space: they accept appends again when there is
    # some.
    full_log_dirs: dict[str, str] = field(default_factory=dict)
    # How often one has become full or has had space again, or a replica has gone offline alone: one that was full twice
    # looks the same, and is not.
    room_changes: int = 0
    # Its last stop was neither clean nor a crash of only the process (or a log directory is missing): records that it
    # had acknowledged may be missing, and it can't be taken for in sync (KIP-966). Not set any more once the controller
    # has sent it its partitions, since elections come before that.
    may_lack_records: bool = False
    # The address of the metrics endpoint; empty: none. In all registrations.
    metrics_address: str = ""
    # Replicas that have gone offline alone, after an unexpected exception, by "<topic>-<partition>" with the reason:
    # some, if there are many.
    offline_partitions: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class GatewayRegistration:
    gateway_id: str
    incarnation: str
    # "host:port" by listener name.
    kafka_addresses: dict[str, str] = field(default_factory=dict)
    ops_address: str = ""
    metrics_address: str = ""


@dataclass(slots=True, frozen=True)
class PurgatoryRegistration:
    pod_id: str
    incarnation: str
    address: str
    metrics_address: str = ""


@dataclass(slots=True, frozen=True)
class ControllerRegistration:
    controller_id: str
    incarnation: str
    # Of Membership.
    address: str
    metrics_address: str = ""
    # Of Operations; controllers of 0.1 serve it at the other address.
    operations_address: str = ""


Registration = LogstoreRegistration | GatewayRegistration | PurgatoryRegistration | ControllerRegistration

_REGISTRATION_BY_ROLE: dict[Role, type[Registration]] = {
    Role.LOGSTORE: LogstoreRegistration,
    Role.GATEWAY: GatewayRegistration,
    Role.PURGATORY: PurgatoryRegistration,
    Role.CONTROLLER: ControllerRegistration,
}


@dataclass(slots=True, frozen=True)
class ClusterRecord:
    # 16 bytes as 22 characters of URL-safe base64, as Kafka prints its uuids.
    cluster_id: str


@dataclass(slots=True, frozen=True)
class ControllerEpochRecord:
    controller_epoch: int


@dataclass(slots=True, frozen=True)
class MemberRecord:
    """A member that registered once; it stays in the list of nodes, alive or dead, until it is removed."""

    role: Role
    member_id: str
    # "host:port" by purpose ("data", "control", "ops", or a listener's name) as of its last registration.
    addresses: dict[str, str]
    # Wall clock time; 0 while it is registered.
    down_since_ms: int = 0
    # For a logstore: its registration as of which no ISR relies on records that it may have lost.
    broker_epoch: int = 0


@dataclass(slots=True, frozen=True)
class TopicRecord:
    topic: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class PartitionRecord(
    msgspec.Struct, frozen=True, rename={"in_sync_replicas": "isr", "leader_broker_epoch": "broker_epoch"}
):
    """Not a dataclass: a topic may have ten thousand of them, and this is created in a tenth of the time."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    # The registration under which the leader was elected: another one of the same node means a restart, and so a new
    # epoch.
    leader_broker_epoch: int = NO_LEADER
    # While the partition is being reassigned (KIP-455).
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # KIP-966, KIP-704: see PartitionMetadata.
    eligible_leader_replicas: tuple[int, ...] = ()
    leader_recovering: bool = False


@dataclass(slots=True, frozen=True)
class PartitionChunk:
    """Up to 500 consecutive partitions of a topic; the first is `chunk` × 500."""

    topic_id: bytes
    chunk: int
    partitions: tuple[PartitionRecord, ...]


@dataclass(slots=True, frozen=True)
class DeletionRecord:
    topic: str
    topic_id: bytes
    partitions: int


@dataclass(slots=True, frozen=True)
class BrokerConfigsRecord:
    """Dynamic broker configs; ALL_BROKERS: for those without one of their own."""

    broker_id: int
    configs: dict[str, str]


@dataclass(slots=True, frozen=True)
class ProducerIdsRecord:
    # The first id that no block contains yet.
    next_producer_id: int


Record = (
    ClusterRecord
    | ControllerEpochRecord
    | MemberRecord
    | TopicRecord
    | PartitionChunk
    | DeletionRecord
    | BrokerConfigsRecord
    | Acl
    | CredentialRecord
    | ClientQuota
    | ProducerIdsRecord
    | FinalizedFeatures
    | VersionRecord
    | OperationRecord
)


def encode_registration(registration: Registration) -> bytes:
    return dump_object(asdict(registration))


def decode_registration(role: Role, value: bytes) -> Registration:
    """Raises ValueError. Unknown fields are skipped: a rolling upgrade can add some."""
    registration = typed(_REGISTRATION_BY_ROLE[role], load_object(value))
    if isinstance(registration, LogstoreRegistration):
        _check_range(registration.node_id, 0, NODE_ID_MAX, "node id")
    return registration


def _check_range(value: int, lowest: int, largest: int, what: str) -> None:
    """Larger ones are in no message, or would fill the memory. Raises UnreadableValue."""
    if not lowest <= value <= largest:
        raise UnreadableValue(f"{what} is {value}, which is not between {lowest} and {largest}")


def member_id_of(registration: Registration) -> str:
    """Return the id with which its key ends."""
    match registration:
        case LogstoreRegistration():
            return str(registration.node_id)
        case GatewayRegistration():
            return registration.gateway_id
        case PurgatoryRegistration():
            return registration.pod_id
        case ControllerRegistration():
            return registration.controller_id


def registration_addresses(registration: Registration) -> dict[str, str]:
    """Return "host:port" by purpose, without the missing ones."""
    match registration:
        case LogstoreRegistration():
            addresses = {"data": registration.data_address, "control": registration.control_address}
        case GatewayRegistration():
            addresses = {**registration.kafka_addresses, "ops": registration.ops_address}
        case PurgatoryRegistration():
            addresses = {"park": registration.address}
        case ControllerRegistration():
            operations = registration.operations_address
            addresses = {"ops": operations or registration.address}
            addresses |= {"membership": registration.address} if operations else {}
    addresses["metrics"] = registration.metrics_address
    return {purpose: address for purpose, address in addresses.items() if address}


def encode_record(record: Record) -> bytes:
    match record:
        case ClusterRecord():
            return dump_object({"cluster_id": record.cluster_id})
        case ControllerEpochRecord():
            return dump_object({"controller_epoch": record.controller_epoch})
        case MemberRecord():
            return dump_object(
                {
                    "role": record.role.value,
                    "member_id": record.member_id,
                    "addresses": record.addresses,
                    "down_since_ms": record.down_since_ms,
                    "broker_epoch": record.broker_epoch,
                }
            )
        case TopicRecord():
            return dump_object(
                {
                    "topic": record.topic,
                    "topic_id": record.topic_id.hex(),
                    "partitions": record.partitions,
                    "replication_factor": record.replication_factor,
                    "configs": record.configs,
                }
            )
        case PartitionChunk():
            return dump_object(
                {
                    "topic_id": record.topic_id.hex(),
                    "chunk": record.chunk,
                    "partitions": [_partition_values(partition) for partition in record.partitions],
                }
            )
        case DeletionRecord():
            return dump_object(
                {"topic": record.topic, "topic_id": record.topic_id.hex(), "partitions": record.partitions}
            )
        case BrokerConfigsRecord():
            return dump_object({"broker_id": record.broker_id, "configs": record.configs})
        case Acl():
            return dump_object(structs.asdict(record))
        case UserScramCredential() | DelegationToken() | ClientQuota() | FinalizedFeatures():
            return dump_object(record.to_json())
        case ProducerIdsRecord():
            return dump_object({"next_producer_id": record.next_producer_id})
        case _:
            return dump_object(asdict(record))


def _partition_values(partition: PartitionRecord) -> dict[str, Any]:
    """Fields that most partitions do not have are left out: 500 of them share a value."""
    values: dict[str, Any] = {
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": partition.replicas,
        "isr": partition.in_sync_replicas,
        "broker_epoch": partition.leader_broker_epoch,
    }
    for name in ("adding_replicas", "removing_replicas", "eligible_leader_replicas", "leader_recovering"):
        if getattr(partition, name):
            values[name] = getattr(partition, name)
    return values


def decode_record(keys: Keys, key: str, value: bytes) -> Record | None:
    """Decode a record of a key that the controller writes; None for any other key. Unknown fields are skipped, and lost
    when this version writes the record again: if that matters, the format has another number.

    Raises ValueError, KeyError or TypeError if the value is not what the key stands for.
    """
    if not key.startswith(keys.prefix):
        return None
    match key[len(keys.prefix) :].split("/", 1):
        case ["version"]:
            return typed(VersionRecord, load_object(value))
        case ["cluster"]:
            return typed(ClusterRecord, load_object(value))
        case ["controller", "epoch"]:
            return typed(ControllerEpochRecord, load_object(value))
        case ["producer_ids"]:
            return typed(ProducerIdsRecord, load_object(value))
        case ["finalized_features"]:
            return finalized_features_from_json(load_object(value))
        case ["members", _]:
            member = typed(MemberRecord, load_object(value))
            return held_by(key, keys.member(member.role, member.member_id), member)
        case ["topics", _]:
            topic = typed(TopicRecord, _with_topic_id(load_object(value)))
            if problem := topic_name_problem(topic.topic):
                raise UnreadableValue(problem)
            _check_range(topic.partitions, 0, TOPIC_PARTITIONS_MAX, "partitions")
            return held_by(key, keys.topic(topic.topic), topic)
        case ["partitions", _]:
            chunk = typed(PartitionChunk, _with_partitions(_with_topic_id(load_object(value))))
            return held_by(key, keys.chunk(chunk.topic_id, chunk.chunk), chunk)
        case ["deletions", _]:
            deletion = typed(DeletionRecord, _with_topic_id(load_object(value)))
            _check_range(deletion.partitions, 0, TOPIC_PARTITIONS_MAX, "partitions")
            return held_by(key, keys.deletion(deletion.topic_id), deletion)
        case ["broker_configs", _]:
            broker_configs = typed(BrokerConfigsRecord, load_object(value))
            _check_range(broker_configs.broker_id, ALL_BROKERS, NODE_ID_MAX, "broker id")
            return held_by(key, keys.broker_configs(broker_configs.broker_id), broker_configs)
        case ["acls", _]:
            acl = typed(Acl, load_object(value))
            problem = acl_problem(acl)
            if problem:
                raise UnreadableValue(problem)
            return held_by(key, keys.acl(acl), acl)
        case ["scram_credentials" | "delegation_tokens", _]:
            kind_of_credential = keys.credentials.kind_of(key)
            assert kind_of_credential is not None, "the two directories are its own"
            credential = typed(kind_of_credential, with_bytes(kind_of_credential, load_object(value)))
            return held_by(key, keys.credentials.key_of(credential), credential)
        case ["client_quotas", _]:
            quota = client_quota_from_json(load_object(value))
            return held_by(key, keys.client_quota(quota.of()), quota)
        case ["operations", _]:
            kind = keys.operations.kind_of(key)
            if kind is None:
                return None
            operation = typed(kind, load_object(value))
            return held_by(key, keys.operations.key_of(operation), operation)
        case _:
            return None


def _with_topic_id(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"topic_id": bytes.fromhex(values["topic_id"])}


def _with_partitions(values: dict[str, Any]) -> dict[str, Any]:
    for partition in values["partitions"]:
        partition["broker_epoch"]
    return values
