"""What the cluster keeps in etcd: the layout of the keys under a prefix, and the records as JSON.

Members write their own registrations, under a lease of their own; everything else is written by the active controller
alone, in Txns that compare its election key. A topic's partitions are packed into chunks keyed by topic id; the
topic's own record, keyed by name, is written last and is the commit point: chunks without one (and without a deletion
record) are left over from a creation that never happened. A deletion record outlives the topic until every replica is
gone.

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
    /barnabas/producer_ids                  ProducerIdsRecord
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from barnabas.cluster.messages import NO_LEADER

PARTITIONS_PER_CHUNK = 500


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
        "cluster",
        "controller_epoch",
        "deletions",
        "election",
        "partitions",
        "prefix",
        "producer_ids",
        "topics",
    )

    def __init__(self, prefix: str = "/barnabas/") -> None:
        assert prefix.endswith("/"), "a prefix ends with a slash, so that no other cluster's keys begin with it"
        self.prefix = prefix
        self.cluster = prefix + "cluster"
        self.election = prefix + "controller/election"
        self.controller_epoch = prefix + "controller/epoch"
        self.topics = prefix + "topics/"
        self.partitions = prefix + "partitions/"
        self.deletions = prefix + "deletions/"
        self.producer_ids = prefix + "producer_ids"

    def registrations(self, role: Role) -> str:
        """The directory of a role's registrations."""
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


@dataclass(slots=True, frozen=True)
class LogstoreRegistration:
    node_id: int
    # New for every start of the process: tells a restart from a registration that was there before.
    incarnation: str
    # Names the log directories as one: the same after a restart, another one after the disk was replaced.
    directory_id: str
    data_address: str
    control_address: str
    rack: str = ""
    # The kernel's, so that a crash of the process is told from one of the machine.
    boot_id: str = ""
    # Log directories that can't be used any more, by path, with the reason.
    offline_log_dirs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class GatewayRegistration:
    gateway_id: str
    incarnation: str
    # "host:port" by listener name.
    kafka_addresses: dict[str, str] = field(default_factory=dict)
    ops_address: str = ""


@dataclass(slots=True, frozen=True)
class PurgatoryRegistration:
    pod_id: str
    incarnation: str
    address: str


@dataclass(slots=True, frozen=True)
class ControllerRegistration:
    controller_id: str
    incarnation: str
    # Membership and Operations are both served there.
    address: str


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
    """A member that registered once; it stays in the list of nodes, dead or alive, until it is removed."""

    role: Role
    member_id: str
    # "host:port" by purpose ("data", "control", "ops", or a listener's name) as of its last registration.
    addresses: dict[str, str]
    # Wall clock; 0 while it is registered.
    down_since_ms: int = 0


@dataclass(slots=True, frozen=True)
class TopicRecord:
    topic: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclass(slots=True, frozen=True)
class PartitionRecord:
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    # The registration that the leader was elected under: another one of the same node is a restart, hence a new epoch.
    leader_broker_epoch: int = NO_LEADER


@dataclass(slots=True, frozen=True)
class PartitionChunk:
    """Up to 500 partitions of a topic in a row; the first is `chunk` × 500."""

    topic_id: bytes
    chunk: int
    partitions: tuple[PartitionRecord, ...]


@dataclass(slots=True, frozen=True)
class DeletionRecord:
    topic: str
    topic_id: bytes
    partitions: int


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
    | ProducerIdsRecord
)


def encode_registration(registration: Registration) -> bytes:
    return _dump(asdict(registration))


def decode_registration(role: Role, value: bytes) -> Registration:
    """Fields that this version does not know are skipped, so that a rolling upgrade can add some."""
    kind = _REGISTRATION_BY_ROLE[role]
    values: dict[str, Any] = json.loads(value)
    return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})


def registration_addresses(registration: Registration) -> dict[str, str]:
    """ "host:port" by purpose, without the ones not given."""
    match registration:
        case LogstoreRegistration():
            addresses = {"data": registration.data_address, "control": registration.control_address}
        case GatewayRegistration():
            addresses = {**registration.kafka_addresses, "ops": registration.ops_address}
        case PurgatoryRegistration():
            addresses = {"park": registration.address}
        case ControllerRegistration():
            addresses = {"ops": registration.address}
    return {purpose: address for purpose, address in addresses.items() if address}


def encode_record(record: Record) -> bytes:
    match record:
        case ClusterRecord():
            return _dump({"cluster_id": record.cluster_id})
        case ControllerEpochRecord():
            return _dump({"controller_epoch": record.controller_epoch})
        case MemberRecord():
            return _dump(
                {
                    "role": record.role.value,
                    "member_id": record.member_id,
                    "addresses": record.addresses,
                    "down_since_ms": record.down_since_ms,
                }
            )
        case TopicRecord():
            return _dump(
                {
                    "topic": record.topic,
                    "topic_id": record.topic_id.hex(),
                    "partitions": record.partitions,
                    "replication_factor": record.replication_factor,
                    "configs": record.configs,
                }
            )
        case PartitionChunk():
            return _dump(
                {
                    "topic_id": record.topic_id.hex(),
                    "chunk": record.chunk,
                    "partitions": [
                        {
                            "leader": partition.leader,
                            "leader_epoch": partition.leader_epoch,
                            "partition_epoch": partition.partition_epoch,
                            "replicas": partition.replicas,
                            "isr": partition.in_sync_replicas,
                            "broker_epoch": partition.leader_broker_epoch,
                        }
                        for partition in record.partitions
                    ],
                }
            )
        case DeletionRecord():
            return _dump({"topic": record.topic, "topic_id": record.topic_id.hex(), "partitions": record.partitions})
        case ProducerIdsRecord():
            return _dump({"next_producer_id": record.next_producer_id})


def decode_record(keys: Keys, key: str, value: bytes) -> Record | None:
    """The record of a key that the controller writes; None for any other key."""
    if not key.startswith(keys.prefix):
        return None
    values: dict[str, Any]
    match key[len(keys.prefix) :].split("/", 1):
        case ["cluster"]:
            return ClusterRecord(json.loads(value)["cluster_id"])
        case ["controller", "epoch"]:
            return ControllerEpochRecord(json.loads(value)["controller_epoch"])
        case ["members", _]:
            values = json.loads(value)
            role = Role(values["role"])
            return MemberRecord(role, values["member_id"], values["addresses"], values["down_since_ms"])
        case ["topics", _]:
            values = json.loads(value)
            return TopicRecord(
                topic=values["topic"],
                topic_id=bytes.fromhex(values["topic_id"]),
                partitions=values["partitions"],
                replication_factor=values["replication_factor"],
                configs=values["configs"],
            )
        case ["partitions", _]:
            values = json.loads(value)
            return PartitionChunk(
                topic_id=bytes.fromhex(values["topic_id"]),
                chunk=values["chunk"],
                partitions=tuple(
                    PartitionRecord(
                        leader=partition["leader"],
                        leader_epoch=partition["leader_epoch"],
                        partition_epoch=partition["partition_epoch"],
                        replicas=tuple(partition["replicas"]),
                        in_sync_replicas=tuple(partition["isr"]),
                        leader_broker_epoch=partition["broker_epoch"],
                    )
                    for partition in values["partitions"]
                ),
            )
        case ["deletions", _]:
            values = json.loads(value)
            return DeletionRecord(values["topic"], bytes.fromhex(values["topic_id"]), values["partitions"])
        case ["producer_ids"]:
            return ProducerIdsRecord(json.loads(value)["next_producer_id"])
        case _:
            return None


def _dump(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
