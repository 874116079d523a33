"""The control inbox: commands of the controller, fenced, in their order and in bounded steps.

Fenced twice before anything else (KIP-380): a controller epoch below the highest seen is STALE_CONTROLLER_EPOCH, a
broker epoch that is not that of our registration is STALE_BROKER_EPOCH. What the commands do: `control_commands`.

Commands are carried out one after the other, and all that have arrived before each data step. A command with many
partitions is spread over steps, so that it does not delay records: creating a log takes 0.2 ms, deleting one 0.1 ms,
learning the state of an existing partition 0.01 ms. It is answered after the last partition, and no command begins
before the previous one is answered.
"""

from __future__ import annotations

from collections import deque

from barnabas.cluster.messages import ControlRequest, ControlResponse
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.control.control_commands import ControlCommands, Pause, Work
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox

LOGS_MADE_PER_STEP = 2
REPLICAS_STOPPED_PER_STEP = 8
STATES_LEARNED_PER_STEP = 256

# A step goes on until it has spent as much.
_STEP_COST = STATES_LEARNED_PER_STEP
_COSTS = {
    Pause.LOG_MADE: _STEP_COST // LOGS_MADE_PER_STEP,
    Pause.REPLICA_STOPPED: _STEP_COST // REPLICAS_STOPPED_PER_STEP,
    Pause.STATE_LEARNED: 1,
}


class ControlInbox:
    def __init__(self, replicas: Replicas, commands: ControlCommands, outbox: Outbox) -> None:
        self._replicas = replicas
        self._commands = commands
        self._outbox = outbox
        self._controller_epoch = -1
        self._inbox: deque[tuple[int, ControlRequest]] = deque()
        # The command being carried out, if it is not done yet.
        self._work: tuple[int, int, Work] | None = None
        self.waits_for_disk = False

    def enqueue(self, session_id: int, request: ControlRequest) -> None:
        """A command has come."""
        self._inbox.append((session_id, request))

    @property
    def has_work(self) -> bool:
        """Whether anything can be done now; not while a disk has to finish first."""
        return bool(self._inbox) if self._work is None else not self.waits_for_disk

    @property
    def is_idle(self) -> bool:
        return self._work is None and not self._inbox

    def on_io_done(self) -> None:
        """A disk has finished something: a command that waits for it may continue."""
        self.waits_for_disk = False

    def step(self, now_ms: int) -> None:
        """Carry out all commands that have arrived, or a part if they have many partitions."""
        self._commands.now_ms = now_ms
        left = _STEP_COST
        while left > 0 and (self._work is not None or self._inbox):
            if self._work is None:
                self._begin(*self._inbox.popleft())
                continue
            session_id, sequence, work = self._work
            try:
                pause = next(work)
            except StopIteration as end:
                self._work = None
                errors, without_room = end.value
                response = ControlResponse(sequence, ErrorCode.NONE, errors, without_room=without_room)
                self._outbox.answer_control(session_id, response)
                continue
            self.waits_for_disk = pause is Pause.DISK_BUSY
            if self.waits_for_disk:
                return
            left -= _COSTS[pause]

    def _begin(self, session_id: int, request: ControlRequest) -> None:
        """Refuse a command as a whole, or have it as `_work`."""
        error, work = ErrorCode.NONE, None
        if request.controller_epoch < self._controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        elif request.broker_epoch != self._replicas.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
        else:
            work = self._commands.begin(request)
            if work is None:
                error = ErrorCode.INVALID_REQUEST
        self._controller_epoch = max(self._controller_epoch, request.controller_epoch)
        if work is None:
            self._outbox.answer_control(session_id, ControlResponse(request.sequence, error, []))
        else:
            self._work = (session_id, request.sequence, work)
