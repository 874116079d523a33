"""`python -m barnabas_logstore.cleaner SETTINGS`: the cleaner of a logstore, spawned as its child with the first order.

Compaction looks at every record, which takes half a microsecond to one each: in the data process, on any thread, the
interpreter lock would delay all appends by that. Here it uses its own core, or what is left of one, throttled by
`log.cleaner.io.max.bytes.per.second`. It gets orders over a socket pair, reads the logs by their paths and writes
`.cleaned` files beside them; the other end is in `barnabas_logstore.shell.cleaner_process`. It dies with its parent,
and loses only the pass in progress.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
from typing import assert_never

import msgspec

from barnabas.runtime.clock import monotonic_ms
from barnabas.runtime.compression import CODECS
from barnabas.runtime.logs import LoggerLevels, configure_logging
from barnabas.runtime.loop.background import awaited_task
from barnabas.runtime.loop.event_loop import new_event_loop
from barnabas.runtime.processes.messages import MessageSocket
from barnabas.runtime.processes.spawning import parent_socket
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.orders import CancelOrder, CleanerReport, CleanOrder
from barnabas_logstore.shell.cleaner_messages import LOGGER_LEVELS, CleanerSettings, decode_command, encode_report
from barnabas_logstore.shell.posix_disk import PosixDisk


class Throttle:
    """Compute how long to wait so that on average at most so many bytes per second are moved."""

    def __init__(self, bytes_per_second_max: float) -> None:
        self._ms_per_byte = 1000 / bytes_per_second_max
        self._free_ms = -math.inf

    def pause_ms(self, byte_count: int, now_ms: int) -> float:
        self._free_ms = max(self._free_ms, now_ms) + byte_count * self._ms_per_byte
        return self._free_ms - now_ms


class CleanerHost:
    """Steps run on a thread, one at a time: heartbeats and cancellations are processed while a large batch is
    opened.
    """

    def __init__(self, settings: CleanerSettings, levels: LoggerLevels) -> None:
        self._levels = levels
        self._cleaner = Cleaner(
            PosixDisk,
            CODECS,
            dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
            io_buffer_bytes=settings.io_buffer_bytes,
        )
        self._throttle = Throttle(settings.io_bytes_per_second_max)
        self._ordered = asyncio.Event()
        self._parent: MessageSocket | None = None

    async def run(self) -> None:
        """Work until SIGTERM, or until the parent is gone."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
        # Ctrl-C reaches the whole process group; the parent stops this process when its own work is done.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        self._parent = parent_socket(self._on_message, stopping.set)
        stop = awaited_task(stopping.wait())
        work = awaited_task(self._work())
        await asyncio.wait((stop, work), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        work.cancel()

    async def _work(self) -> None:
        while True:
            await self._ordered.wait()
            self._ordered.clear()
            while self._cleaner.is_busy:
                moved_bytes, report = await asyncio.to_thread(self._cleaner.step, monotonic_ms())
                if report is not None:
                    self._report(report)
                await asyncio.sleep(max(0.0, self._throttle.pause_ms(moved_bytes, monotonic_ms())) / 1000)

    def _report(self, report: CleanerReport) -> None:
        assert self._parent is not None
        self._parent.send(*encode_report(report))

    def _on_message(self, kind: bytes, payload: bytes, _fds: list[int]) -> None:
        if kind == LOGGER_LEVELS:
            self._levels.replace(msgspec.json.decode(payload, type=dict[str, str]))
            return
        command = decode_command(kind, payload)
        match command:
            case CleanOrder():
                self._cleaner.begin(command, monotonic_ms())
                self._ordered.set()
            case CancelOrder():
                self._cleaner.cancel(command.order_id)
            case _:
                assert_never(command)


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=CleanerSettings)
    levels = configure_logging("logstore-cleaner", settings.log_level, settings.log_format)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(CleanerHost(settings, levels).run())


if __name__ == "__main__":
    main()
