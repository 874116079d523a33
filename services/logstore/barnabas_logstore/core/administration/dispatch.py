"""Administration: the calls in progress, and their share of each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from barnabas.cluster.administration import (
    AdministrationRequest,
    AlterBrokerLoggersRequest,
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    EndOffsetsRequest,
)
from barnabas_logstore.core.administration.broker_loggers import BrokerLoggers, LoggerLevels
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
from barnabas_logstore.core.replica.containment import ADMINISTRATION
from barnabas_logstore.core.replica.replicas import Replicas
from barnabas_logstore.core.streams.outbox import Outbox

CALLS_MAX: Final = 256
"""Calls in progress at once. Gateways send fewer; calls beyond this come from another kind of client and are
refused.
"""
PIECES_PER_STEP: Final = 16
"""A quarter of what a data step does: however many calls there are, records get most of the time."""

Answer: TypeAlias = Callable[[Any, int], Work]
"""The method for one kind of request, with `now_ms`."""


class Administration:
    """A call is under way until it is answered (`Outputs.administration`) or its caller is gone."""

    def __init__(
        self,
        replicas: Replicas,
        directories: Directories,
        settings: BrokerSettings,
        retention: Retention,
        moves: AlterReplicaLogDirs,
        outbox: Outbox,
        levels: LoggerLevels,
    ) -> None:
        loggers = BrokerLoggers(replicas.node_id, levels)
        self._outbox = outbox
        self._contained = replicas.contained
        self._answers: dict[type[AdministrationRequest], Answer] = {
            EndOffsetsRequest: EndOffsets(replicas).answer,
            DescribeConfigsRequest: Configs(replicas, settings, loggers).answer,
            DescribeProducersRequest: Producers(replicas).answer,
            DeleteRecordsRequest: DeleteRecords(replicas, retention).answer,
            DescribeLogDirsRequest: LogDirs(replicas, directories, moves, outbox, self.wake_waiting).answer,
            AlterReplicaLogDirsRequest: ReplicaMoves(moves).answer,
            AlterBrokerLoggersRequest: loggers.alter,
        }
        self._calls: dict[int, AdministrationRequest | Work] = {}
        """By call id: calls that have not begun, and calls that have."""
        self._runnable: deque[int] = deque()
        self._waiting: dict[int, None] = {}
        self._is_woken = False
        self._is_stopping = False

    def on_call(self, call_id: int, request: AdministrationRequest) -> bool:
        """Accept a call with an id never used before. Return False if it is refused, and nothing has been done."""
        if self._is_stopping or type(request) not in self._answers or len(self._calls) >= CALLS_MAX:
            return False
        self._calls[call_id] = request
        self._runnable.append(call_id)
        return True

    def on_cancelled(self, call_id: int) -> None:
        """The caller does not wait any more. What is done stays done."""
        call = self._calls.pop(call_id, None)
        self._waiting.pop(call_id, None)
        if isinstance(call, Generator):
            call.close()

    def stop(self) -> None:
        """Refuse calls from now on; those that have come are answered."""
        self._is_stopping = True

    @property
    def is_idle(self) -> bool:
        return not self.has_work

    @property
    def has_work(self) -> bool:
        """Whether anything can be done now."""
        return bool(self._runnable) or (self._is_woken and bool(self._waiting))

    @property
    def is_at_rest(self) -> bool:
        """Whether no call is unanswered."""
        return not (self._runnable or self._waiting)

    def wake_waiting(self) -> None:
        """Something has happened that a waiting call may wait for: all of them check in the next step."""
        self._is_woken = True

    def step(self, now_ms: int) -> None:
        """Do a bounded part of what can be done, a piece of each call in turn."""
        if self._is_woken:
            self._is_woken = False
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
                work = self._calls[call_id] = self._answers[type(call)](call, now_ms)
                pause = next(work)
        except StopIteration as end:
            del self._calls[call_id]
            self._outbox.answer_administration(call_id, end.value)
            return
        except Exception as error:
            self._calls.pop(call_id, None)
            self._contained.contain(ADMINISTRATION, error, {"call_id": call_id, "request": type(call).__name__})
            self._outbox.fail_administration(call_id)
            return
        if pause is Pause.MORE:
            self._runnable.append(call_id)
        else:
            self._waiting[call_id] = None
