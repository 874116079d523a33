"""Kafka's default message of an error code that came as a number."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode

_MESSAGES: Final = {int(error): error.message for error in ErrorCode}


def error_message(code: int) -> str:
    """Empty for a code that Kafka does not have."""
    return _MESSAGES.get(code, "")
