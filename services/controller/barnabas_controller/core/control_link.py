"""What the active controller remembers of one logstore's control stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from barnabas.cluster.messages import LeaderAndIsr


@dataclass(slots=True)
class Sent:
    """A command not answered yet: the revision of a LeaderAndIsr or an UpdateMetadata, the topic of a StopReplica."""

    sequence: int
    sent_ms: int
    leadership_revision: int = -1
    metadata_revision: int = -1
    deleted_topic_id: bytes = b""
    # Of a LeaderAndIsr: what it said, and whether that was said before and had failed.
    leader_and_isr: LeaderAndIsr | None = None
    is_repetition: bool = False


@dataclass(slots=True)
class ControlLink:
    """The stream to one registration of a logstore."""

    node_id: int
    broker_epoch: int
    control_address: str
    data_address: str
    connected: bool = False
    # Connected at least once: only then does its silence prove anything.
    known_alive: bool = False
    told_everything: bool = False
    # When it may be told everything, and how long after it has refused commands that is: it has another registration.
    tell_ms: int = 0
    tell_wait_ms: int = 0
    last_sequence: int = 0
    unanswered: deque[Sent] = field(default_factory=deque)
    # Leaders and ISRs are applied there as of this revision of the image.
    leadership_revision: int = -1
    # Likewise what all members are told, configs of brokers among it.
    metadata_revision: int = -1
    # The latest that it has ever answered to: what the process knows outlives a stream.
    known_revision: int = -1
    deleted_topic_ids: set[bytes] = field(default_factory=set)
    # By topic id and partition: what the logstore answered last, where it was an error.
    partition_errors: dict[tuple[bytes, int], int] = field(default_factory=dict)
    # Of these, the partitions that it has no disk for; unlike them it outlives a stream.
    without_disk: set[tuple[bytes, int]] = field(default_factory=set)
    # The partitions whose log directory is full there; it outlives a stream likewise.
    without_room: set[tuple[bytes, int]] = field(default_factory=set)
    # The log directories that it had told to be offline when it was asked for its partitions last, and how often one
    # had become full, or had got room.
    offline_log_dirs: frozenset[str] = frozenset()
    room_changes: int = 0
    # When they are repeated, and how long after the last time that is.
    repeat_ms: int = 0
    repeat_wait_ms: int = 0
