"""InputSelector: descriptors that have a reader, a writer, asyncio's transport, or are closed."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns

from barnabas.runtime.loop.busy_poll import BusyPoll
from barnabas.runtime.loop.input_selector import InputSelector
from tests.unit.runtime.loop_stories import pair, run, until


def test_a_reader_that_another_one_of_the_same_moment_removes_is_not_called() -> None:
    seen: list[int] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        ends = [pair() for _ in range(2)]

        def read(number: int) -> None:
            seen.append(number)
            for reading, _ in ends:
                loop.remove_reader(reading)

        for number, (reading, writing) in enumerate(ends):
            loop.add_reader(reading, read, number)
            writing.send(b"x")
        await until(lambda: seen)
        await asyncio.sleep(0.01)
        for end in (end for both in ends for end in both):
            end.close()

    run(story)
    assert len(seen) == 1


def test_a_reader_that_fails_is_reported_and_stops_nothing() -> None:
    reported: list[object] = []
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        (here, there), (other, other_writer) = pair(), pair()

        def fail() -> None:
            here.recv(100)
            raise ValueError("broken")

        def read() -> None:
            other.recv(100)
            seen.append("read")

        loop.add_reader(here, fail)
        loop.add_reader(other, read)
        there.send(b"x")
        other_writer.send(b"x")
        await until(lambda: seen and reported)
        for end in (here, other):
            loop.remove_reader(end)
        for end in (here, there, other, other_writer):
            end.close()

    run(story)
    assert [str(error) for error in reported] == ["broken"]


def test_a_descriptor_may_have_a_reader_and_a_writer() -> None:
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()

        def write() -> None:
            seen.append("writable")
            assert loop.remove_writer(here)
            assert not loop.remove_writer(here)

        def read() -> None:
            seen.append(here.recv(100).decode())

        loop.add_reader(here, read)
        loop.add_writer(here, write)
        await until(lambda: seen == ["writable"])
        there.send(b"first")
        await until(lambda: seen[1:] == ["first"])
        loop.add_writer(here, write)
        await until(lambda: seen.count("writable") == 2)
        assert loop.remove_reader(here)
        assert not loop.remove_reader(here)
        there.send(b"second")
        loop.add_writer(here, write)
        await until(lambda: seen.count("writable") == 3)
        assert "second" not in seen
        here.close()
        there.close()

    run(story)


def test_what_asyncio_has_received_from_a_socket_leaves_nothing_behind_for_its_reader() -> None:
    """The handshake of a lane is by `sock_recv`, and the lane by a reader of ours."""
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        for word in (b"one", b"two"):
            loop.call_later(0.001, there.send, word)
            assert await loop.sock_recv(here, 100) == word
        assert not loop.remove_reader(here)
        loop.add_reader(here, lambda: seen.append(here.recv(100).decode()))
        there.send(b"three")
        await until(lambda: seen)
        assert loop.remove_reader(here)
        assert not loop.remove_reader(here)
        here.close()
        there.close()

    run(story)
    assert seen == ["three"]


def test_a_closed_descriptor_whose_reader_was_left_can_be_used_again() -> None:
    seen: list[str] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = pair()
        loop.add_reader(here, lambda: seen.append("of the first"))
        number = here.fileno()
        loop.remove_reader(number)
        here.close()
        there.close()
        again, other = pair()
        loop.add_reader(again, lambda: seen.append(again.recv(100).decode()))
        other.send(b"of the second")
        await until(lambda: seen)
        loop.remove_reader(again)
        again.close()
        other.close()

    run(story)
    assert seen == ["of the second"]


def test_a_loop_that_waits_for_the_reader_of_an_answer_does_not_poll() -> None:
    offered: list[None] = []
    # The clock stands still at first, so that no wait is long on a busy machine.
    now_ns = 1
    busy_poll = BusyPoll(
        is_allowed=True, give_way=lambda: offered.append(None), now_ns=lambda: now_ns or monotonic_ns()
    )
    for _ in range(20):
        busy_poll.wait(lambda timeout, events_max: [(7, 1)], now_ns, 0)
    now_ns = 0
    selector = InputSelector(lambda error, callback: None, busy_poll)
    here, there = socket.socketpair()
    here.setblocking(False)
    while here.send(bytes(1 << 20), socket.MSG_DONTWAIT) == 1 << 20:
        pass
    selector.add_writer(here.fileno(), lambda: None)
    selector.select(0.001)
    assert not offered
    selector.remove_writer(here.fileno())
    selector.select(0.001)
    assert offered
    selector.close()
    here.close()
    there.close()
