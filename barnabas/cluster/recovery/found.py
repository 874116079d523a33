"""The content of all logstores' disks, by topic and partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.cluster.inspection import KnownTopic, NodeInspection, PartitionFound, Register


@dataclass(slots=True)
class Found:
    """The content of every inspected logstore. Topic ids are 16 bytes."""

    cluster_ids: dict[str, list[int]] = field(default_factory=dict)
    node_ids: set[int] = field(default_factory=set)
    # Topic ids by name, in the order of their ids.
    topic_ids: dict[str, list[bytes]] = field(default_factory=dict)
    # By topic id and partition: the longest log of each logstore that has one.
    logs: dict[tuple[bytes, int], dict[int, PartitionFound]] = field(default_factory=dict)
    partitions: dict[bytes, int] = field(default_factory=dict)
    register: Register | None = None
    producer_id_max: int = -1
    # What prevents writing, and what the operator should know, as lines.
    conflicts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def known_topics(self) -> dict[bytes, KnownTopic]:
        topics = [] if self.register is None else self.register.topics
        return {bytes.fromhex(each.topic_id): each for each in topics}


def rank(log: PartitionFound) -> tuple[int, int]:
    """The log that ranks highest of all replicas has every committed record: every elected leader had them all, and a
    log with records of a later epoch has everything that its leader began with.
    """
    return log.latest_epoch, log.log_end_offset


def gather(nodes: Sequence[NodeInspection]) -> Found:
    found = Found()
    names: dict[bytes, str] = {}
    for node in sorted(nodes, key=lambda each: each.node_id):
        if node.node_id in found.node_ids:
            found.conflicts.append(f"logstore {node.node_id} was inspected twice: give its directories once")
            continue
        found.node_ids.add(node.node_id)
        found.cluster_ids.setdefault(node.cluster_id, []).append(node.node_id)
        found.producer_id_max = max(found.producer_id_max, node.producer_id_max)
        found.conflicts += [
            f"logstore {node.node_id} has had {path} too, which was not inspected: give that directory as well; or, if "
            "it is gone for good, remove its line from known-log-dirs in every other one"
            for path in node.missing_log_dirs
        ]
        for log_dir in node.log_dirs:
            if log_dir.register is not None and _is_later(log_dir.register, found.register):
                found.register = log_dir.register
            if log_dir.strays:
                found.notes.append(
                    f"logstore {node.node_id}: {len(log_dir.strays)} directories in {log_dir.path} were set aside "
                    f"earlier and stay so ({', '.join(log_dir.strays[:3])}{' …' if len(log_dir.strays) > 3 else ''})"
                )
            for log in log_dir.partitions:
                _add(found, names, node.node_id, log_dir.path, log)
    if len(found.cluster_ids) > 1:
        reported = "; ".join(f"{cluster} of {_nodes(ids)}" for cluster, ids in sorted(found.cluster_ids.items()))
        found.conflicts.append(f"these directories are of different clusters: {reported}")
    return found


def _is_later(register: Register, than: Register | None) -> bool:
    return than is None or (register.controller_epoch, register.revision) > (than.controller_epoch, than.revision)


def _add(found: Found, names: dict[bytes, str], node_id: int, path: str, log: PartitionFound) -> None:
    if not log.topic_id:
        found.notes.append(
            f"logstore {node_id}: {path}/{log.topic}-{log.partition} has no topic id (partition.metadata): it is left "
            f"out, and will be set aside; it has offsets {log.log_start_offset} to {log.log_end_offset}"
        )
        return
    topic_id = bytes.fromhex(log.topic_id)
    if names.setdefault(topic_id, log.topic) != log.topic:
        found.conflicts.append(
            f"topic id {log.topic_id} is {names[topic_id]}'s and {log.topic}'s: move one topic's directories away"
        )
        return
    ids = found.topic_ids.setdefault(log.topic, [])
    if topic_id not in ids:
        ids.append(topic_id)
        ids.sort()
    found.partitions[topic_id] = max(found.partitions.get(topic_id, 0), log.partition + 1)
    logs = found.logs.setdefault((topic_id, log.partition), {})
    known = logs.get(node_id)
    # The end of a move between two log directories leaves a copy.
    logs[node_id] = log if known is None else max(known, log, key=rank)


def _nodes(node_ids: list[int]) -> str:
    return "logstore " + ", ".join(map(str, node_ids))
