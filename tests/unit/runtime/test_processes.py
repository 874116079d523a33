"""Child processes: messages and descriptors both ways, and each notices the other's death."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from barnabas.runtime.contained import CONTAINED, PROCESS_MESSAGE
from barnabas.runtime.processes import messages, spawning
from barnabas.runtime.processes.messages import MessageSocket
from barnabas.runtime.processes.spawning import ChildProcess, spawn

CHILD = "tests.unit.runtime.child_of_test"


async def until(condition: Callable[[], object]) -> None:
    """Wait as long as the test's own timeout lets it."""
    while not condition():
        await asyncio.sleep(0.005)


class End:
    """What one end of a socket pair has received."""

    def __init__(self) -> None:
        self.received: list[tuple[bytes, bytes, list[int]]] = []
        self.closed: list[str] = []

    def on_message(self, kind: bytes, payload: bytes, fds: list[int]) -> None:
        self.received.append((kind, payload, fds))


def joined() -> tuple[MessageSocket, End, MessageSocket, End]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    left_end, right_end = End(), End()
    return (
        MessageSocket(left, left_end.on_message, left_end.closed.append),
        left_end,
        MessageSocket(right, right_end.on_message, right_end.closed.append),
        right_end,
    )


async def test_messages_arrive_whole_and_in_order_both_ways() -> None:
    left, left_end, right, right_end = joined()
    for number in range(1000):
        left.send(b"number", b"%d" % number)
    right.send(b"empty")
    await until(lambda: len(right_end.received) == 1000 and left_end.received)
    assert right_end.received == [(b"number", b"%d" % number, []) for number in range(1000)]
    assert left_end.received == [(b"empty", b"", [])]
    left.close()
    right.close()


async def test_more_than_the_socket_holds_waits_and_arrives() -> None:
    left, _, right, right_end = joined()
    payloads = [bytes([number]) * (number * 300_000) for number in range(10)]
    for payload in payloads:
        left.send(b"bulk", payload)
    assert left.pending_bytes > 0
    await until(lambda: len(right_end.received) == 10)
    assert [payload for _, payload, _ in right_end.received] == payloads
    assert left.pending_bytes == 0
    left.close()
    right.close()


async def test_descriptors_arrive_with_their_message_even_behind_a_queue() -> None:
    left, _, right, right_end = joined()
    pipes = [os.pipe() for _ in range(20)]
    for number, (reading, writing) in enumerate(pipes):
        left.send(b"bulk", b"x" * 100_000)
        left.send(b"pipe", b"%d" % number, [writing] * (number % 3))
        # The caller may close its own at once.
        os.close(writing)
        assert reading >= 0
    await until(lambda: len(right_end.received) == 40)
    for number, (kind, payload, fds) in enumerate(right_end.received[1::2]):
        assert (kind, payload, len(fds)) == (b"pipe", b"%d" % number, number % 3)
        for fd in fds:
            os.write(fd, payload)
            os.close(fd)
        assert os.read(pipes[number][0], 100) == payload * (number % 3)
        os.close(pipes[number][0])
    assert all(not fds for _, _, fds in right_end.received[::2])
    left.close()
    right.close()


async def test_received_descriptors_are_not_inherited_by_other_programs() -> None:
    left, _, right, right_end = joined()
    reading, writing = os.pipe()
    left.send(b"pipe", fds=[reading])
    os.close(reading)
    os.close(writing)
    await until(lambda: right_end.received)
    (fd,) = right_end.received[0][2]
    assert not os.get_inheritable(fd)
    os.close(fd)
    left.close()
    right.close()


async def test_closing_one_end_tells_the_other_once_and_what_was_sent_arrives() -> None:
    left, left_end, right, right_end = joined()
    left.send(b"last words")
    left.close()
    left.send(b"dropped")
    await until(lambda: right_end.closed)
    assert right_end.received == [(b"last words", b"", [])]
    assert right_end.closed == ["the other process closed its end"]
    assert right.closed
    assert left_end.closed == []


async def test_a_message_that_its_handler_cannot_handle_harms_no_other() -> None:
    before = CONTAINED.counts()[PROCESS_MESSAGE.name]
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    received: list[bytes] = []

    def on_message(kind: bytes, _payload: bytes, _fds: list[int]) -> None:
        received.append(kind)
        raise RuntimeError("a bug")

    sender, receiver = MessageSocket(left, on_message), MessageSocket(right, on_message)
    sender.send(b"one")
    sender.send(b"two")
    await until(lambda: len(received) == 2)
    assert CONTAINED.counts()[PROCESS_MESSAGE.name] == before + 2
    sender.close()
    receiver.close()


async def test_a_frame_out_of_bounds_closes_the_socket() -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    end = End()
    receiver = MessageSocket(right, end.on_message, end.closed.append)
    left.send(b"\xff" * 6)
    await until(lambda: end.closed)
    assert end.closed == ["a frame is out of bounds"]
    assert receiver.closed
    left.close()


async def test_an_end_that_does_not_read_is_cut_off_before_more_piles_up() -> None:
    """The queue had no bound: everything for a process that had stopped stayed in the memory of the other."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    end = End()
    sender = MessageSocket(left, end.on_message, end.closed.append, pending_bytes_max=1 << 20)
    sender.send(b"larger than the bound, and alone", bytes(4 << 20))
    assert sender.pending_bytes > 1 << 20
    sender.send(b"one more")
    await until(lambda: end.closed)
    assert end.closed[0].startswith("the other process does not read")
    assert sender.closed
    assert sender.pending_bytes == 0
    right.close()


async def test_an_end_without_anything_to_say_is_heard_all_the_same() -> None:
    left, left_end, right, right_end = joined()
    await until(lambda: left.has_heard and right.has_heard)
    assert left_end.received == right_end.received == []
    left.close()
    right.close()


async def started(end: End, exits: list[int]) -> ChildProcess:
    child = spawn(CHILD, ["a", "b c"], on_message=end.on_message, on_exit=exits.append)
    await until(lambda: end.received)
    assert end.received.pop(0) == (b"ready", f"{child.pid} a b c".encode(), [])
    return child


async def test_a_child_answers_takes_descriptors_and_stops_when_asked() -> None:
    end, exits = End(), list[int]()
    child = await started(end, exits)
    child.messages.send(b"echo", b"x" * 1_000_000)
    reading, writing = os.pipe()
    child.messages.send(b"write", b"by the child", [writing])
    os.close(writing)
    await until(lambda: end.received)
    assert end.received == [(b"echo", b"x" * 1_000_000, [])]
    assert await asyncio.to_thread(os.read, reading, 100) == b"by the child"
    os.close(reading)
    assert await child.stop(grace_ms=60_000) == 0
    assert exits == [0]
    assert child.messages.closed


async def test_the_parent_sees_its_childs_end_and_how_it_came() -> None:
    end, exits = End(), list[int]()
    failing = await started(end, exits)
    failing.messages.send(b"exit", b"3")
    assert await failing.exited == 3
    killed = await started(end, exits)
    os.kill(killed.pid, signal.SIGKILL)
    assert await killed.exited == -signal.SIGKILL
    await until(lambda: len(exits) == 2)
    assert exits == [3, -signal.SIGKILL]
    assert await killed.stop(grace_ms=0) == -signal.SIGKILL


async def test_a_childs_last_words_arrive() -> None:
    end, exits = End(), list[int]()
    child = await started(end, exits)
    child.messages.send(b"say 20 and exit")
    # Without the loop running until it has ended: its end is then seen before the last message, as each of these
    # takes a read of its own (they have descriptors).
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - see above
    await child.exited
    assert [payload for _, payload, _ in end.received] == [b"%d" % number for number in range(20)]
    for _, _, (fd,) in end.received:
        os.close(fd)


async def test_a_child_that_does_not_stop_is_killed() -> None:
    end, exits = End(), list[int]()
    child = await started(end, exits)
    child.messages.send(b"hang")
    await until(lambda: end.received)
    os.kill(child.pid, signal.SIGSTOP)
    assert await child.stop(grace_ms=50) == -signal.SIGKILL


async def test_a_child_that_is_stopped_falls_silent_and_comes_back() -> None:
    end, exits, silences = End(), list[int](), list[bool]()
    child = spawn(CHILD, on_message=end.on_message, on_exit=exits.append, on_silence=silences.append)
    await until(lambda: end.received)
    os.kill(child.pid, signal.SIGSTOP)
    await until(lambda: silences)
    assert child.is_silent
    os.kill(child.pid, signal.SIGCONT)
    await until(lambda: not child.is_silent)
    assert silences == [True, False]
    assert exits == []
    assert await child.stop(grace_ms=60_000) == 0


async def test_a_child_that_can_not_be_talked_to_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "_CLOSED_GRACE_S", 0.0)
    end, exits = End(), list[int]()
    child = await started(end, exits)
    os.kill(child.pid, signal.SIGSTOP)
    child.messages.send(b"echo", bytes(messages.PENDING_BYTES_MAX))
    child.messages.send(b"echo", bytes(1 << 20))
    assert await child.exited == -signal.SIGKILL
    assert child.is_silent


async def test_a_child_whose_parents_socket_closes_stops_by_itself() -> None:
    end, exits = End(), list[int]()
    child = await started(end, exits)
    child.messages.close()
    assert await child.exited == 0


PARENT = f"""
import asyncio, os
from barnabas.runtime.processes.spawning import spawn

async def main():
    ready = asyncio.Event()
    child = spawn({CHILD!r}, on_message=lambda kind, payload, fds: ready.set(), on_exit=lambda code: None)
    await ready.wait()
    print(child.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_a_child_dies_with_its_parent_even_while_it_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        child = os.pidfd_open(child_pid)
        # Stopped, it cannot notice the end of its socket: the kernel has to act.
        os.kill(child_pid, signal.SIGSTOP)
        parent.kill()
    select.select([child], [], [])
    os.close(child)


SERVICE = """
import asyncio
from barnabas.runtime.processes.spawning import run_until_signal

async def serve(stopping):
    print("serving", flush=True)
    await stopping.wait()
    print("stopping", flush=True)
    {last}

run_until_signal(serve)
"""


def test_a_signal_stops_a_service_in_good_order() -> None:
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen([sys.executable, "-c", SERVICE.format(last="")], stdout=subprocess.PIPE) as service:
            assert service.stdout is not None
            assert service.stdout.readline() == b"serving\n"
            service.send_signal(signal_number)
            assert service.stdout.read() == b"stopping\n"
            assert service.wait() == 0


def test_a_second_signal_ends_a_service_that_hangs() -> None:
    text = SERVICE.format(last="await asyncio.sleep(3600)")
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == b"serving\n"
        service.send_signal(signal.SIGTERM)
        assert service.stdout.readline() == b"stopping\n"
        service.send_signal(signal.SIGTERM)
        assert service.wait() == 128 + signal.SIGTERM
