"""Messages between the data process and the control listener's process: their kinds, for both ends."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.runtime.metrics.security import MetricsSecurity

STOP_GRACE_MS: Final = 200

# The payload begins with the session if there is one.
SESSION: Final = Struct("<Q")
LISTEN: Final = b"listen"
LISTENING: Final = b"listening"
COMMAND: Final = b"command"
ANSWER: Final = b"answer"
SERVING: Final = b"serving"
# To the child: the bound socket of the metrics endpoint. To the parent: a request for its metrics; to the child: the
# answer.
SCRAPED: Final = b"scraped"
METRICS: Final = b"metrics"
# To the child: the loggers of the broker that have levels of their own, as JSON.
LOGGER_LEVELS: Final = b"logger levels"


@dataclass(slots=True, frozen=True)
class Scraped:
    """What goes with the socket of the metrics endpoint."""

    node_id: str
    security: MetricsSecurity
