"""`PeerCalls`: calls of a coordinator to other logstores, and to its own."""

from __future__ import annotations

from dataclasses import replace

from barnabas.channel.messages import CoordinateResponse, Credit, GroupAnswer, GroupCall, Welcome
from barnabas.wire.api_keys import ApiKey
from barnabas_logstore.core.coordinator.peer_calls import CALL_MS, CONNECT_MS, LINK_IDLE_MS, PeerCalls
from barnabas_logstore.core.replica.replicas import Replicas
from tests.unit.logstore.transactions.support import update_of

OWN, OTHER = 1, 2


class Inbox:
    def __init__(self) -> None:
        self.calls: list[GroupCall] = []
        self.own_answers: list[GroupAnswer] = []

    def add_own(self, call: GroupCall) -> None:
        self.calls.append(call)

    def take_own_answers(self) -> list[GroupAnswer]:
        answers, self.own_answers = self.own_answers, []
        return answers


class Scene:
    def __init__(self) -> None:
        self.replicas = Replicas(OWN, "cluster")
        self.replicas.image.apply(update_of(OWN, OTHER, leader=OTHER, revision=1))
        self.inbox = Inbox()
        self.peers = PeerCalls(self.replicas, self.inbox)
        self.outcomes: list[tuple[str, GroupAnswer | None]] = []
        self.now_ms = 0

    def call(self, name: str, node_id: int = OTHER, body: bytes = b"") -> None:
        call = GroupCall(0, 0, int(ApiKey.WRITE_TXN_MARKERS), 1, "", "", body)
        self.peers.call(node_id, call, lambda answer: self.outcomes.append((name, answer)))

    def step(self, ms: int = 0) -> None:
        self.now_ms += ms
        self.peers.step(self.now_ms)

    def greet(self, requests: int = 100) -> None:
        welcome = Welcome(OTHER, 1)
        self.peers.on_response(OTHER, CoordinateResponse(welcome=welcome, credit=Credit(requests, 1 << 24)))

    def answer(self, request_id: int) -> None:
        self.peers.on_response(OTHER, CoordinateResponse(answers=[GroupAnswer(request_id, body=b"x")]))

    def sent(self) -> list[int]:
        """Ids of the calls of this turn."""
        return [call.request_id for _, request in self.peers.take_requests() for call in request.calls]

    @property
    def lost(self) -> list[str]:
        return [name for name, answer in self.outcomes if answer is None]


def test_the_first_call_opens_a_stream_and_waits_for_it() -> None:
    scene = Scene()
    assert scene.peers.take_links() is None
    scene.call("a")
    scene.call("b")
    (link,) = scene.peers.take_links() or []
    assert (link.peer.node_id, link.hello.cluster_id) == (OTHER, "cluster")
    assert scene.peers.take_links() is None
    assert scene.sent() == []
    scene.greet()
    first, second = scene.sent()
    scene.answer(second)
    scene.answer(first)
    assert [name for name, _ in scene.outcomes] == ["b", "a"]


def test_calls_wait_for_credit() -> None:
    scene = Scene()
    scene.greet()
    for number in range(12):
        scene.call(str(number))
    scene.greet(requests=8)
    assert len(scene.sent()) == 8
    scene.peers.on_response(OTHER, CoordinateResponse(credit=Credit(8, 1 << 24)))
    assert len(scene.sent()) == 4


def test_a_lost_stream_loses_its_calls_and_is_used_again() -> None:
    scene = Scene()
    scene.call("a")
    scene.greet()
    scene.sent()
    scene.peers.on_lost(OTHER)
    assert scene.outcomes == [], "callers are called in a step"
    assert scene.peers.has_work
    scene.step()
    assert scene.lost == ["a"]
    scene.call("b")
    assert scene.sent() == []
    scene.greet()
    assert len(scene.sent()) == 1


def test_a_call_is_lost_if_there_is_no_stream_for_long() -> None:
    scene = Scene()
    scene.step()
    scene.call("a")
    assert scene.peers.next_deadline_ms() == CONNECT_MS
    scene.step(CONNECT_MS - 1)
    assert not scene.outcomes
    scene.step(1)
    assert scene.lost == ["a"]


def test_a_call_that_is_not_answered_is_lost_and_its_late_answer_is_nothing() -> None:
    scene = Scene()
    scene.call("a")
    scene.greet()
    (request_id,) = scene.sent()
    scene.step(1)
    scene.call("b")
    assert scene.peers.next_deadline_ms() == CALL_MS
    scene.step(CALL_MS - 1)
    assert scene.lost == ["a"]
    scene.answer(request_id)
    assert scene.lost == ["a"]
    assert len(scene.outcomes) == 1
    assert scene.peers.next_deadline_ms() == CALL_MS + 1
    scene.step(1)
    assert scene.lost == ["a", "b"]


def test_a_call_that_waits_for_credit_is_lost_in_the_same_time() -> None:
    scene = Scene()
    scene.call("first")
    scene.peers.on_response(OTHER, CoordinateResponse(welcome=Welcome(OTHER, 1)))
    assert scene.sent() == []
    scene.step(CALL_MS)
    assert scene.lost == ["first"]


def test_a_call_to_itself_goes_by_the_inbox() -> None:
    scene = Scene()
    scene.call("own", OWN)
    scene.call("late", OWN)
    first, second = scene.inbox.calls
    assert scene.peers.take_links() is None
    scene.inbox.own_answers.append(GroupAnswer(first.request_id, body=b"x"))
    assert scene.peers.has_work
    scene.step()
    assert [name for name, answer in scene.outcomes if answer is not None] == ["own"]
    assert scene.peers.next_deadline_ms() == CALL_MS
    scene.step(CALL_MS)
    assert scene.lost == ["late"]
    scene.inbox.own_answers.append(GroupAnswer(second.request_id, body=b"x"))
    scene.step()
    assert len(scene.outcomes) == 2


def test_a_logstore_that_is_not_registered_is_not_called() -> None:
    scene = Scene()
    scene.call("a", 7)
    assert scene.outcomes == []
    scene.step()
    assert scene.lost == ["a"]


def test_another_incarnation_is_not_sent_what_was_for_the_one_before() -> None:
    scene = Scene()
    scene.call("a")
    scene.greet()
    scene.sent()
    image = scene.replicas.image
    image.brokers[OTHER] = replace(image.brokers[OTHER], broker_epoch=2)
    scene.step()
    assert scene.lost == ["a"]
    assert scene.peers.take_links() == []
    scene.call("b")
    (link,) = scene.peers.take_links() or []
    assert link.peer.broker_epoch == 2


def test_an_idle_stream_is_closed() -> None:
    scene = Scene()
    scene.call("a")
    scene.greet()
    (request_id,) = scene.sent()
    scene.answer(request_id)
    scene.peers.take_links()
    assert scene.peers.next_deadline_ms() == LINK_IDLE_MS
    scene.step(LINK_IDLE_MS - 1)
    assert scene.peers.take_links() is None
    scene.step(1)
    assert scene.peers.take_links() == []
    assert scene.peers.next_deadline_ms() is None
