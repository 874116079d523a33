"""Logs: one JSON object per line for machines, or a console line for people; rate-limited to protect the disk.

`get_logger(name)` works before and after `configure_logging`. Warnings and errors are limited per key: what a malicious
client repeats is written a few times, then counted. Libraries that use the standard library's logging (asyncio, gRPC)
are included.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from typing import Any, Final, Literal, TextIO

import orjson

from barnabas.runtime.clock import monotonic_ms

if "rich" in sys.modules:
    import structlog
else:
    # structlog imports rich where it is installed, seventy modules of it, for tracebacks that are not used here.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog

    del sys.modules["rich"]

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]
Event = MutableMapping[str, Any]

_LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

ROOT_LOGGER: Final = "root"
_KAFKA_LEVELS: Final[dict[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.NOTSET,
}
"""Kafka's names (`LogLevelConfig`). No line here is fatal or a trace: FATAL writes nothing, TRACE what DEBUG does."""

_names: Final[set[str]] = set()
"""The loggers of this process, which its modules create when they are loaded."""


class LoggerLevels:
    """The levels of this process's loggers, by Kafka's names (KIP-412), until the process ends.

    A logger without a level of its own has that of the next name above it (`logstore` is above `logstore.links`), or
    the root's. A change applies from the next line on; a logger that `bind` has returned keeps its level.
    """

    def __init__(self, root: str = "INFO") -> None:
        self._own: dict[str, str] = {}
        self._followers: list[Callable[[Mapping[str, str]], None]] = []
        self.replace({ROOT_LOGGER: root})

    def levels(self) -> dict[str, str]:
        """Return the level of each logger, the root's included."""
        return {name: self._level_of(name) for name in (ROOT_LOGGER, *sorted(_names))}

    def change(self, changes: Mapping[str, str | None]) -> None:
        """Give loggers these levels; None: the level of the next name above. The root has to have one."""
        own = {**self._own, **changes}
        self.replace({name: level for name, level in own.items() if level is not None})

    def replace(self, own: Mapping[str, str]) -> None:
        """Give loggers these levels, and no other logger one of its own."""
        self._own = dict(own)
        self._bound_class = cache(self._class_of)
        for follow in self._followers:
            follow(self._own)

    def follow(self, follower: Callable[[Mapping[str, str]], None]) -> None:
        """Call this with the loggers that have levels of their own, after each change."""
        self._followers.append(follower)

    def bound_logger(self, logger: object, processors: Any, context: Event) -> Any:
        """Return structlog's logger for one line: its class has no code for lines below its level."""
        return self._bound_class(context["logger_name"])(logger, processors, context)

    def _class_of(self, name: str) -> Any:
        return structlog.make_filtering_bound_logger(_KAFKA_LEVELS[self._level_of(name)])

    def _level_of(self, name: str) -> str:
        while name and name not in self._own:
            name = name.rpartition(".")[0]
        return self._own[name or ROOT_LOGGER]


class RateLimit:
    """Lets `burst` lines of one key through per `window_ms`; the first after the window says how many were suppressed.

    The key is the line's `limit_key`, else its logger and text, so keep what a client chooses out of the text. At most
    `keys_max` keys are tracked in a window; all further ones share one.
    """

    def __init__(
        self, burst: int = 10, window_ms: int = 10_000, keys_max: int = 1000, now_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        self._burst = burst
        self._window_ms = window_ms
        self._keys_max = keys_max
        self._now_ms = now_ms
        # By key: the start of its window, and the lines in it.
        self._windows: dict[str, tuple[int, int]] = {}

    def __call__(self, _logger: object, method: str, event: Event) -> Event:
        limit_key = event.pop("limit_key", None)
        if limit_key is None and method in ("debug", "info"):
            return event
        key = str(limit_key if limit_key is not None else (event.get("logger"), event.get("event")))
        now_ms = self._now_ms()
        if key not in self._windows and len(self._windows) >= self._keys_max:
            self._forget_quiet_keys(now_ms)
            if len(self._windows) >= self._keys_max:
                key = "further keys"
        start_ms, seen = self._windows.get(key, (now_ms, 0))
        if now_ms - start_ms >= self._window_ms:
            if seen > self._burst:
                event["suppressed"] = seen - self._burst
            start_ms, seen = now_ms, 0
        self._windows[key] = (start_ms, seen + 1)
        if seen >= self._burst:
            raise structlog.DropEvent
        return event

    def _forget_quiet_keys(self, now_ms: int) -> None:
        self._windows = {key: window for key, window in self._windows.items() if now_ms - window[0] < self._window_ms}


class _FromStandardLogging(logging.Handler):
    """Passes log lines of libraries to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower()
        logger = _structlog_logger(record.name)
        emit = getattr(logger, level if level in _LEVELS else "info")
        emit(record.getMessage(), exc_info=record.exc_info)


def configure_logging(
    service: str,
    level: LogLevel = "info",
    format: LogFormat = "json",  # noqa: A002 - the key is log.format
    *,
    stream: TextIO | None = None,
) -> LoggerLevels:
    """Send every logger of this process to `stream` (standard error), from `level` up, with the service's name.

    The levels returned can be changed while the process runs.
    """
    levels = LoggerLevels("WARN" if level == "warning" else level.upper())
    output = structlog.WriteLogger(stream or sys.stderr)

    def add_service(_logger: object, _method: str, event: Event) -> Event:
        event["service"] = service
        event["logger"] = event.pop("logger_name", "")
        return event

    processors: list[Any] = [
        add_service,
        RateLimit(),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    if format == "json":
        processors += [structlog.processors.format_exc_info, _render_json]
    else:
        # Plain tracebacks: the default shows local variables, and a broker's contain its clients' records.
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(
            colors=(stream or sys.stderr).isatty(), timestamp_key="time", exception_formatter=plain
        )
        processors += [renderer]
    structlog.configure(
        processors=processors,
        wrapper_class=levels.bound_logger,  # type: ignore[arg-type]  # it is only called
        # One for all lines: a factory's costs more than the choice of a class by the logger's level does.
        logger_factory=lambda: output,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_FromStandardLogging()], level=logging.WARNING, force=True)
    return levels


def _render_json(_logger: object, _method: str, event: Event) -> str:
    head = {key: event.pop(key) for key in ("time", "level", "service", "logger", "event") if key in event}
    return orjson.dumps({**head, **event}, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger: `log.warning("frame too large", limit_key="frame", length=n)`."""
    _names.add(name)
    return _structlog_logger(name)


def _structlog_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(logger_name=name)
    return logger
