"""The hops that a request's time goes to, and their names in metrics, logs and spans."""

from __future__ import annotations

from typing import Final


class Hop:
    """Plain numbers: a member of an enum takes three times as long to get, and a request has ten marks."""

    REQUEST_QUEUE: Final = 0
    """Whole, and not begun: the requests before it, memory, credit that the connection waits for."""
    GATEWAY: Final = 1
    """Decoded, routed, waiting for credit or for order, encoded."""
    CHANNEL: Final = 2
    """Sent to a logstore and not answered, less what the logstore says that it had it."""
    LOGSTORE_QUEUE: Final = 3
    LOGSTORE_WORK: Final = 4
    PURGATORY: Final = 5
    """Parked; or, while no pod can hold it, until the next look."""
    CONTROLLER: Final = 6
    """Put to the controller, until this processor answers by what came of it."""
    CONVERSION: Final = 7
    RESPONSE_QUEUE: Final = 8
    """Answered, and answers before it have not left."""
    RESPONSE_SEND: Final = 9
    """Until the socket has taken all of it."""


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
