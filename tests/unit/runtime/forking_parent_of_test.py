"""A parent for the tests of barnabas.runtime.processes.forking: `python -m … CASE` prints what it has seen.

A process of its own, since that of the tests has threads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

from barnabas.runtime.processes.forking import fork_ahead
from barnabas.runtime.processes.spawning import ChildProcess, spawn
from tests.unit.runtime import child_of_test

MODULE = "tests.unit.runtime.child_of_test"


class Child:
    def __init__(self, *arguments: str) -> None:
        self.heard: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self.process: ChildProcess = spawn(
            MODULE,
            arguments,
            on_message=lambda kind, payload, _fds: self.heard.put_nowait((kind, payload)),
            on_exit=lambda _exit_code: None,
        )

    async def ready(self) -> bytes:
        kind, payload = await self.heard.get()
        assert kind == b"ready"
        return payload


def name_of(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def kill_and_wait(pid: str) -> None:
    os.kill(int(pid), signal.SIGKILL)
    while Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.001)


def has_command_line_of_its_own(pid: int) -> bool:
    return MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


async def two_ahead_and_a_third() -> None:
    """Two were forked; the third child is spawned."""
    started = [Child("first", "a b"), Child("second"), Child("third")]
    for child in started:
        pid, _, arguments = (await child.ready()).decode().partition(" ")
        assert int(pid) == child.process.pid
        print(arguments, name_of(pid), has_command_line_of_its_own(int(pid)))
    started[0].process.messages.send(b"exit", b"7")
    started[1].process.messages.send(b"hang")
    await started[1].heard.get()
    print(await started[0].process.exited, await started[1].process.stop(50), await started[2].process.stop(5_000))


async def one_died_while_it_waited() -> None:
    kill_and_wait(children()[0])
    child = Child()
    print(await child.process.exited)
    second = Child("second")
    print((await second.ready()).decode().partition(" ")[2], await second.process.stop(5_000))


async def beside_a_thread() -> None:
    child = Child()
    print(has_command_line_of_its_own(int((await child.ready()).split()[0])), await child.process.stop(5_000))


async def end_with_one_that_begins_and_one_that_waits() -> None:
    child = Child()
    await child.ready()
    print(*children(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


CASES = {
    case.__name__: case
    for case in (
        two_ahead_and_a_third,
        one_died_while_it_waited,
        beside_a_thread,
        end_with_one_that_begins_and_one_that_waits,
    )
}

if __name__ == "__main__":
    if sys.argv[1] == beside_a_thread.__name__:
        threading.Thread(target=time.sleep, args=(0.5,)).start()
    fork_ahead(MODULE, child_of_test.main, 2)
    asyncio.run(CASES[sys.argv[1]]())
