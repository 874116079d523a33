"""Report the unexpected exceptions that a service has contained: a line in its log for each, as far as the log's rate
limit lets them through.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.containment import ContainedException
from barnabas.runtime.logs import get_logger

EVENT = "an unexpected exception was contained"

_log = get_logger("containment")


def log_contained(reports: Iterable[ContainedException]) -> None:
    for each in reports:
        _log.error(
            EVENT,
            limit_key=f"contained {each.place.name}",
            place=each.place.name,
            scope=each.place.scope.value,
            error=each.summary,
            **each.fields,
            traceback=each.traceback,
        )
