"""Administration: the calls under way, and their share of each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from barnabas.cluster.administration import (
    AdministrationRequest,
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    EndOffsetsRequest,
)
from barnabas_logstore.core.administration.configs import Configs
from barnabas_logstore.core.administration.delete_records import DeleteRecords
from barnabas_logstore.core.administration.end_offsets import EndOffsets
from barnabas_logstore.core.administration.log_dirs import LogDirs
from barnabas_logstore.core.administration.producers import Producers
from barnabas_logstore.core.administration.replica_moves import ReplicaMoves
from barnabas_logstore.core.administration.work import Pause, Work
from barnabas_logstore.core.maintenance.alter_replica_log_dirs import AlterReplicaLogDirs
from barnabas_logstore.core.maintenance.directories import Directories
from barnabas_logstore.core.maintenance.retention import Retention
from barnabas_logstore.core.replica.broker_settings import BrokerSettings
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox

CALLS_MAX: Final = 256
"""Under way at once. Gateways ask for less; beyond it somebody else does."""
PIECES_PER_STEP: Final = 16
"""A quarter of what a data step does: however much is asked here, records have most of the time."""

Answer: TypeAlias = Callable[[Any, int], Work]
"""A room's method for one kind of request, with `now_ms`."""


class Administration:
    """A call is under way until it is answered (`Outgoing.administration`) or its caller is gone."""

    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        settings: BrokerSettings,
        retention: Retention,
        moves: AlterReplicaLogDirs,
        outbox: Outbox,
    ) -> None:
        self._outbox = outbox
        self._rooms: dict[type[AdministrationRequest], Answer] = {
            EndOffsetsRequest: EndOffsets(replicas).answer,
            DescribeConfigsRequest: Configs(replicas, settings).answer,
            DescribeProducersRequest: Producers(replicas).answer,
            DeleteRecordsRequest: DeleteRecords(replicas, retention).answer,
            DescribeLogDirsRequest: LogDirs(replicas, directories, moves, outbox, self.poke).answer,
            AlterReplicaLogDirsRequest: ReplicaMoves(moves).answer,
        }
        self._calls: dict[int, AdministrationRequest | Work] = {}
        """By call id: what is not begun yet, and what is."""
        self._runnable: deque[int] = deque()
        self._waiting: dict[int, None] = {}
        self._is_poked = False

    def on_call(self, call_id: int, request: AdministrationRequest) -> bool:
        """Take a call with an id never used before; False: it is refused, and nothing has been done."""
        if type(request) not in self._rooms or len(self._calls) >= CALLS_MAX:
            return False
        self._calls[call_id] = request
        self._runnable.append(call_id)
        return True

    def on_cancelled(self, call_id: int) -> None:
        """Nobody waits for the answer any more. What is done stays done."""
        call = self._calls.pop(call_id, None)
        self._waiting.pop(call_id, None)
        if isinstance(call, Generator):
            call.close()

    @property
    def has_work(self) -> bool:
        """Something can be done now."""
        return bool(self._runnable) or (self._is_poked and bool(self._waiting))

    def poke(self) -> None:
        """Something that a waiting call may wait for has come about: all of them look in the next step."""
        self._is_poked = True

    def step(self, now_ms: int) -> None:
        """A bounded piece of what can be done, a piece of each call in turn."""
        if self._is_poked:
            self._is_poked = False
            self._runnable.extend(self._waiting)
            self._waiting.clear()
        runnable = self._runnable
        for _ in range(PIECES_PER_STEP):
            if not runnable:
                return
            call_id = runnable.popleft()
            call = self._calls.get(call_id)
            if call is not None:
                self._go_on(call_id, call, now_ms)

    def _go_on(self, call_id: int, call: AdministrationRequest | Work, now_ms: int) -> None:
        try:
            if isinstance(call, Generator):
                pause = call.send(now_ms)
            else:
                work = self._calls[call_id] = self._rooms[type(call)](call, now_ms)
                pause = next(work)
        except StopIteration as end:
            del self._calls[call_id]
            self._outbox.answer_administration(call_id, end.value)
            return
        if pause is Pause.MORE:
            self._runnable.append(call_id)
        else:
            self._waiting[call_id] = None
