"""Watches of purgatory pods: the present state first, then the newest of each changed partition, once per turn."""

from __future__ import annotations

from barnabas.channel.messages import PartitionState, WatchedPartition
from barnabas_logstore.core.replica.partition import Partition, PartitionKey
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import WatchStream


class Watches:
    """Keyed by topic id and partition, hosted here or not: a watch outlives the replica, and may come before it."""

    def __init__(self, replicas: Replicas, outbox: Outbox) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._streams: dict[PartitionKey, dict[WatchStream, None]] = {}
        # To be published at the end of this turn: to everybody who watches, or only to those who have just begun to.
        self._changed: dict[PartitionKey, None] = {}
        self._begun: dict[PartitionKey, dict[WatchStream, None]] = {}
        self.coordinated: dict[Partition, None] = {}
        """What has changed of the topic that this logstore's own coordinator follows; for it to take."""

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
        """Something that a PartitionState tells of is different from before."""
        if partition.key in self._streams:
            self._changed[partition.key] = None
        if partition.is_coordinated:
            self.coordinated[partition] = None

    def publish(self) -> None:
        """Put the newest states into this turn's messages; what changed twice in a turn is told once."""
        if not self._changed and not self._begun:
            return
        for key in self._changed:
            self._begun.pop(key, None)
            self._tell(key, self._streams.get(key, {}))
        for key, streams in self._begun.items():
            self._tell(key, streams)
        self._changed, self._begun = {}, {}

    def _tell(self, key: PartitionKey, streams: dict[WatchStream, None]) -> None:
        partition = self._replicas.by_key.get(key)
        # Not here (any more): no directory of ours is at fault.
        state = PartitionState(*key, online=True) if partition is None else partition.state()
        for stream in streams:
            self._outbox.watch_response(stream).states.append(state)
