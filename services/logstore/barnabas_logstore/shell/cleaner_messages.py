"""Messages between the data process and the cleaner's process: their kinds and their encoding, for both ends.

An order and its reports are plain data (`barnabas_logstore.core.storage.compaction.orders`). msgspec decodes them by
the annotations of their classes, so that module is never compiled: the binary has no annotations.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from barnabas.runtime.logs import LogFormat, LogLevel
from barnabas_logstore.core.storage.compaction.orders import (
    CancelOrder,
    CleanedSegment,
    CleanerCommand,
    CleanerReport,
    CleanOrder,
    PassEnded,
)

ORDER: Final = b"order"
CANCEL: Final = b"cancel"
CLEANED: Final = b"cleaned"
ENDED: Final = b"ended"
# To the cleaner: the loggers of the broker that have levels of their own, as JSON.
LOGGER_LEVELS: Final = b"logger levels"

_encode = msgspec.msgpack.Encoder().encode
_COMMANDS: Final[dict[bytes, msgspec.msgpack.Decoder[CleanOrder] | msgspec.msgpack.Decoder[CancelOrder]]] = {
    ORDER: msgspec.msgpack.Decoder(CleanOrder),
    CANCEL: msgspec.msgpack.Decoder(CancelOrder),
}
_REPORTS: Final[dict[bytes, msgspec.msgpack.Decoder[CleanedSegment] | msgspec.msgpack.Decoder[PassEnded]]] = {
    CLEANED: msgspec.msgpack.Decoder(CleanedSegment),
    ENDED: msgspec.msgpack.Decoder(PassEnded),
}


class CleanerSettings(msgspec.Struct, frozen=True):
    """The parent passes them in the one argument, as JSON. `io_bytes_per_second_max` counts reads and writes."""

    dedupe_buffer_bytes: int
    io_buffer_bytes: int
    io_bytes_per_second_max: float
    log_level: LogLevel
    log_format: LogFormat


def encode_command(command: CleanerCommand) -> tuple[bytes, bytes]:
    """Return the kind of the message, and its payload."""
    match command:
        case CleanOrder():
            return ORDER, _encode(command)
        case CancelOrder():
            return CANCEL, _encode(command)
        case _:
            assert_never(command)


def decode_command(kind: bytes, payload: bytes) -> CleanerCommand:
    return _COMMANDS[kind].decode(payload)


def encode_report(report: CleanerReport) -> tuple[bytes, bytes]:
    """Return the kind of the message, and its payload."""
    match report:
        case CleanedSegment():
            return CLEANED, _encode(report)
        case PassEnded():
            return ENDED, _encode(report)
        case _:
            assert_never(report)


def decode_report(kind: bytes, payload: bytes) -> CleanerReport:
    return _REPORTS[kind].decode(payload)
