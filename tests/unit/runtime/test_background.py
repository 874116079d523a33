"""Tasks and threads that nothing awaits: what they raise is reported, they go on, or the process ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from barnabas.containment import Place, Scope
from barnabas.metrics.conditions import ConditionKind
from barnabas.metrics.containment_families import CONTAINED_EXCEPTIONS
from barnabas.runtime import conversation, lane_offers, streams
from barnabas.runtime.contained import (
    CALL,
    CONTAINED,
    ENDS,
    EVENT,
    FAULT_EXIT_CODE,
    LANE,
    LIBRARY,
    LINK,
    MESSAGE,
    PACKING,
    SCRAPE,
    SCRAPES,
    ProcessContainment,
)
from barnabas.runtime.loop import background
from barnabas.runtime.loop.background import BackgroundTasks, start_thread
from barnabas.runtime.loop.event_loop import EventLoop, _thread_failed
from barnabas.runtime.metrics.endpoint import MetricsEndpoint
from barnabas.runtime.processes import contained_counts
from barnabas.runtime.processes.contained_counts import ContainedCounts
from barnabas.runtime.rpc import create_channel, create_server, stop_server
from tests.unit.metrics.test_exposition import bound, read, read_error, some_samples, url
from tests.unit.runtime.containment_counts import Counted
from tests.unit.runtime.test_streams import Echo, Served, linked, until

TASK = Place("test.task", Scope.REQUEST, "a task")
LOOP = Place("test.loop", Scope.DUTY, "a loop")


async def broken() -> None:
    raise RuntimeError("a bug")


# --- the owner --------------------------------------------------------------------------------------------------------


async def test_a_task_that_fails_is_reported_counted_and_given_up() -> None:
    counted, failures = Counted(), []
    tasks = BackgroundTasks(TASK, failures.append)
    with capture_logs() as logs:
        task = tasks.start(broken())
        assert task.get_name() == TASK.name
        await until(lambda: failures)
    assert counted.at(TASK) == 1
    assert [str(error) for error in failures] == ["a bug"]
    (line,) = logs
    assert (line["event"], line["place"], line["scope"]) == (EVENT, "test.task", "request")
    assert "RuntimeError: a bug" in line["traceback"]
    assert len(tasks) == 0
    samples = {sample.labels: sample.value for sample in CONTAINED.samples() if sample.family is CONTAINED_EXCEPTIONS}
    assert samples["test", "test.task"] >= 1


async def test_a_task_that_is_cancelled_or_returns_is_no_fault() -> None:
    counted, failures = Counted(), []
    tasks = BackgroundTasks(TASK, failures.append)
    tasks.start(asyncio.sleep(0))
    tasks.start(asyncio.sleep(3600))
    await asyncio.sleep(0.01)
    assert len(tasks) == 1
    await tasks.stop()
    await asyncio.sleep(0)
    assert (len(tasks), counted.at(TASK), failures) == (0, 0, [])


async def test_a_loop_goes_on_after_each_fault_and_its_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, passes = Counted(), 0
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> None:
        nonlocal passes
        passes += 1
        if passes <= 12:
            raise RuntimeError("a bug")

    monkeypatch.setattr(background.asyncio, "sleep", pause)
    await BackgroundTasks(LOOP).keep(work)
    assert (passes, counted.at(LOOP)) == (13, 12)
    assert pauses == sorted(pauses)
    assert pauses[0] == background.PAUSE_S_MIN
    assert pauses[-1] == background.PAUSE_S_MAX


async def test_a_loop_that_has_gone_on_for_long_begins_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def work() -> None:
        if len(pauses) < 5:
            raise RuntimeError("a bug")

    monkeypatch.setattr(background.asyncio, "sleep", pause)
    monkeypatch.setattr(background, "CALM_S", 0)
    await BackgroundTasks(LOOP).keep(work)
    assert pauses == [background.PAUSE_S_MIN] * 5


async def test_a_loop_that_is_cancelled_ends() -> None:
    async def work() -> None:
        await asyncio.sleep(3600)

    tasks = BackgroundTasks(LOOP)
    kept = tasks.keep(work)
    await asyncio.sleep(0)
    await tasks.stop()
    assert kept.cancelled()


async def test_who_ends_the_process_in_its_own_way_gets_the_exception() -> None:
    ends: list[BaseException] = []
    BackgroundTasks(Place("test.state", Scope.PROCESS, "state"), ends.append).start(broken())
    await until(lambda: ends)
    assert "test.state" not in CONTAINED.counts()


ENDINGS = {
    "a task": "BackgroundTasks(STATE).start(broken())",
    "a timer": "loop.call_later(0, fail)",
    "a callback": "loop.call_soon(fail)",
    "a callback of a task": "awaited_task(asyncio.sleep(0)).add_done_callback(fail)",
    "a reader": "here, there = socket.socketpair(); loop.add_reader(here, fail); there.send(b'x')",
    "a turn": "TurnScheduler(fail).request()",
    "a thread": "start_thread(STATE, fail, 'work')",
    "a guard's own": "BackgroundTasks(TASK).start(uncontained())",
}
PROGRAM = """
import asyncio, socket
from barnabas.containment import Place, Scope, Uncontained
from barnabas.runtime.loop.background import BackgroundTasks, awaited_task, start_thread
from barnabas.runtime.logs import configure_logging
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.loop.input_selector import TurnScheduler

STATE = Place("test.state", Scope.PROCESS, "state")
TASK = Place("test.task", Scope.REQUEST, "a task")

def fail(*_):
    raise RuntimeError("a bug")

async def broken():
    fail()

async def uncontained():
    raise Uncontained("a bug")

async def main():
    loop = asyncio.get_running_loop()
    ENDING
    await asyncio.sleep(60)

configure_logging("test")
with asyncio.Runner(loop_factory=new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_fault_in_what_all_share_ends_the_process_at_once_and_says_why(ending: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("ENDING", ENDINGS[ending])], capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == FAULT_EXIT_CODE, ended.stderr
    assert ENDS in ended.stderr
    assert "a bug" in ended.stderr.splitlines()[-1]


async def test_a_thread_that_fails_is_reported() -> None:
    counted = Counted()

    def fail() -> None:
        raise RuntimeError("a bug")

    start_thread(TASK, fail, "work").join()
    assert counted.at(TASK) == 1


def test_what_a_librarys_task_or_thread_raises_is_reported() -> None:
    counted = Counted()

    async def story() -> None:
        asyncio.get_running_loop().create_task(broken())
        await asyncio.sleep(0.01)
        gc.collect()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(story())
    assert counted.at(LIBRARY) == 1

    def fail() -> None:
        raise RuntimeError("a bug")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", _thread_failed)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    assert counted.at(LIBRARY) == 2


# --- links and their conversations ------------------------------------------------------------------------------------


@pytest.fixture(params=["gRPC", "lane"])
async def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("BARNABAS_LANE", "on" if request.param == "lane" else "off")
    served = Served()
    await served.start()
    yield served
    await served.stop()


def failing_at_first(count: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return `then`, whose first calls raise."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        nonlocal count
        count -= 1
        if count >= 0:
            raise RuntimeError("a bug")
        return then(*arguments, **keywords)

    return call


async def test_a_link_connects_after_attempts_that_fail(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "create_channel", failing_at_first(2, streams.create_channel))
    monkeypatch.setattr(background, "PAUSE_S_MIN", 0.001)
    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
    assert counted.at(LINK) == 2


async def test_a_stream_whose_heartbeat_fails_ends_and_the_next_one_comes_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "HEARTBEAT_MS", 50)
    counted = Counted()
    async with linked(served.address) as client:
        client.link._pack_heartbeat = failing_at_first(1, lambda count: b"heartbeat %d" % count)
        await until(lambda: client.count("up") == 2 and client.link.up)
    assert client.count("down") == 2
    assert counted.at(MESSAGE) == 1


async def test_a_message_that_breaks_its_handler_is_counted(served: Served) -> None:
    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"fail")
        await until(lambda: client.count("up") == 2)
    assert counted.at(MESSAGE) == 1


async def test_a_malformed_message_is_no_fault_of_ours(served: Served) -> None:
    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"malformed")
        await until(lambda: client.count("up") == 2)
    assert counted.at(MESSAGE) == 0


async def test_a_message_whose_handling_over_turns_fails_is_counted(served: Served) -> None:
    class Slow(Echo):
        def on_message(self, data: bytes) -> Any:
            return broken() if data == b"slow" else super().on_message(data)

    served.handler_type = Slow
    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send(b"slow")
        await until(lambda: client.count("up") == 2)
    assert counted.at(MESSAGE) == 1


async def test_a_link_whose_end_is_not_handled_goes_on(served: Served) -> None:
    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link._on_down = failing_at_first(1, lambda reason: None)
        client.link.send(b"close")
        await until(lambda: client.count("up") == 2)
    assert counted.at(LINK) == 1


async def test_a_message_that_can_not_be_packed_ends_its_stream(served: Served) -> None:
    async def pack() -> bytes:
        raise RuntimeError("a bug")

    counted = Counted()
    async with linked(served.address) as client:
        await until(lambda: client.link.up)
        client.link.send_when_packed(pack)
        await until(lambda: client.count("up") == 2)
        served.handlers[-1].stream.send_when_packed(pack)
        await until(lambda: client.count("up") == 3)
    assert counted.at(PACKING) == 2


async def test_a_lane_whose_handshake_fails_is_counted_and_the_stream_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("BARNABAS_LANE", "on")
    monkeypatch.setenv("BARNABAS_LANE_DIRECTORY", str(tmp_path / "lanes"))
    monkeypatch.setattr(lane_offers, "_check_user", lambda connected: None)
    monkeypatch.setattr(lane_offers, "_send", failing_at_first(1, lane_offers._send))
    counted = Counted()
    listener = lane_offers._Listener(asyncio.get_running_loop())
    with socket.socket(socket.AF_UNIX) as client:
        token = listener.add(lambda connected, memory: connected.close(), None)
        client.connect(str(listener.path))
        client.send(lane_offers.GREETING + token)
        await until(lambda: counted.at(LANE))
        assert listener.is_listening
    listener.withdraw(token)


async def test_a_call_whose_handler_fails_is_counted_and_one_that_is_refused_is_not() -> None:
    async def failing(_request: bytes, _context: Any) -> bytes:
        raise RuntimeError("a bug")

    async def refusing(_request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "as expected")
        return b""

    server, port = create_server("127.0.0.1:0")
    handlers = {
        "Fail": grpc.unary_unary_rpc_method_handler(failing),
        "Refuse": grpc.unary_unary_rpc_method_handler(refusing),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("barnabas.test.v1.Calls", handlers),))
    await server.start()
    counted, codes = Counted(), []
    async with create_channel(f"127.0.0.1:{port}", None) as channel:
        for method in ("Fail", "Refuse"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/barnabas.test.v1.Calls/{method}")(b"")
            codes.append(caught.value.code())
    await stop_server(server, 0)
    assert codes == [grpc.StatusCode.UNKNOWN, grpc.StatusCode.NOT_FOUND]
    assert counted.at(CALL) == 1


# --- metrics ----------------------------------------------------------------------------------------------------------


async def test_a_scrape_that_fails_is_counted_and_the_next_one_is_served() -> None:
    counted, listening, is_broken = Counted(), bound(), True

    async def collect() -> Any:
        if is_broken:
            raise RuntimeError("a bug")
        return await some_samples()

    endpoint = MetricsEndpoint(listening, collect)
    endpoint.start()
    try:
        assert (await read_error(url(listening)))[0] == 500
        assert counted.at(SCRAPE) == 1
        is_broken = False
        assert "kafka_queue_size 1.5" in await read(url(listening))
    finally:
        await asyncio.to_thread(endpoint.stop)


async def test_samples_that_can_not_be_written_are_counted() -> None:
    counted, listening = Counted(), bound()

    async def collect() -> Any:
        return [object()]

    endpoint = MetricsEndpoint(listening, collect)
    endpoint.start()
    try:
        assert (await read_error(url(listening)))[0] == 500
        assert counted.at(SCRAPE) == 1
    finally:
        await asyncio.to_thread(endpoint.stop)


async def test_scrapes_are_accepted_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, listening = Counted(), bound()
    endpoint = MetricsEndpoint(listening, some_samples)
    monkeypatch.setattr("barnabas.runtime.metrics.endpoint._AGAIN_S", 0.001)
    serve_forever = endpoint._server.serve_forever
    monkeypatch.setattr(endpoint._server, "serve_forever", failing_at_first(2, serve_forever))
    endpoint.start()
    try:
        assert "kafka_queue_size 1.5" in await read(url(listening))
        assert counted.at(SCRAPES) == 2
    finally:
        await asyncio.to_thread(endpoint.stop)


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def contained(monkeypatch: pytest.MonkeyPatch) -> ProcessContainment:
    """What a new process has."""
    fresh = ProcessContainment(())
    monkeypatch.setattr(contained_counts, "CONTAINED", fresh)
    return fresh


def text_of(contained: ProcessContainment) -> str:
    (condition,) = contained.conditions()
    assert condition.kind is ConditionKind.CONTAINED_EXCEPTION
    return condition.text


async def test_what_was_contained_is_a_condition_and_so_is_what_children_have_contained() -> None:
    contained = ProcessContainment((TASK,))
    assert contained.conditions() == []
    contained.contain(TASK, RuntimeError("a bug"))
    assert "1 unexpected exception was contained in the last hour, at test.task (1)" in text_of(contained)
    contained.heard({"test.task": 2, "test.loop": 1})
    assert "at test.task (3), test.loop (1)" in text_of(contained)


async def test_a_child_tells_its_parent_at_once_from_any_thread_and_each_only_once(
    contained: ProcessContainment,
) -> None:
    sent: list[tuple[bytes, bytes]] = []
    parent: Any = SimpleNamespace(send=lambda kind, payload: sent.append((kind, payload)))
    of_core = {"test.core": 0}
    counts = ContainedCounts(parent, lambda: of_core)
    counts.tell()
    assert sent == []
    contained.contain(TASK, RuntimeError("a bug"))
    await until(lambda: len(sent) == 1)
    await asyncio.to_thread(contained.contain, LOOP, RuntimeError("a bug"))
    await until(lambda: len(sent) == 2)
    of_core["test.core"] = 2
    counts.tell()
    counts.tell()
    assert [kind for kind, _ in sent] == [contained_counts.KIND] * 3
    heard = ProcessContainment(())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contained_counts, "CONTAINED", heard)
        for _, payload in sent:
            contained_counts.take_counts(payload)
    assert "4 unexpected exceptions" in text_of(heard)
    assert "test.core (2), test.loop (1), test.task (1)" in text_of(heard)
