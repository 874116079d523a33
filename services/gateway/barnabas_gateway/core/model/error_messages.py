"""Messages for error codes: Kafka's default message, or another one that fits into any response."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode

_CHARACTERS_MAX: Final = 1000
"""A message may quote names of the request, and in responses that are not flexible the maximum is 32,767 bytes."""

_MESSAGES: Final = {int(error): error.message for error in ErrorCode}


def error_message(code: int) -> str:
    """Return Kafka's message; empty for a code that Kafka does not have."""
    return _MESSAGES.get(code, "")


def client_message(code: int, message: str) -> str | None:
    """Return the message for a response with this code: the given one, shortened, or Kafka's; none without an error."""
    return (message[:_CHARACTERS_MAX] or error_message(code)) if code else None
