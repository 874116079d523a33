"""The cleaner of a logstore, in steps that take their time, on the same disk. It dies with the logstore, and alone.

Orders and reports are encoded and decoded as between the real processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from barnabas.runtime.compression import CODECS
from barnabas_logstore.core.storage.compaction.cleaner import Cleaner
from barnabas_logstore.core.storage.compaction.orders import CancelOrder, CleanerCommand, CleanOrder
from barnabas_logstore.shell.cleaner_messages import decode_command, decode_report, encode_command, encode_report
from tests.sim.scheduler import MS

if TYPE_CHECKING:
    from tests.sim.nodes.logstore import LogstoreNode

DEDUPE_BUFFER_BYTES = 16 * 1024
IO_BUFFER_BYTES = 2048
STEP_US_MAX = 20 * MS
# One step in so many is the last one that this process takes.
STEPS_TO_A_DEATH = 400


class CleanerNode:
    def __init__(self, node: LogstoreNode) -> None:
        self._node = node
        self.end_offsets: dict[str, int] = {}
        """By the directory of a log: where its last pass ended."""
        self._start()

    def _start(self) -> None:
        self._cleaner = Cleaner(
            lambda: self._node.disk,
            CODECS,
            dedupe_buffer_bytes=DEDUPE_BUFFER_BYTES,
            io_buffer_bytes=IO_BUFFER_BYTES,
        )

    def command(self, command: CleanerCommand) -> None:
        command = decode_command(*encode_command(command))
        match command:
            case CleanOrder():
                self.end_offsets[command.directory] = command.end_offset
                self._cleaner.begin(command, self._node.now_ms)
                self._step_later()
            case CancelOrder():
                self._cleaner.cancel(command.order_id)
            case _:
                assert_never(command)

    def _step_later(self) -> None:
        delay_us = self._node.scheduler.random.randrange(STEP_US_MAX)
        self._node.after(delay_us, "has its cleaner take a step", self._step)

    def _step(self) -> None:
        core = self._node.core
        assert core is not None
        if self._node.scheduler.random.randrange(STEPS_TO_A_DEATH) == 0:
            self._node.scheduler.note(f"{self._node.name}'s cleaner dies")
            self._start()
            core.on_cleaner_gone()
        else:
            _, report = self._cleaner.step(self._node.now_ms)
            if report is not None:
                core.on_cleaner_report(decode_report(*encode_report(report)))
            if self._cleaner.is_busy:
                self._step_later()
        self._node.turn_soon()
