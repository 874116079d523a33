"""The hops that a request's time is spent in, and their names in metrics, logs and spans."""

from __future__ import annotations

from typing import Final


class Hop:
    """Plain numbers: an enum member takes three times as long to access, and a request has ten marks."""

    REQUEST_QUEUE: Final = 0
    """Complete, and not started: it waits for requests before it, for memory, or for credit that its connection waits
    for.
    """
    GATEWAY: Final = 1
    """Decoding, routing, waiting for credit or for order, encoding."""
    CHANNEL: Final = 2
    """Sent to a logstore and not answered, without the time that the logstore reports."""
    LOGSTORE_QUEUE: Final = 3
    LOGSTORE_WORK: Final = 4
    PURGATORY: Final = 5
    """Its wait for followers, records or members: parked; or, while no pod can hold it, until the next check; or, for
    the first milliseconds, held by the leader.
    """
    CONTROLLER: Final = 6
    """Sent to the controller, until this processor has applied the result."""
    CONVERSION: Final = 7
    RESPONSE_QUEUE: Final = 8
    """Answered, while responses before it have not been sent."""
    RESPONSE_SEND: Final = 9
    """Until the socket has accepted all of it."""


HOP_NAMES: Final = (
    "request-queue",
    "gateway",
    "channel",
    "logstore-queue",
    "logstore-work",
    "purgatory",
    "controller",
    "conversion",
    "response-queue",
    "response-send",
)
