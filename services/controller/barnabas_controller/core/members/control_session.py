"""The active controller's state of one logstore's control stream."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from barnabas.cluster.messages import LeaderAndIsr


@dataclass(slots=True)
class Sent:
    """A command that is not answered yet: the revision of a LeaderAndIsr or an UpdateMetadata, or the topic of a
    StopReplica.
    """

    sequence: int
    sent_ms: int
    leadership_revision: int = -1
    metadata_revision: int = -1
    deleted_topic_id: bytes = b""
    # For a LeaderAndIsr: its partitions, and whether it repeats ones that had failed.
    leader_and_isr: LeaderAndIsr | None = None
    is_repetition: bool = False


@dataclass(slots=True)
class ControlSession:
    """The stream to one registration of a logstore."""

    node_id: int
    broker_epoch: int
    control_address: str
    data_address: str
    connected: bool = False
    # Connected at least once: only then does its silence mean anything.
    known_alive: bool = False
    has_everything: bool = False
    # When the full state may be sent, and the delay before it is sent again after the logstore has refused commands
    # because its registration is another one.
    tell_ms: int = 0
    tell_wait_ms: int = 0
    last_sequence: int = 0
    unanswered: deque[Sent] = field(default_factory=deque)
    # The logstore has applied leaders and ISRs up to this revision of the image.
    leadership_revision: int = -1
    # The logstore has applied the UpdateMetadata, which includes broker configs, up to this revision.
    metadata_revision: int = -1
    # The latest revision that it has ever acknowledged: what the process knows outlives a stream.
    known_revision: int = -1
    deleted_topic_ids: set[bytes] = field(default_factory=set)
    # By topic id and partition: the last error that the logstore answered.
    partition_errors: dict[tuple[bytes, int], int] = field(default_factory=dict)
    # Of these, the partitions that it has no disk for; unlike the errors, this outlives a stream.
    without_disk: set[tuple[bytes, int]] = field(default_factory=set)
    # The partitions whose log directory is full; this outlives a stream too.
    without_room: set[tuple[bytes, int]] = field(default_factory=set)
    # The log directories that it had reported offline when it was last asked for its partitions, and how often one had
    # become full or had space again.
    offline_log_dirs: frozenset[str] = frozenset()
    room_changes: int = 0
    # When failed partitions are repeated, and the delay until the repetition after that.
    repeat_ms: int = 0
    repeat_wait_ms: int = 0
