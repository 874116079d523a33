"""The operators' service around the core: every method is there, a watch ends as it has to, and costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import cast

import grpc
import pytest
from google.protobuf.message import Message

from barnabas.cluster.messages import NewTopic
from barnabas_controller.core.state.events import EventLog
from barnabas_controller.core.state.operator_requests import Outcome, RequestRefused
from barnabas_controller.shell.driver import ControllerDriver, NotActive
from barnabas_controller.shell.operations import watching
from barnabas_controller.shell.operations.calls import Call, Refusal, page_of
from barnabas_controller.shell.operations.changing import Changing
from barnabas_controller.shell.operations.configs import Configs
from barnabas_controller.shell.operations.consumer_assignment import read_assignment
from barnabas_controller.shell.operations.describing import Describing
from barnabas_controller.shell.operations.groups import Groups
from barnabas_controller.shell.operations.logstore_questions import LogstoreQuestions
from barnabas_controller.shell.operations.reassigning import Reassigning
from barnabas_controller.shell.operations.watching import Watching
from barnabas_protos.controller.v1 import operations_pb2 as pb
from tests.sim.groups.assignments import pack_assignment
from tests.unit.controller.cluster import Cluster, ControllerNode, create
from tests.unit.controller.test_drains import with_logstores


class FakeDriver:
    """The core of a cluster in virtual time, and the future that tells of its changes."""

    def __init__(self, controller: ControllerNode) -> None:
        self.core = controller.core
        self.changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self) -> None:
        reported, self.changed = self.changed, asyncio.get_running_loop().create_future()
        reported.set_result(None)


def a_driver(controller: ControllerNode) -> tuple[FakeDriver, ControllerDriver]:
    fake = FakeDriver(controller)
    return fake, cast("ControllerDriver", fake)


def make(cluster: Cluster, controller: ControllerNode, topic: str) -> None:
    controller.request(create(NewTopic(topic, 1, 1)))
    cluster.settle()


async def next_of(watch: AsyncIterator[pb.WatchEventsResponse]) -> pb.WatchEventsResponse:
    return await asyncio.wait_for(anext(watch), 10)


async def ended(watch: AsyncIterator[pb.WatchEventsResponse]) -> grpc.StatusCode:
    with pytest.raises(Refusal) as refused:
        await next_of(watch)
    assert "\n" not in refused.value.message
    return refused.value.status


def test_every_method_of_the_contract_is_served() -> None:
    async def methods() -> set[str]:
        _, controller = with_logstores(1)
        _, driver = a_driver(controller)
        questions = LogstoreQuestions(driver.core)
        rooms = [
            Describing(driver.core).methods(),
            Groups(driver.core, questions).methods(),
            Configs(driver, questions).methods(),
            Reassigning(driver, questions).methods(),
            Changing(driver).methods(),
        ]
        names = [name for room in rooms for name in room]
        assert len(names) == len(set(names))
        return {*names, "WatchEvents"}

    assert asyncio.run(methods()) == set(pb.DESCRIPTOR.services_by_name["Operations"].methods_by_name)


def test_a_watch_begins_where_it_is_asked_to_and_waits_for_more() -> None:
    async def play() -> None:
        cluster, controller = with_logstores(1)
        fake, driver = a_driver(controller)
        begin = controller.core.image.revision
        make(cluster, controller, "before")
        watch = Watching(driver).watch_events(pb.WatchEventsRequest(from_revision=begin))
        first = await next_of(watch)
        assert (first.revision, list(first.events)) == (begin, [])
        assert [event.topic_created.topic for event in (await next_of(watch)).events] == ["before"]
        waiting = asyncio.ensure_future(next_of(watch))
        await asyncio.sleep(0)
        make(cluster, controller, "after")
        fake.tell()
        (event,) = (await waiting).events
        assert event.topic_created.topic == "after"

    asyncio.run(play())


def test_a_watcher_that_is_too_slow_is_ended() -> None:
    async def play() -> None:
        cluster, controller = with_logstores(1)
        controller.core.events = EventLog(controller.core.image, events_max=2)
        _, driver = a_driver(controller)
        watch = Watching(driver).watch_events(pb.WatchEventsRequest())
        await next_of(watch)
        for number in range(3):
            make(cluster, controller, f"topic-{number}")
        assert await ended(watch) is grpc.StatusCode.RESOURCE_EXHAUSTED

    asyncio.run(play())


def test_what_a_reload_has_missed_ends_a_watch() -> None:
    async def play() -> None:
        _, controller = with_logstores(1)
        _, driver = a_driver(controller)
        watch = Watching(driver).watch_events(pb.WatchEventsRequest())
        await next_of(watch)
        controller.core.events.restart()
        assert await ended(watch) is grpc.StatusCode.OUT_OF_RANGE
        asked = Watching(driver).watch_events(pb.WatchEventsRequest(from_revision=1))
        assert await ended(asked) is grpc.StatusCode.OUT_OF_RANGE

    asyncio.run(play())


def test_a_controller_that_is_replaced_sends_its_watchers_on() -> None:
    async def play() -> None:
        cluster, controller = with_logstores(1)
        fake, driver = a_driver(controller)
        watch = Watching(driver).watch_events(pb.WatchEventsRequest())
        await next_of(watch)
        waiting = asyncio.ensure_future(next_of(watch))
        await asyncio.sleep(0)
        cluster.etcd.revoke(controller.lease)
        cluster.settle()
        assert not controller.is_active()
        fake.tell()
        with pytest.raises(NotActive):
            await waiting

    asyncio.run(play())


def test_there_are_so_many_watchers_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        _, controller = with_logstores(1)
        _, driver = a_driver(controller)
        monkeypatch.setattr(watching, "WATCHERS_MAX", 1)
        room = Watching(driver)
        first = room.watch_events(pb.WatchEventsRequest())
        await next_of(first)
        assert await ended(room.watch_events(pb.WatchEventsRequest())) is grpc.StatusCode.RESOURCE_EXHAUSTED
        await first.aclose()  # type: ignore[attr-defined]
        await next_of(room.watch_events(pb.WatchEventsRequest()))

    asyncio.run(play())


def test_an_unknown_kind_of_election_is_none() -> None:
    """Protobuf lets any number in; this one was taken for an unclean election of every partition without a leader."""

    async def play() -> None:
        _, controller = with_logstores(1)
        _, driver = a_driver(controller)
        run = Reassigning(driver, LogstoreQuestions(driver.core)).methods()["RunElection"]
        request = pb.RunElectionRequest(kind=cast("pb.ElectionKind.ValueType", 7))
        with pytest.raises(RequestRefused) as refused:
            await cast("Coroutine[None, None, Message]", run(request, cast("Call", None)))
        assert refused.value.outcome is Outcome.INVALID

    asyncio.run(play())


def test_pages_follow_each_other_and_end() -> None:
    names = ["a", "b", "c"]
    assert page_of(names, 2, "", str) == (["a", "b"], "b")
    assert page_of(names, 2, "b", str) == (["c"], "")
    assert page_of(names, 3, "", str) == (names, "")
    assert page_of(["a", "c"], 2, "b", str) == (["c"], ""), "what is gone is passed over"


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0\0\0\0\x01", b"\0\0\0\0\0\x01\0\x01a\x7f\xff\xff\xff", b"\xff" * 40]
)
def test_what_is_no_assignment_assigns_nothing(data: bytes) -> None:
    assert read_assignment(data) == {}


def test_an_assignment_is_read() -> None:
    data = pack_assignment([("events", 3), ("events", 1), ("more", 0)])
    assert read_assignment(data) == {"events": [3, 1], "more": [0]}
