"""Watches of purgatory pods on groups: the present state first, then the newest of each that has taken a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.channel.messages import GroupState, WatchedGroup
from barnabas_logstore.core.streams.outbox import Outbox
from barnabas_logstore.core.streams.streams import WatchStream

StateOf = Callable[[WatchedGroup], tuple[int, int]]
"""(coordinator epoch, or -1 where this logstore does not coordinate; step)."""


class GroupWatches:
    """A watch may come before the group, and outlives it and its coordinator here."""

    def __init__(self, outbox: Outbox, state_of: StateOf) -> None:
        self._outbox = outbox
        self._state_of = state_of
        self._streams: dict[WatchedGroup, dict[WatchStream, None]] = {}
        self._by_group: dict[str, dict[WatchedGroup, None]] = {}
        # What everybody who watches has been told, or is about to be.
        self._told: dict[WatchedGroup, tuple[int, int]] = {}
        # Those who have just begun to watch, and have been told nothing.
        self._begun: dict[WatchedGroup, dict[WatchStream, None]] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def watch(self, stream: WatchStream, watched: WatchedGroup) -> None:
        self._streams.setdefault(watched, {})[stream] = None
        self._by_group.setdefault(watched.group_id, {})[watched] = None
        self._begun.setdefault(watched, {})[stream] = None

    def unwatch(self, stream: WatchStream, watched: WatchedGroup) -> None:
        begun = self._begun.get(watched)
        if begun is not None:
            begun.pop(stream, None)
        streams = self._streams.get(watched)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[watched]
                self._told.pop(watched, None)
                self._forget(watched)

    def _forget(self, watched: WatchedGroup) -> None:
        of_that_name = self._by_group[watched.group_id]
        del of_that_name[watched]
        if not of_that_name:
            del self._by_group[watched.group_id]

    def close(self, stream: WatchStream) -> None:
        for watched in [watched for watched, streams in self._streams.items() if stream in streams]:
            self.unwatch(stream, watched)

    def publish(self, moved: Iterable[str] | None) -> None:
        """Put the newest states into this turn's messages: of these groups, or where nobody knows which, of all."""
        for group_id in list(self._by_group) if moved is None else moved:
            for watched in self._by_group.get(group_id, ()):
                told, state = self._told.get(watched), self._state_of(watched)
                if told is not None and state != told:
                    self._told[watched] = state
                    self._tell(watched, state, self._streams[watched])
        if self._begun:
            begun, self._begun = self._begun, {}
            for watched, streams in begun.items():
                if streams:
                    state = self._told[watched] = self._state_of(watched)
                    self._tell(watched, state, streams)

    def _tell(self, watched: WatchedGroup, state: tuple[int, int], streams: dict[WatchStream, None]) -> None:
        told = GroupState(watched.topic_id, watched.partition, watched.group_id, *state)
        for stream in streams:
            self._outbox.watch_response(stream).group_states.append(told)
