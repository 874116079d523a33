"""Requests of members: which are taken up, what they write, and what their answers wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import assert_never

from barnabas.cluster.keys import ProducerIdsRecord
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MembershipRequest,
    MembershipResponse,
)
from barnabas.wire.errors import ErrorCode
from services.controller.core.config_changes import alter_configs
from services.controller.core.control_links import ControlLinks
from services.controller.core.effects import Effect, Reject, Respond
from services.controller.core.image import ControllerImage
from services.controller.core.partition_creation import create_partitions
from services.controller.core.subscriptions import Subscriptions
from services.controller.core.topic_creation import NO_TOPIC_ID, TopicDefaults, create_topics
from services.controller.core.topic_deletion import delete_topics
from services.controller.core.writes import Step, Write, pack, put, written

PRODUCER_ID_BLOCK = 1000
_ALLOCATE_TIMEOUT_MS = 5000
# Unwritten and unanswered ones together: more come than etcd takes, and each that waits costs memory and a look per
# turn. An answer at once that clients retry is better than one that is late for everybody.
REQUESTS_MAX = 1000


@dataclass(slots=True)
class Waiting:
    """A request being answered: what the answer will say, and what has to be so before it is given."""

    request_id: int
    deadline_ms: int
    response: MembershipResponse
    # Topics whose leaders have to lead them, by the position of their result; b"" where there is none.
    created_topic_ids: list[bytes] = field(default_factory=list)
    # All that are up, be it for their own partitions or to describe those of others.
    logstores_must_know: bool = False
    gateways_must_know: bool = True
    # The revision that makes the answer true; -1 while it is not written.
    revision: int = -1


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
    ) -> None:
        self._image = image
        self._defaults = defaults
        self._new_topic_id = new_topic_id
        self._links = links
        self._subscriptions = subscriptions
        self._queue: deque[tuple[int, MembershipRequest, int]] = deque()
        self._job: _Job | None = None
        self._waiting: dict[int, Waiting] = {}

    def add(self, request_id: int, request: MembershipRequest, now_ms: int) -> list[Effect]:
        """Take it up, or answer at once that it was not done."""
        if len(self._queue) + len(self._waiting) >= REQUESTS_MAX:
            return [Respond(request_id, _not_done(request, f"the controller is busy: {REQUESTS_MAX} requests wait"))]
        timeout_ms = _ALLOCATE_TIMEOUT_MS if isinstance(request, AllocateProducerIdsRequest) else request.timeout_ms
        self._queue.append((request_id, request, now_ms + max(0, timeout_ms)))
        return []

    def next_step(self) -> tuple[list[Write], list[Effect]]:
        """What to write next for requests, none when there is nothing; and answers that need no writing."""
        effects: list[Effect] = []
        while self._job is None and self._queue:
            request_id, request, deadline_ms = self._queue.popleft()
            waiting, steps = self._decide(request_id, request, deadline_ms)
            if steps:
                self._job = _Job(deque(steps), waiting)
                self._waiting[request_id] = waiting
            else:
                effects.append(Respond(request_id, waiting.response))
        return (self._job.steps[0]() if self._job is not None else []), effects

    def on_step_committed(self) -> None:
        job = self._job
        assert job is not None
        job.steps.popleft()
        if not job.steps:
            job.waiting.revision = self._image.revision
            self._job = None

    def answers(self, now_ms: int) -> list[Effect]:
        """Answers to everything that has become true, or whose time is over."""
        effects: list[Effect] = []
        for waiting in list(self._waiting.values()):
            if self._fulfilled(waiting):
                effects.append(Respond(waiting.request_id, _at_revision(waiting.response, waiting.revision)))
            elif now_ms >= waiting.deadline_ms:
                effects.append(Respond(waiting.request_id, self._timed_out(waiting)))
            else:
                continue
            del self._waiting[waiting.request_id]
        expired = [each for each in self._queue if now_ms >= each[2]]
        for each in expired:
            self._queue.remove(each)
            effects.append(Respond(each[0], _not_done(each[1], ErrorCode.REQUEST_TIMED_OUT.message)))
        return effects

    def abandon(self) -> list[Effect]:
        """Nothing is answered here any more; only what was not begun has certainly changed nothing."""
        effects: list[Effect] = [Reject(request_id, untouched=True) for request_id, _, _ in self._queue]
        effects += [Reject(request_id, untouched=False) for request_id in self._waiting]
        self._queue.clear()
        self._waiting.clear()
        self._job = None
        return effects

    def due_ms(self) -> int | None:
        """The next deadline."""
        deadlines = [each.deadline_ms for each in self._waiting.values()] + [each[2] for each in self._queue]
        return min(deadlines, default=None)

    def _decide(self, request_id: int, request: MembershipRequest, deadline_ms: int) -> tuple[Waiting, list[Step]]:
        image = self._image
        # Where nothing is written: the gateway waits for this one, and must not wait for one that it is never told.
        known_revision = self._subscriptions.published_revision
        match request:
            case CreateTopicsRequest():
                creation = create_topics(image, request, self._defaults, self._new_topic_id)
                created = [topic.topic_id for topic in creation.created]
                response = CreateTopicsResponse(creation.results, known_revision)
                return Waiting(request_id, deadline_ms, response, created), _fixed(creation.writes)
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
                return waiting, changes.steps
            case CreatePartitionsRequest():
                growth = create_partitions(image, request)
                answer = CreatePartitionsResponse(growth.results, known_revision)
                return Waiting(request_id, deadline_ms, answer, growth.topic_ids), growth.steps
            case AllocateProducerIdsRequest():
                first = image.next_producer_id
                block = AllocateProducerIdsResponse(ErrorCode.NONE, first, PRODUCER_ID_BLOCK)
                record = ProducerIdsRecord(first + PRODUCER_ID_BLOCK)
                waiting = Waiting(request_id, deadline_ms, block, gateways_must_know=False)
                return waiting, _fixed([put(image.keys.producer_ids, record)])
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
        return all(self._links.leaders_know(topic_id, revision) for topic_id in waiting.created_topic_ids if topic_id)

    def _timed_out(self, waiting: Waiting) -> MembershipResponse:
        """What is not true by the deadline, and may become so, has timed out; a gateway behind does not count."""
        response = waiting.response
        code = ErrorCode.REQUEST_TIMED_OUT
        match response:
            case CreateTopicsResponse():
                created = [
                    replace(result, error_code=code, error_message=code.message)
                    if result.error_code == ErrorCode.NONE and not self._led(result.topic_id, waiting.revision)
                    else result
                    for result in response.results
                ]
                return CreateTopicsResponse(created, waiting.revision)
            case DeleteTopicsResponse():
                deleted = [
                    replace(result, error_code=code, error_message=code.message)
                    if result.error_code == ErrorCode.NONE and waiting.revision < 0
                    else result
                    for result in response.results
                ]
                return DeleteTopicsResponse(deleted, waiting.revision)
            case AlterConfigsResponse():
                # A logstore that has not heard of it yet will: that is no reason to call what is done undone.
                altered = [
                    AlterConfigsResult(code, code.message)
                    if result.error_code == ErrorCode.NONE and waiting.revision < 0
                    else result
                    for result in response.results
                ]
                return AlterConfigsResponse(altered, waiting.revision)
            case CreatePartitionsResponse():
                grown = [
                    CreatePartitionsResult(code, code.message)
                    if result.error_code == ErrorCode.NONE and not self._led(topic_id, waiting.revision)
                    else result
                    for result, topic_id in zip(response.results, waiting.created_topic_ids, strict=True)
                ]
                return CreatePartitionsResponse(grown, waiting.revision)
            case AllocateProducerIdsResponse():
                return AllocateProducerIdsResponse(code, first_producer_id=-1, length=0)
            case _:
                assert_never(response)

    def _led(self, topic_id: bytes, revision: int) -> bool:
        return revision >= 0 and self._links.leaders_know(topic_id, revision)


def _fixed(writes: list[Write]) -> list[Step]:
    return [written(txn) for txn in pack(writes)]


def _at_revision(response: MembershipResponse, revision: int) -> MembershipResponse:
    if isinstance(response, AllocateProducerIdsResponse):
        return response
    return replace(response, revision=revision)


def _not_done(request: MembershipRequest, why: str) -> MembershipResponse:
    """The answer to a request that was not begun: it has certainly changed nothing."""
    code = ErrorCode.REQUEST_TIMED_OUT
    match request:
        case CreateTopicsRequest():
            not_created = [CreateTopicResult(each.topic, NO_TOPIC_ID, code, why) for each in request.topics]
            return CreateTopicsResponse(not_created, revision=-1)
        case DeleteTopicsRequest():
            not_deleted = [DeleteTopicResult(each.topic, each.topic_id, code, why) for each in request.topics]
            return DeleteTopicsResponse(not_deleted, revision=-1)
        case AlterConfigsRequest():
            return AlterConfigsResponse([AlterConfigsResult(code, why) for _ in request.resources], revision=-1)
        case CreatePartitionsRequest():
            return CreatePartitionsResponse([CreatePartitionsResult(code, why) for _ in request.topics], revision=-1)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(code, first_producer_id=-1, length=0)
        case _:
            assert_never(request)
