"""The cleaner's process, as the data process sees it: commands out, reports in.

It is started with the first order, since most logstores never compact anything, and again with the next order after it
has died: the core waits `log.cleaner.backoff.ms` before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, assert_never

import msgspec

from barnabas.runtime.health_reports import RecentDeaths
from barnabas.runtime.logs import get_logger
from barnabas.runtime.processes.spawning import ChildProcess, spawn
from barnabas_logstore.core.storage.compaction.orders import (
    CleanerCommand,
    CleanerReport,
    CleanOrder,
    PassOutcome,
    PassReport,
)
from barnabas_logstore.shell.cleaner_messages import LOGGER_LEVELS, CleanerSettings, decode_report, encode_command

MODULE: Final = "barnabas_logstore.cleaner"
STOP_GRACE_MS: Final = 2_000

_log = get_logger("logstore.cleaner")


class CleanerProcess:
    """`on_report` gets the cleaner's reports, `on_gone` is called when it has ended."""

    def __init__(
        self, settings: CleanerSettings, on_report: Callable[[CleanerReport], None], on_gone: Callable[[], None]
    ) -> None:
        self._settings = msgspec.json.encode(settings).decode()
        self._on_report = on_report
        self._on_gone = on_gone
        self._child: ChildProcess | None = None
        self._is_stopping = False
        self._logger_levels: Mapping[str, str] | None = None
        self.deaths = RecentDeaths("its cleaner")

    def send(self, command: CleanerCommand) -> None:
        """An order starts the process if there is none; a cancellation then has nothing to cancel."""
        if isinstance(command, CleanOrder) and self._child is None:
            self._spawn()
        if self._child is not None:
            self._child.messages.send(*encode_command(command))

    def set_logger_levels(self, own: Mapping[str, str]) -> None:
        """Give the process's loggers these levels, now and when it is started again."""
        self._logger_levels = own
        if self._child is not None:
            self._child.messages.send(LOGGER_LEVELS, msgspec.json.encode(own))

    async def stop(self) -> None:
        """End it, whatever it is doing."""
        self._is_stopping = True
        if self._child is not None:
            await self._child.stop(STOP_GRACE_MS)

    def _spawn(self) -> None:
        try:
            self._child = spawn(MODULE, (self._settings,), on_message=self._on_message, on_exit=self._on_exit)
        except OSError as error:
            _log.error("the cleaner can't be started", error=str(error))
            asyncio.get_running_loop().call_soon(self._on_gone)
            return
        if self._logger_levels is not None:
            self.set_logger_levels(self._logger_levels)

    def _on_message(self, kind: bytes, payload: bytes, _fds: list[int]) -> None:
        self._on_report(decode_report(kind, payload))

    def _on_exit(self, exit_code: int) -> None:
        self._child = None
        if not self._is_stopping:
            self.deaths.died(exit_code)
            _log.error("the cleaner died, the next order starts it again", exit_code=exit_code)
        self._on_gone()


def log_pass(report: PassReport) -> None:
    """Log one line for each pass, with the figures of Kafka's cleaner; bytes in MiB."""
    ended, did = report.ended, report.ended.statistics
    where = {"topic": report.topic, "partition": report.partition}
    match ended.outcome:
        case PassOutcome.DONE:
            _log.info(
                "log cleaned",
                **where,
                first_dirty_offset=report.first_dirty_offset,
                next_dirty_offset=ended.next_dirty_offset,
                dirty_ratio=round(report.cleanable_ratio, 3),
                read_mib=_mib(did.bytes_read),
                written_mib=_mib(did.bytes_written),
                records_read=did.records_read,
                records_written=did.records_written,
                invalid_records=did.invalid_records,
                keys=did.map_entries,
                took_ms=did.took_ms,
                mapping_took_ms=did.map_took_ms,
                mib_per_s=_mib(did.bytes_read * 1000 / max(1, did.took_ms)),
            )
        case PassOutcome.ABORTED:
            _log.info("cleaning aborted", **where, reason=ended.reason)
        case PassOutcome.UNCLEANABLE | PassOutcome.DISK_ERROR:
            pass  # logged below, and as the loss of a log directory
        case _:
            assert_never(ended.outcome)
    if report.uncleanable:
        _log.error("partition is uncleanable", **where, why=report.uncleanable)


def _mib(byte_count: float) -> float:
    return round(byte_count / (1024 * 1024), 1)
