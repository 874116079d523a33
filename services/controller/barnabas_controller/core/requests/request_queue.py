"""Requests of members and operators in their order: which are taken up, and what their answers wait for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from barnabas.containment import Containment, Place, Scope
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.elections.min_isr_changes import MinInsyncReplicasChanges
from barnabas_controller.core.members.control_links import ControlLinks
from barnabas_controller.core.members.subscriptions import Subscriptions
from barnabas_controller.core.requests.request_answers import (
    Request,
    at_revision,
    elements_of,
    not_done,
    timed_out,
    timeout_of,
)
from barnabas_controller.core.requests.request_decisions import EVERY_PARTITION, Decision, RequestDecisions, Waiting
from barnabas_controller.core.state.chunk_changes import PartitionKey
from barnabas_controller.core.state.effects import Effect, Reject, Respond
from barnabas_controller.core.state.writes import Step, Write

# Unwritten and unanswered ones together: a client may send more than etcd accepts, and each waiting request costs
# memory and a check per turn. An immediate answer that clients retry is better than a late one for all.
REQUESTS_MAX = 1000
# Elements of requests that a turn decides about, about 100 µs each: the lease is renewed between turns. The new
# partitions of one request may take several turns; the gateways bound what else one request may name.
ELEMENTS_PER_TURN = 200

REQUEST: Final = Place("controller.request", Scope.REQUEST, "a decision about a request, before it is written")
PLACES: Final = (REQUEST,)


@dataclass(slots=True)
class _Job:
    """The Txns of one request, in order."""

    steps: deque[Step]
    waiting: Waiting


class RequestQueue:
    """One request is written at a time, in order of arrival; up to REQUESTS_MAX wait for that or for their answer."""

    def __init__(
        self,
        decisions: RequestDecisions,
        links: ControlLinks,
        subscriptions: Subscriptions,
        min_isr_changes: MinInsyncReplicasChanges,
    ) -> None:
        self._decisions = decisions
        self._links = links
        self._subscriptions = subscriptions
        self._min_isr_changes = min_isr_changes
        self._queue: deque[tuple[int, Request, int]] = deque()
        self._deciding: tuple[int, Steps[Decision]] | None = None
        """Id of the request that is decided over several turns; no other is decided meanwhile."""
        self._decided_request: Request | None = None
        self.contained = Containment(PLACES)
        self._job: _Job | None = None
        self._waiting: dict[int, Waiting] = {}
        self._turn_is_full = False

    def enqueue(self, request_id: int, request: Request, now_ms: int) -> list[Effect]:
        """Take it up, or answer at once that it was not done."""
        if len(self._queue) + len(self._waiting) + (self._deciding is not None) >= REQUESTS_MAX:
            return [Respond(request_id, not_done(request, f"the controller is busy: {REQUESTS_MAX} requests wait"))]
        self._queue.append((request_id, request, now_ms + max(0, timeout_of(request))))
        return []

    @property
    def has_more(self) -> bool:
        """Whether the last turn ended with decisions left to make."""
        return self._job is None and self._turn_is_full

    def next_step(self) -> tuple[list[Write], list[Effect]]:
        """Return what to write next for requests, which may be empty, and the answers that need no write.

        A turn decides about `ELEMENTS_PER_TURN` elements: if they are used up, `has_more` asks for another turn.
        """
        effects: list[Effect] = []
        elements_left = ELEMENTS_PER_TURN
        self._turn_is_full = False
        while self._job is not None or self._deciding is not None or self._queue:
            if self._job is None:
                if elements_left <= 0:
                    self._turn_is_full = True
                    break
                if self._deciding is None:
                    request_id, request, deadline_ms = self._queue.popleft()
                    elements_left -= elements_of(request)
                    known_revision = self._subscriptions.published_revision
                    try:
                        decision_steps = self._decisions.decide(request_id, request, deadline_ms, known_revision)
                    except Exception as error:
                        effects.append(self._contain(request_id, request, error))
                        continue
                    self._deciding = request_id, decision_steps
                    self._decided_request = request
                deciding_id = self._deciding[0]
                try:
                    elements_left, decision = self._decided(elements_left)
                except Exception as error:
                    self._deciding = None
                    effects.append(self._contain(deciding_id, self._decided_request, error))
                    continue
                if decision is None:
                    continue
                waiting, steps = decision
                if not steps:
                    effects.append(Respond(waiting.request_id, waiting.response))
                    continue
                self._job = _Job(deque(steps), waiting)
                self._waiting[waiting.request_id] = waiting
            writes = self._job.steps[0]()
            if writes:
                return writes, effects
            # What it was to change has already become so, or is gone, since the decision.
            self.on_step_committed()
        return [], effects

    def _contain(self, request_id: int, request: Request | None, error: Exception) -> Effect:
        """A decision was ended by an unexpected exception. Nothing of it is written."""
        self.contained.contain(REQUEST, error, {"request": type(request).__name__, "request_id": request_id})
        if request is None:
            return Reject(request_id, untouched=True)
        return Respond(request_id, not_done(request, "an internal error of the controller: its log has the traceback"))

    def _decided(self, elements_max: int) -> tuple[int, Decision | None]:
        """Continue with the request that is being decided. Return how many elements are left, and the decision, or None
        if they are used up before."""
        assert self._deciding is not None
        _, steps = self._deciding
        try:
            elements_max -= next(steps)
            while elements_max > 0:
                elements_max -= next(steps)
        except StopIteration as end:
            self._deciding = None
            return elements_max, end.value
        return elements_max, None

    def on_step_committed(self) -> list[Effect]:
        """No request is answered yet: members have to know what is written, too."""
        job = self._job
        assert job is not None
        job.steps.popleft()
        if not job.steps:
            job.waiting.revision = self._subscriptions.published_revision
            self._job = None
            self._min_isr_changes.committed(job.waiting.revision)
        return []

    def answers(self, now_ms: int) -> list[Effect]:
        """Answer requests whose conditions hold, or whose deadline has passed."""
        effects: list[Effect] = []
        for waiting in list(self._waiting.values()):
            if self._fulfilled(waiting):
                effects.append(Respond(waiting.request_id, at_revision(waiting.response, waiting.revision)))
            elif now_ms >= waiting.deadline_ms:
                are_led = [self._is_led(key, waiting.revision) for key in waiting.must_be_led]
                late = timed_out(waiting.request, waiting.response, waiting.revision, are_led)
                effects.append(Respond(waiting.request_id, late))
            else:
                continue
            del self._waiting[waiting.request_id]
        expired = [each for each in self._queue if now_ms >= each[2]]
        for each in expired:
            self._queue.remove(each)
            effects.append(Respond(each[0], not_done(each[1], ErrorCode.REQUEST_TIMED_OUT.message)))
        return effects

    def abandon(self) -> list[Effect]:
        """Answer nothing any more; only requests that were not begun have certainly changed nothing."""
        effects: list[Effect] = [Reject(request_id, untouched=True) for request_id, _, _ in self._queue]
        effects += [Reject(request_id, untouched=False) for request_id in self._waiting]
        if self._deciding is not None:
            effects.append(Reject(self._deciding[0], untouched=True))
            self._deciding = None
        self._queue.clear()
        self._waiting.clear()
        self._job = None
        self._min_isr_changes.abandon()
        return effects

    def due_ms(self) -> int | None:
        """The next deadline."""
        deadlines = [each.deadline_ms for each in self._waiting.values()] + [each[2] for each in self._queue]
        return min(deadlines, default=None)

    def _fulfilled(self, waiting: Waiting) -> bool:
        revision = waiting.revision
        if revision < 0:
            return False
        if waiting.gateways_must_know and not self._subscriptions.gateways_know(revision):
            return False
        if waiting.logstores_must_know and not self._links.logstores_know(revision):
            return False
        return all(self._is_led(key, revision) for key in waiting.must_be_led)

    def _is_led(self, key: PartitionKey | None, revision: int) -> bool:
        if key is None:
            return True
        topic_id, partition = key
        if partition == EVERY_PARTITION:
            return revision >= 0 and self._links.leaders_know(topic_id, revision)
        return revision >= 0 and self._links.leader_knows(topic_id, partition, revision)
