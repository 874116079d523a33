"""EventLoop: readers, writers and turns without a step of the loop between them; everything else as in asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.runtime.loop import event_loop, input_selector
from barnabas.runtime.loop.busy_poll import BusyPoll
from barnabas.runtime.loop.event_loop import EventLoop
from barnabas.runtime.loop.input_selector import InputSelector, TurnScheduler
from tests.unit.runtime.loop_stories import pair, run, until


@contextlib.contextmanager
def counted_selections() -> Iterator[Callable[[], int]]:
    """How often asyncio has called its selector."""
    count = 0
    select = event_loop._Selector.select

    def counting(self: Any, timeout: float | None = None) -> Any:
        nonlocal count
        count += 1
        return select(self, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_loop._Selector, "select", counting)
        yield lambda: count


def test_what_arrived_together_is_read_before_the_one_turn_that_it_requests() -> None:
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        ends = [pair() for _ in range(3)]
        turns = TurnScheduler(lambda: seen.append("turn"))

        def read(number: int) -> None:
            ends[number][0].recv(100)
            seen.append(f"read {number}")
            turns.request()

        for number, (reading, writing) in enumerate(ends):
            loop.add_reader(reading, read, number)
            writing.send(b"x")
        await until(lambda: "turn" in seen)
        for reading, writing in ends:
            loop.remove_reader(reading)
            reading.close()
            writing.close()

    run(story)
    assert sorted(seen[:3]) == ["read 0", "read 1", "read 2"]
    assert seen[3:] == ["turn"]


def test_a_message_is_answered_with_one_question_to_the_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio asks twice: once before the reader, once before what it schedules."""
    questions = 0

    class Counting:
        def __init__(self) -> None:
            self._epoll = select.epoll()

        def poll(self, timeout: float | None, events_max: int) -> Any:
            nonlocal questions
            questions += 1
            return self._epoll.poll(timeout, events_max)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._epoll, name)

    monkeypatch.setattr(input_selector, "epoll", Counting)
    messages = 100
    asked: list[int] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        over = loop.create_future()
        turns = TurnScheduler(lambda: answer())
        left = messages

        def answer() -> None:
            here.send(b"answer")

        def readable_here() -> None:
            here.recv(100)
            turns.request()

        def readable_there() -> None:
            nonlocal left
            there.recv(100)
            left -= 1
            if left:
                there.send(b"question")
            else:
                over.set_result(None)

        loop.add_reader(here, readable_here)
        loop.add_reader(there, readable_there)
        before = questions
        there.send(b"question")
        await over
        asked.append(questions - before)
        loop.remove_reader(here)
        loop.remove_reader(there)
        here.close()
        there.close()

    run(story)
    assert asked[0] <= 2 * messages + 2, "one for each end of each message"


def test_input_that_does_not_concern_asyncio_does_not_end_the_selection() -> None:
    """Each return costs asyncio's bookkeeping, for every message that a process receives."""
    returned: list[int] = []
    messages = 100

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        over = loop.create_future()
        left = messages

        def readable() -> None:
            nonlocal left
            here.recv(100)
            left -= 1
            if left:
                there.send(b"x")
            else:
                over.set_result(None)

        loop.add_reader(here, readable)
        there.send(b"x")
        before = selections()
        await over
        returned.append(selections() - before)
        loop.remove_reader(here)
        here.close()
        there.close()

    with counted_selections() as selections:
        run(story)
    assert returned[0] <= 3


def test_a_peer_that_is_written_to_as_it_reads_does_not_end_the_selection() -> None:
    """An answer of several MB goes in many pieces."""
    returned: list[int] = []
    message = memoryview(bytes(16 << 20))

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        over = loop.create_future()
        sent = received = pieces = 0

        def writable() -> None:
            nonlocal sent, pieces
            sent += here.send(message[sent:])
            pieces += 1
            if sent == len(message):
                assert loop.remove_writer(here)

        def readable() -> None:
            nonlocal received
            received += len(there.recv(1 << 16))
            if received == len(message):
                over.set_result(None)

        loop.add_reader(there, readable)
        loop.add_writer(here, writable)
        before = selections()
        await over
        returned.append(selections() - before)
        assert pieces > 10
        loop.remove_reader(there)
        here.close()
        there.close()

    with counted_selections() as selections:
        run(story)
    assert returned[0] <= 3


@pytest.mark.parametrize("schedule", ["callback", "timer", "task", "thread", "stop"])
def test_what_a_reader_or_a_turn_asks_of_asyncio_is_not_kept_waiting(schedule: str) -> None:
    """Nothing else wakes the loop, which has nothing due for as long as the test may take."""
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        over = asyncio.Event()

        async def task() -> None:
            over.set()

        def turn() -> None:
            match schedule:
                case "callback":
                    loop.call_soon(over.set)
                case "timer":
                    loop.call_later(0.001, over.set)
                case "task":
                    tasks.append(loop.create_task(task()))
                case "thread":
                    threading.Thread(target=loop.call_soon_threadsafe, args=(over.set,)).start()
                case "stop":
                    loop.stop()

        tasks: list[asyncio.Task[None]] = []
        turns = TurnScheduler(turn)

        def readable() -> None:
            here.recv(100)
            seen.append("read")
            turns.request()

        loop.add_reader(here, readable)
        loop.call_later(0.01, there.send, b"x")
        try:
            await over.wait()
            seen.append("over")
        finally:
            loop.remove_reader(here)
            here.close()
            there.close()

    if schedule == "stop":
        with asyncio.Runner(loop_factory=EventLoop) as runner, pytest.raises(RuntimeError, match="stopped before"):
            runner.run(story())
        assert seen == ["read"]
    else:
        run(story)
        assert seen == ["read", "over"]


def test_timers_are_met_while_turns_request_more_turns() -> None:
    seen: list[int] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        turns = TurnScheduler(lambda: (seen.append(0), turns.request() if len(seen) < 1_000_000 else None))
        turns.request()
        began = loop.time()
        await asyncio.sleep(0.02)
        assert loop.time() - began < 1
        seen.extend([0] * 1_000_000)

    run(story)


def test_a_timeout_that_is_over_while_it_is_computed_does_not_wait_for_input() -> None:
    """Epoll would wait forever for a timeout below zero."""
    selector = InputSelector(lambda error, callback: None, BusyPoll(is_allowed=False))
    assert selector.select(1e-12) == []
    selector.close()


def test_a_turn_that_requests_another_lets_the_loop_read_before_it() -> None:
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()

        def turn() -> None:
            seen.append("turn")
            if len(seen) == 1:
                there.send(b"x")
                turns.request()

        turns = TurnScheduler(turn)
        loop.add_reader(here, lambda: seen.append(here.recv(100).decode()))
        turns.request()
        turns.request()
        await until(lambda: seen.count("turn") == 2 and "x" in seen)
        loop.remove_reader(here)
        here.close()
        there.close()

    run(story)
    assert seen in (["turn", "x", "turn"], ["turn", "turn", "x"])


def test_a_turn_that_is_requested_by_a_task_does_not_wait_for_input() -> None:
    seen: list[str] = []

    async def story() -> None:
        turns = TurnScheduler(lambda: seen.append("turn"))
        turns.request()
        assert seen == []
        await asyncio.sleep(0)

    run(story)
    assert seen == ["turn"]


def test_timers_tasks_threads_and_streams_of_asyncio_run_on_it() -> None:
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, seen.append, "timer")
        assert await asyncio.to_thread(lambda: "thread") == "thread"

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(300_000))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(bytes(300_000))
        assert len(await reader.read()) <= 300_000
        await until(lambda: seen)
        writer.close()
        server.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    run(story)
    assert seen == ["timer"]


def test_a_scheduler_of_turns_works_on_any_loop() -> None:
    seen: list[str] = []

    async def story() -> None:
        turns = TurnScheduler(lambda: seen.append("turn"))
        turns.request()
        turns.request()
        await until(lambda: seen)

    asyncio.run(story())
    assert seen == ["turn"]
