"""Four ways for a logstore to take commands in beside its data: ours, and three that exist here alone.

All four are the product's node with its listeners, its control process, its loop, disk and workers, and all end in the
same LogstoreCore; they differ in what lies before the core's inboxes. The three others have one bounded channel of
`queued.max.requests` places, as a broker whose network threads put everything into one request queue. What finds no
place waits at the door in the order of arrival: a network thread that is blocked in `put`, with what its sockets hold
behind that. Fairness leans towards the others: they keep the control process of their own, so only the queue differs,
and places are free as soon as the core takes a request, not when it is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, TypeAlias, assert_never

from barnabas.channel.messages import Append, ExchangeRequest, OffsetQuery, StateQuery
from barnabas.cluster.messages import ControlRequest
from barnabas.ports.compression import Codecs
from bench.control.backlog import FIRST_STREAM_ID, BacklogSource
from bench.control.recording import EpochKey, Event, Recording, epochs_of
from services.logstore.core.config import LogstoreConfig
from services.logstore.core.coordinator.groups.joining import MakeMemberId
from services.logstore.core.logstore import LogstoreCore
from services.logstore.core.storage.directories.log_directory import LogDirectory, OpenedPartition
from services.logstore.core.streams.outbox import Outgoing

RESERVED_PLACES = 16
# Credit is no bound in the designs with a channel of their own: places are.
_UNLIMITED = 1 << 30

_Data: TypeAlias = tuple[int, Append | OffsetQuery | StateQuery]
_Command: TypeAlias = tuple[int, ControlRequest]


class Design(StrEnum):
    SEPARATE = "separate"
    ONE_QUEUE = "one queue"
    PRIORITY = "priority in one queue"
    RESERVED = "reserved slots in one queue"


class Separate(LogstoreCore):
    """The product's own core, given a backlog; commands are noted as they come and as they are answered."""

    recording: ClassVar[Recording]
    backlog_path: ClassVar[Path]

    def __init__(
        self,
        config: LogstoreConfig,
        directories: Sequence[LogDirectory],
        loaded: Sequence[OpenedPartition],
        codecs: Codecs,
        make_member_id: MakeMemberId,
        read_us: Callable[[], int],
    ) -> None:
        super().__init__(config, directories, loaded, codecs, make_member_id, read_us)
        self._unanswered: dict[tuple[int, int], list[EpochKey]] = {}
        self._backlog = BacklogSource(self.backlog_path)

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self._backlog.look(self)

    def on_control(self, session_id: int, request: ControlRequest) -> None:
        self._note_arrival(session_id, request)
        super().on_control(session_id, request)

    def _note_arrival(self, session_id: int, request: ControlRequest) -> None:
        epochs = epochs_of(request)
        if epochs:
            self._unanswered[session_id, request.sequence] = epochs
            self.recording.note(Event.ARRIVED, epochs, requests_waiting=self._requests_waiting())

    def _requests_waiting(self) -> int:
        return len(self._data_inbox)

    def take_outgoing(self) -> Outgoing:
        outgoing = super().take_outgoing()
        for session_id, response in outgoing.controls:
            epochs = self._unanswered.pop((session_id, response.sequence), None)
            if epochs is not None:
                self.recording.note(Event.APPLIED, epochs)
        ours = [each for each in outgoing.exchanges if each[0] >= FIRST_STREAM_ID]
        if ours:
            outgoing.exchanges = [each for each in outgoing.exchanges if each[0] < FIRST_STREAM_ID]
            for stream_id, exchanged in ours:
                self._backlog.take(stream_id, exchanged)
            self._backlog.top_up(self)
        return outgoing


class OneQueue(Separate):
    """Commands and data in one bounded channel, first come, first served."""

    overtakes: ClassVar[bool] = False
    """Commands that are in the channel leave it before data."""
    reserved_places: ClassVar[int] = 0
    """Places that only commands may take."""

    def __init__(
        self,
        config: LogstoreConfig,
        directories: Sequence[LogDirectory],
        loaded: Sequence[OpenedPartition],
        codecs: Codecs,
        make_member_id: MakeMemberId,
        read_us: Callable[[], int],
    ) -> None:
        unbounded = replace(config, queued_requests_max=_UNLIMITED, queued_request_bytes_max=_UNLIMITED)
        super().__init__(unbounded, directories, loaded, codecs, make_member_id, read_us)
        self._places = config.queued_requests_max
        self._step_requests_max = config.step_requests_max
        self._door: deque[_Data | _Command] = deque()
        self._channel: deque[_Data | _Command] = deque()
        self._overtaking: deque[_Command] = deque()
        self._commands_inside = 0
        self._open_streams: set[int] = set()

    def on_exchange(self, stream_id: int, request: ExchangeRequest) -> None:
        self._open_streams.add(stream_id)
        if request.hello is not None:
            super().on_exchange(stream_id, ExchangeRequest(hello=request.hello))
        self._door.extend([(stream_id, append) for append in request.appends])
        self._door.extend([(stream_id, query) for query in request.offset_queries])
        self._door.extend([(stream_id, query) for query in request.state_queries])
        self._open_door()

    def on_stream_closed(self, stream_id: int) -> None:
        self._open_streams.discard(stream_id)
        super().on_stream_closed(stream_id)

    def on_control(self, session_id: int, request: ControlRequest) -> None:
        self._note_arrival(session_id, request)
        if self._commands_inside < self.reserved_places:
            self._enter(session_id, request)
        else:
            self._door.append((session_id, request))
            self._open_door()

    @property
    def has_work(self) -> bool:
        return bool(self._door or self._channel or self._overtaking) or super().has_work

    def step(self, now_ms: int, wall_ms: int) -> None:
        self._open_door()
        while self._overtaking:
            self._carry_out(*self._overtaking.popleft())
        self._leave()
        super().step(now_ms, wall_ms)

    def _requests_waiting(self) -> int:
        return len(self._door) + len(self._channel) + super()._requests_waiting()

    def _open_door(self) -> None:
        """Nobody passes another there."""
        door = self._door
        while door and len(self._channel) + len(self._overtaking) < self._places:
            peer_id, waiting = door[0]
            data_inside = len(self._channel) + len(self._overtaking) - self._commands_inside
            if not isinstance(waiting, ControlRequest) and data_inside >= self._places - self.reserved_places:
                return
            door.popleft()
            self._enter(peer_id, waiting)

    def _enter(self, peer_id: int, request: Append | OffsetQuery | StateQuery | ControlRequest) -> None:
        if not isinstance(request, ControlRequest):
            self._channel.append((peer_id, request))
            return
        self._commands_inside += 1
        if self.overtakes:
            self._overtaking.append((peer_id, request))
        else:
            self._channel.append((peer_id, request))

    def _leave(self) -> None:
        """As many requests as the core's next step takes; a command with data before it is for the step after."""
        channel, turn = self._channel, ExchangeRequest()
        last_stream = -1
        room = self._step_requests_max - len(self._data_inbox)
        while channel and room > 0:
            peer_id, request = channel[0]
            if isinstance(request, ControlRequest):
                if last_stream >= 0:
                    break
                self._carry_out(peer_id, request)
            elif peer_id in self._open_streams:
                if peer_id != last_stream:
                    self._hand_over(last_stream, turn)
                    last_stream, turn = peer_id, ExchangeRequest()
                _add(turn, request)
            channel.popleft()
            room -= 1
        self._hand_over(last_stream, turn)

    def _hand_over(self, stream_id: int, turn: ExchangeRequest) -> None:
        if stream_id >= 0:
            super().on_exchange(stream_id, turn)

    def _carry_out(self, session_id: int, command: ControlRequest) -> None:
        self._commands_inside -= 1
        LogstoreCore.on_control(self, session_id, command)


class Priority(OneQueue):
    """The same channel; a command overtakes the data in it, once it is in."""

    overtakes = True


class Reserved(OneQueue):
    """The same channel, with places that data may not take; a command is always in at once, and then waits its turn."""

    reserved_places = RESERVED_PLACES


CORES: Mapping[Design, type[Separate]] = {
    Design.SEPARATE: Separate,
    Design.ONE_QUEUE: OneQueue,
    Design.PRIORITY: Priority,
    Design.RESERVED: Reserved,
}


def _add(turn: ExchangeRequest, request: Append | OffsetQuery | StateQuery) -> None:
    match request:
        case Append():
            turn.appends.append(request)
        case OffsetQuery():
            turn.offset_queries.append(request)
        case StateQuery():
            turn.state_queries.append(request)
        case _:
            assert_never(request)
