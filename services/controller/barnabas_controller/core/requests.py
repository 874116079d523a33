"""Requests of members: which are taken up, what they write, and what their answers wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from barnabas.cluster.keys import ProducerIdsRecord
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReassignmentsRequest,
    AlterReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from barnabas.wire.errors import ErrorCode
from barnabas.wire.primitives import Steps
from barnabas_controller.core.chunk_changes import PartitionKey
from barnabas_controller.core.config_changes import alter_configs
from barnabas_controller.core.control_links import ControlLinks
from barnabas_controller.core.drains import Drains
from barnabas_controller.core.effects import Effect, Reject, Respond
from barnabas_controller.core.elections_on_demand import LeadersOnDemand
from barnabas_controller.core.image import ControllerImage
from barnabas_controller.core.liveness import LogstoreLiveness
from barnabas_controller.core.min_isr_changes import MinInsyncReplicasChanges
from barnabas_controller.core.operator_requests import DrainNode, PauseBalance, RemoveNode, ReturnNode
from barnabas_controller.core.operators import Operators
from barnabas_controller.core.partition_creation import create_partitions
from barnabas_controller.core.reassignments import Reassignments
from barnabas_controller.core.request_answers import Request, Response, at_revision, elements_of, not_done, timed_out
from barnabas_controller.core.subscriptions import Subscriptions
from barnabas_controller.core.topic_creation import TopicDefaults, create_topics
from barnabas_controller.core.topic_deletion import delete_topics
from barnabas_controller.core.topic_rules import TopicRulesTable
from barnabas_controller.core.writes import Step, Write, pack, put, written

PRODUCER_ID_BLOCK = 1000
_EVERY_PARTITION = -1
_ALLOCATE_TIMEOUT_MS = 5000
# Unwritten and unanswered ones together: more come than etcd takes, and each that waits costs memory and a look per
# turn. An answer at once that clients retry is better than one that is late for everybody.
REQUESTS_MAX = 1000
# Of requests that a turn decides about, some 100 µs each: the lease is renewed between turns. New partitions of one
# request may take several turns; what else one request may name is bounded by the gateways.
ELEMENTS_PER_TURN = 200


@dataclass(slots=True)
class Waiting:
    """A request being answered: what the answer will say, and what has to be so before it is given."""

    request_id: int
    deadline_ms: int
    response: Response
    # By the position of the result: the partition whose leader has to lead it, or _EVERY_PARTITION of a topic.
    must_be_led: list[PartitionKey | None] = field(default_factory=list)
    # All that are up, be it for their own partitions or to describe those of others.
    logstores_must_know: bool = False
    gateways_must_know: bool = True
    # The revision that makes the answer true; -1 while it is not written.
    revision: int = -1


_Decision: TypeAlias = tuple[Waiting, list[Step]]


@dataclass(slots=True)
class _Job:
    """The Txns of one request, in order."""

    steps: deque[Step]
    waiting: Waiting


class Requests:
    """One request is written at a time, in the order of arrival; REQUESTS_MAX wait, for that or for their answer."""

    def __init__(
        self,
        image: ControllerImage,
        defaults: TopicDefaults,
        new_topic_id: Callable[[], bytes],
        links: ControlLinks,
        subscriptions: Subscriptions,
        liveness: LogstoreLiveness,
        rules: TopicRulesTable,
        drains: Drains,
        wall_ms: Callable[[], int],
    ) -> None:
        self._image = image
        self._defaults = defaults
        self._new_topic_id = new_topic_id
        self._links = links
        self._subscriptions = subscriptions
        self._liveness = liveness
        self._leaders = LeadersOnDemand(image, liveness, rules)
        self._reassignments = Reassignments(image, liveness, rules)
        self._operators = Operators(image, liveness, rules, drains, wall_ms)
        self._min_isr_changes = MinInsyncReplicasChanges(image, links, rules)
        self._queue: deque[tuple[int, Request, int]] = deque()
        self._deciding: tuple[int, Steps[_Decision]] | None = None
        """Id of the request that is decided over several turns; nothing else is decided meanwhile."""
        self._job: _Job | None = None
        self._waiting: dict[int, Waiting] = {}
        self._turn_is_full = False

    def add(self, request_id: int, request: Request, now_ms: int) -> list[Effect]:
        """Take it up, or answer at once that it was not done."""
        if len(self._queue) + len(self._waiting) + (self._deciding is not None) >= REQUESTS_MAX:
            return [Respond(request_id, not_done(request, f"the controller is busy: {REQUESTS_MAX} requests wait"))]
        timeout_ms = _ALLOCATE_TIMEOUT_MS if isinstance(request, AllocateProducerIdsRequest) else request.timeout_ms
        self._queue.append((request_id, request, now_ms + max(0, timeout_ms)))
        return []

    @property
    def has_more(self) -> bool:
        """There is something to decide that the last turn had no time for."""
        return self._job is None and self._turn_is_full

    def next_step(self) -> tuple[list[Write], list[Effect]]:
        """What to write next for requests, none when there is nothing; and answers that need no writing.

        A turn decides about `ELEMENTS_PER_TURN` elements: where they are used up, `has_more` asks for another turn.
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
                    self._deciding = request_id, self._decide(request_id, request, deadline_ms)
                elements_left, decision = self._decided(elements_left)
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
            # What it was to change has become so, or is gone, since it was decided.
            self.on_step_committed()
        return [], effects

    def _decided(self, elements_max: int) -> tuple[int, _Decision | None]:
        """Go on with the request that is being decided. Return how many elements are left, and the decision, or None
        where they are used up before."""
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
        """Nobody is answered yet: what is written has to be known, too."""
        job = self._job
        assert job is not None
        job.steps.popleft()
        if not job.steps:
            job.waiting.revision = self._subscriptions.published_revision
            self._job = None
            self._min_isr_changes.committed(job.waiting.revision)
        return []

    def answers(self, now_ms: int) -> list[Effect]:
        """Answers to everything that has become true, or whose time is over."""
        effects: list[Effect] = []
        for waiting in list(self._waiting.values()):
            if self._fulfilled(waiting):
                effects.append(Respond(waiting.request_id, at_revision(waiting.response, waiting.revision)))
            elif now_ms >= waiting.deadline_ms:
                are_led = [self._is_led(key, waiting.revision) for key in waiting.must_be_led]
                effects.append(Respond(waiting.request_id, timed_out(waiting.response, waiting.revision, are_led)))
            else:
                continue
            del self._waiting[waiting.request_id]
        expired = [each for each in self._queue if now_ms >= each[2]]
        for each in expired:
            self._queue.remove(each)
            effects.append(Respond(each[0], not_done(each[1], ErrorCode.REQUEST_TIMED_OUT.message)))
        return effects

    def abandon(self) -> list[Effect]:
        """Nothing is answered here any more; only what was not begun has certainly changed nothing."""
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

    def _decide(self, request_id: int, request: Request, deadline_ms: int) -> Steps[_Decision]:
        """What is answered, and the Txns that make it true."""
        image, live = self._image, self._liveness.current()
        # Where nothing is written: the gateway waits for this one, and must not wait for one that it is never told.
        known_revision = self._subscriptions.published_revision
        match request:
            case CreateTopicsRequest():
                creation = yield from create_topics(image, request, self._defaults, self._new_topic_id, live)
                ids = [b"" if request.validate_only or each.error_code else each.topic_id for each in creation.results]
                response = CreateTopicsResponse(creation.results, known_revision)
                return Waiting(request_id, deadline_ms, response, _whole(ids)), _fixed(creation.writes)
            case DeleteTopicsRequest():
                deletion = delete_topics(image, request)
                return (
                    Waiting(request_id, deadline_ms, DeleteTopicsResponse(deletion.results, known_revision)),
                    _fixed(deletion.writes),
                )
            case AlterConfigsRequest():
                changes = alter_configs(image, request)
                waiting = Waiting(
                    request_id,
                    deadline_ms,
                    AlterConfigsResponse(changes.results, known_revision),
                    logstores_must_know=True,
                )
                return waiting, [*self._min_isr_changes.begin(changes.min_isr_topic_ids), *changes.steps]
            case CreatePartitionsRequest():
                growth = yield from create_partitions(image, request, live)
                answer = CreatePartitionsResponse(growth.results, known_revision)
                return Waiting(request_id, deadline_ms, answer, _whole(growth.topic_ids)), growth.steps
            case ElectLeadersRequest():
                elections = self._leaders.elect(request)
                elected = ElectLeadersResponse(elections.results, known_revision)
                return Waiting(request_id, deadline_ms, elected, elections.elected), elections.steps
            case AlterReassignmentsRequest():
                moves = self._reassignments.alter(request)
                moved = AlterReassignmentsResponse(moves.results, known_revision)
                return Waiting(request_id, deadline_ms, moved), moves.steps
            case AllocateProducerIdsRequest() if image.keys.producer_ids in image.unreadable:
                # From the beginning they would be ids that others have.
                unreadable = f"{image.keys.producer_ids} in etcd is unreadable"
                return Waiting(request_id, deadline_ms, not_done(request, unreadable)), []
            case AllocateProducerIdsRequest():
                first = image.next_producer_id
                block = AllocateProducerIdsResponse(ErrorCode.NONE, first, PRODUCER_ID_BLOCK)
                record = ProducerIdsRecord(first + PRODUCER_ID_BLOCK)
                waiting = Waiting(request_id, deadline_ms, block, gateways_must_know=False)
                return waiting, _fixed([put(image.keys.producer_ids, record)])
            case DrainNode() | ReturnNode() | RemoveNode() | PauseBalance():
                outcome, steps = self._operators.decide(request)
                return Waiting(request_id, deadline_ms, outcome), steps
            case _:
                assert_never(request)

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
        if partition == _EVERY_PARTITION:
            return revision >= 0 and self._links.leaders_know(topic_id, revision)
        return revision >= 0 and self._links.leader_knows(topic_id, partition, revision)

    def balance(self, imbalance_percentage: int) -> list[Step]:
        """Elections that nobody has asked for."""
        return self._leaders.balance(imbalance_percentage)


def _whole(topic_ids: list[bytes]) -> list[PartitionKey | None]:
    return [(topic_id, _EVERY_PARTITION) if topic_id else None for topic_id in topic_ids]


def _fixed(writes: list[Write]) -> list[Step]:
    return [written(txn) for txn in pack(writes)]
