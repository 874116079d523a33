"""What is said with an error code: Kafka's default message, or another one that fits into any response."""

from __future__ import annotations

from typing import Final

from barnabas.wire.errors import ErrorCode

_CHARACTERS_MAX: Final = 1000
"""A message may quote names of the request, and in responses that are not flexible 32,767 bytes are the most."""

_MESSAGES: Final = {int(error): error.message for error in ErrorCode}


def error_message(code: int) -> str:
    """Empty for a code that Kafka does not have."""
    return _MESSAGES.get(code, "")


def client_message(code: int, message: str) -> str | None:
    """What a response says with this code: the message, shortened, or Kafka's own; nothing without an error."""
    return (message[:_CHARACTERS_MAX] or error_message(code)) if code else None
