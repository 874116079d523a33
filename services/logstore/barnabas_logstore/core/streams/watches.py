"""Watches of purgatory pods: the present state first, then the newest of each changed partition, once per turn.

A turn publishes `STATES_PER_TURN`; what is left waits for the next one, and is as new as that one when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.channel.messages import PartitionState, WatchedPartition
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import WatchStream

STATES_PER_TURN: Final = 1_000
"""At 8 µs each, with their packing."""


class Watches:
    """Keyed by topic id and partition, hosted here or not: a watch outlives the replica, and may precede it."""

    def __init__(self, replicas: Replicas, outbox: Outbox) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._streams: dict[PartitionKey, dict[WatchStream, None]] = {}
        # To be published, in this order: to all watches, or only to those that have just begun.
        self._changed: dict[PartitionKey, None] = {}
        self._begun: dict[PartitionKey, dict[WatchStream, None]] = {}
        self.coordinated: dict[Partition, None] = {}
        """Changes in the topics that this logstore's own coordinators follow; the coordinators take them."""
        self._awaited: dict[Partition, None] = {}
        """Changes of partitions whose results wait for their commit."""

        self._marked: dict[Partition, None] = {}
        """Changes of partitions whose markers wait for their commit."""

    @property
    def watched_partitions(self) -> int:
        return len(self._streams)

    def watch(self, stream: WatchStream, watched: WatchedPartition) -> None:
        key = (watched.topic_id, watched.partition)
        self._streams.setdefault(key, {})[stream] = None
        self._begun.setdefault(key, {})[stream] = None

    def unwatch(self, stream: WatchStream, watched: WatchedPartition) -> None:
        self._forget(stream, (watched.topic_id, watched.partition))

    def close(self, stream: WatchStream) -> None:
        for key in [key for key, streams in self._streams.items() if stream in streams]:
            self._forget(stream, key)

    def _forget(self, stream: WatchStream, key: PartitionKey) -> None:
        for table in (self._streams, self._begun):
            streams = table.get(key)
            if streams is not None:
                streams.pop(stream, None)
                if not streams:
                    del table[key]

    def changed(self, partition: Partition) -> None:
        """Something in the PartitionState has changed."""
        if partition.key in self._streams:
            self._changed[partition.key] = None
        if partition.is_coordinated:
            self.coordinated[partition] = None
        if partition.awaits_commit:
            self._awaited[partition] = None
        if partition.awaits_markers:
            self._marked[partition] = None

    def take_awaited(self) -> Iterable[Partition]:
        """Return the partitions that have changed while results waited for their commit."""
        awaited, self._awaited = self._awaited, {}
        return awaited

    def take_marked(self) -> Iterable[Partition]:
        """Return the partitions that have changed while markers waited for their commit."""
        if not self._marked:
            return ()
        marked, self._marked = self._marked, {}
        return marked

    @property
    def has_work(self) -> bool:
        """Whether states wait for the next turn; only between two turns."""
        return bool(self._changed or self._begun)

    def publish(self) -> None:
        """Add the newest states to this turn's messages, as many as it may have; what has changed twice by then is sent
        once.
        """
        if not self._changed and not self._begun:
            return
        left = STATES_PER_TURN
        changed, begun = self._changed, self._begun
        # Half of a turn is left to watches that have just begun, if there are so many.
        while changed and left > min(len(begun), STATES_PER_TURN // 2):
            key = next(iter(changed))
            del changed[key]
            begun.pop(key, None)
            left -= self._tell(key, self._streams.get(key, {}))
        while begun and left > 0:
            key = next(iter(begun))
            left -= self._tell(key, begun.pop(key))

    def _tell(self, key: PartitionKey, streams: dict[WatchStream, None]) -> int:
        """Return what it counts for: the states, and at least 1."""
        partition = self._replicas.by_key.get(key)
        # Not here (any more): no directory here is the cause.
        state = PartitionState(*key, online=True) if partition is None else self._replicas.state_of(partition)
        for stream in streams:
            self._outbox.watch_response(stream).states.append(state)
        return max(1, len(streams))
