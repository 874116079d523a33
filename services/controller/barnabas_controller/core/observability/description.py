"""A description of the cluster for operators: every node, alive or dead, and every problem in one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from barnabas.cluster.keys import PARTITIONS_PER_CHUNK, Role
from barnabas.wire.errors import ErrorCode
from barnabas_controller.core.controller import ControllerCore
from barnabas_controller.core.members.known_members import registered_members
from barnabas_controller.core.observability.partition_listing import Condition, PartitionCounts, count_partitions
from barnabas_controller.core.state.unknown_state import unknown_partitions

# Without one of each, no client can produce.
_INDISPENSABLE = (Role.LOGSTORE, Role.GATEWAY, Role.PURGATORY)
_LISTED_MAX = 20
# An offline directory may hold thousands of partitions.
_FAILED_NAMED_MAX = 10
_ERROR_NAMES = {int(code): code.name for code in ErrorCode}


@dataclass(slots=True, frozen=True)
class NodeDescription:
    role: Role
    member_id: str
    addresses: dict[str, str]
    alive: bool
    # The create revision of the registration; -1 if there is none.
    epoch: int
    incarnation: str
    # For a logstore: the partitions it leads.
    leaders: int
    # Whether the control stream (logstore) or the subscription (gateway, purgatory) is up.
    connected: bool
    # Wall clock time; 0 while it is alive.
    down_since_ms: int
    # For a logstore: the partitions it has a replica of.
    replicas: int = 0
    rack: str = ""
    drained: bool = False
    offline_log_dirs: Mapping[str, str] = field(default_factory=dict)
    full_log_dirs: Mapping[str, str] = field(default_factory=dict)
    # Whether this is the controller that is asked.
    active: bool = False


def describe_nodes(controller: ControllerCore, counts: PartitionCounts | None = None) -> list[NodeDescription]:
    """Sorted by role, then by id. `counts`: of all partitions, if they were counted already."""
    image = controller.image
    counts = counts or count_partitions(image, controller.rules)
    nodes: dict[tuple[Role, str], NodeDescription] = {}
    for (role, member_id), record in image.members.items():
        nodes[role, member_id] = NodeDescription(
            role=role,
            member_id=member_id,
            addresses=record.addresses,
            alive=False,
            epoch=-1,
            incarnation="",
            leaders=0,
            connected=False,
            down_since_ms=record.down_since_ms,
            replicas=counts.replicas[int(member_id)] if role is Role.LOGSTORE else 0,
            drained=role is Role.LOGSTORE and int(member_id) in image.drains,
        )
    for role, member_id, addresses, epoch in registered_members(image):
        logstore = image.logstores[int(member_id)].record if role is Role.LOGSTORE else None
        nodes[role, member_id] = NodeDescription(
            role=role,
            member_id=member_id,
            addresses=addresses,
            alive=True,
            epoch=epoch,
            incarnation=_incarnation(controller, role, member_id),
            leaders=counts.leaders[logstore.node_id] if logstore else 0,
            connected=_connected(controller, role, member_id),
            down_since_ms=0,
            replicas=counts.replicas[logstore.node_id] if logstore else 0,
            rack=logstore.rack if logstore else "",
            drained=logstore is not None and logstore.node_id in image.drains,
            offline_log_dirs=logstore.offline_log_dirs if logstore else {},
            full_log_dirs=logstore.full_log_dirs if logstore else {},
            active=_is_active(controller, role, member_id),
        )
    order = list(Role)
    return sorted(nodes.values(), key=lambda node: (order.index(node.role), _natural(node.member_id)))


def describe_problems(controller: ControllerCore, counts: PartitionCounts | None = None) -> list[str]:
    """Empty if the cluster is healthy. `counts`: of all partitions, if they were counted already."""
    counts = counts or count_partitions(controller.image, controller.rules)
    nodes = describe_nodes(controller, counts)
    problems = [*_dead_nodes(nodes), *_missing_roles(nodes), *_disconnected_nodes(nodes)]
    offline = counts.conditions[Condition.OFFLINE]
    if offline:
        problems.append(f"{offline} partition{'s have' if offline > 1 else ' has'} no leader")
    lagging = counts.conditions[Condition.UNDER_REPLICATED]
    if lagging:
        problems.append(f"{lagging} partition{'s have' if lagging > 1 else ' has'} replicas that are not in sync")
    too_few = counts.conditions[Condition.UNDER_MIN_ISR]
    if too_few:
        have = "partitions have" if too_few > 1 else "partition has"
        problems.append(f"{too_few} {have} fewer in-sync replicas than min.insync.replicas: acks=all is refused there")
    problems += _offline_log_dirs(controller)
    problems += _full_log_dirs(controller)
    problems += _failed_partitions(controller)
    for topic_id, deletion in controller.image.deletions.items():
        waits_for = ", ".join(str(node_id) for node_id in controller.links.deletion_waits_for(topic_id))
        if waits_for:
            problems.append(f"the deletion of topic {deletion.topic} waits for logstore {waits_for}")
    if controller.txn_pipeline.refusal:
        problems.append(f"etcd refuses to write: {controller.txn_pipeline.refusal}")
    problems += [*_unreadable_keys(controller), *_unknown_partitions(controller), *_reported(controller)]
    if len(problems) > _LISTED_MAX:
        problems = [*problems[:_LISTED_MAX], f"and {len(problems) - _LISTED_MAX} more"]
    return problems


def _reported(controller: ControllerCore) -> list[str]:
    return [
        f"{role.value} {member_id}: {condition.text} ({condition.kind.value})"
        for role, member_id, condition in controller.reported_health.conditions()
        if condition.is_problem
    ]


def _unreadable_keys(controller: ControllerCore) -> list[str]:
    return [
        f"{key} in etcd is unreadable: {why}; it is not acted on: restore the value from a backup"
        for key, why in controller.image.unreadable.items()
    ]


def _unknown_partitions(controller: ControllerCore) -> list[str]:
    """Partitions in no chunk, beside those in unreadable chunks."""
    image = controller.image
    names = {topic_id: topic.topic for topic_id, topic in image.topics_by_id.items()}
    problems = []
    for unknown in unknown_partitions(image):
        last = unknown.first + unknown.count - 1
        which = f"partition {last}" if unknown.count == 1 else f"partitions {unknown.first} to {last}"
        key = image.keys.chunk(unknown.topic_id, unknown.first // PARTITIONS_PER_CHUNK)
        problems.append(
            f"{which} of topic {names[unknown.topic_id]} cannot be read in {key}: "
            "their replicas stay as they are, and no leader is elected for them"
        )
    return problems


def _dead_nodes(nodes: list[NodeDescription]) -> list[str]:
    problems = []
    for node in nodes:
        if not node.alive:
            since = ""
            if node.down_since_ms:
                moment = datetime.fromtimestamp(node.down_since_ms / 1000, tz=UTC)
                since = f" since {moment:%Y-%m-%d %H:%M:%S} UTC"
            problems.append(f"{node.role.value} {node.member_id} is down{since}: start it")
    return problems


def _missing_roles(nodes: list[NodeDescription]) -> list[str]:
    known = {node.role for node in nodes}
    return [f"no {role.value} has registered yet: start one" for role in _INDISPENSABLE if role not in known]


def _disconnected_nodes(nodes: list[NodeDescription]) -> list[str]:
    problems = []
    for node in nodes:
        if node.alive and not node.connected:
            match node.role:
                case Role.LOGSTORE:
                    control = node.addresses.get("control", "")
                    problems.append(f"logstore {node.member_id} does not answer at its control address {control}")
                case Role.GATEWAY | Role.PURGATORY:
                    problems.append(
                        f"{node.role.value} {node.member_id} has no metadata subscription at the controller"
                    )
                case Role.CONTROLLER:
                    pass
    return problems


def _offline_log_dirs(controller: ControllerCore) -> list[str]:
    return [
        f"logstore {node_id}: log directory {path} is offline: {reason}; replace the disk and restart the logstore"
        for node_id, registered in sorted(controller.image.logstores.items())
        for path, reason in sorted(registered.record.offline_log_dirs.items())
    ]


def _full_log_dirs(controller: ControllerCore) -> list[str]:
    return [
        f"logstore {node_id}: log directory {path} is full: {reason}; "
        "appends are refused and reads continue until space is free; no restart is needed"
        for node_id, registered in sorted(controller.image.logstores.items())
        for path, reason in sorted(registered.record.full_log_dirs.items())
    ]


def _failed_partitions(controller: ControllerCore) -> list[str]:
    problems: list[str] = []
    for link in controller.links.by_node.values():
        failed = []
        for (topic_id, partition), error_code in link.partition_errors.items():
            topic = controller.image.topics_by_id.get(topic_id)
            if topic is not None:
                failed.append(_failure(f"{topic.topic}-{partition}", link.node_id, error_code))
        problems += failed[:_FAILED_NAMED_MAX]
        if len(failed) > _FAILED_NAMED_MAX:
            problems.append(f"{len(failed) - _FAILED_NAMED_MAX} more partitions failed on logstore {link.node_id}")
    return problems


def _failure(partition: str, node_id: int, error_code: int) -> str:
    name = _ERROR_NAMES.get(error_code, str(error_code))
    line = f"partition {partition} failed on logstore {node_id}: {name}"
    if error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
        line += (
            ": its log has later leader epochs than etcd knows of, as after etcd was restored from an old backup "
            "or where its last batch is damaged; "
            "it is not served there, because it is unknown which replica holds every acknowledged record"
        )
    return line


def _incarnation(controller: ControllerCore, role: Role, member_id: str) -> str:
    image = controller.image
    match role:
        case Role.LOGSTORE:
            return image.logstores[int(member_id)].record.incarnation
        case Role.GATEWAY:
            return image.gateways[member_id].record.incarnation
        case Role.PURGATORY:
            return image.purgatories[member_id].record.incarnation
        case Role.CONTROLLER:
            return image.controllers[member_id].record.incarnation


def _connected(controller: ControllerCore, role: Role, member_id: str) -> bool:
    match role:
        case Role.LOGSTORE:
            link = controller.links.by_node.get(int(member_id))
            return link is not None and link.connected
        case Role.CONTROLLER:
            return True
        case Role.GATEWAY | Role.PURGATORY:
            return controller.subscriptions.follows(role, member_id)


def _is_active(controller: ControllerCore, role: Role, member_id: str) -> bool:
    election = controller.image.election
    return role is Role.CONTROLLER and election is not None and election.record.controller_id == member_id


def _natural(member_id: str) -> tuple[int, str]:
    """Sort numbers by value: 2 before 10."""
    return (int(member_id), "") if member_id.isdigit() else (0, member_id)
