"""The client's end of a long-lived stream, opened again whenever it is lost: `barnabas.runtime.streams.StreamLink`
here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.channel.generated.packing import MalformedMessage
from tests.sim.network import End, StreamKind
from tests.sim.process import Process
from tests.sim.scheduler import MS, Event

BACKOFF_US_MIN = 50 * MS
BACKOFF_US_MAX = 1_000 * MS


class Link:
    """Between `on_up` and the one `on_down` that answers it the link is up; a failed attempt calls neither."""

    def __init__(
        self,
        process: Process,
        kind: StreamKind,
        address: str,
        *,
        hello: Any,
        on_up: Callable[[Any], None],
        on_message: Callable[[Any], None],
        on_down: Callable[[str], None],
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """`on_up` gets the first message; `on_refused` is called for attempts without an answer."""
        self._process = process
        self._kind = kind
        self.address = address
        self._hello = hello
        self._on_up = on_up
        self._on_message = on_message
        self._on_down = on_down
        self._on_refused = on_refused
        self._end: End | None = None
        self._retry: Event | None = None
        self._backoff_us = BACKOFF_US_MIN
        self.is_up = False
        self._is_closed = False
        self._connect()

    def _connect(self) -> None:
        self._end = self._process.network.connect(self._kind, self._process, self.address, self)
        self._end.send(self._hello)

    def send(self, message: Any) -> None:
        """Dropped while the link is down: `on_down` has been called."""
        if self.is_up and self._end is not None:
            self._end.send(message)

    def close(self) -> None:
        """Down for good; `on_down` is called if it was up."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancelled = True
        if self._end is not None:
            self._end.close("closed here")
            self._lost("closed here")

    def reset(self, reason: str) -> None:
        """Give up the present stream and connect again."""
        if self._end is not None:
            self._end.close(reason)
            self._lost(reason)

    def on_message(self, message: Any) -> None:
        try:
            if self.is_up:
                self._on_message(message)
            else:
                self.is_up = True
                self._backoff_us = BACKOFF_US_MIN
                self._on_up(message)
        except MalformedMessage as error:
            self.reset(f"malformed message: {error}")

    def on_closed(self, reason: str) -> None:
        if not self.is_up and reason == "connection refused" and self._on_refused is not None:
            self._on_refused()
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        self._end = None
        if self.is_up:
            self.is_up = False
            self._on_down(reason)
        if self._is_closed:
            return
        delay_us = self._backoff_us * self._process.scheduler.random.randint(80, 120) // 100
        self._backoff_us = min(2 * self._backoff_us, BACKOFF_US_MAX)
        self._retry = self._process.after(delay_us, f"reconnects {self._kind.name} to {self.address}", self._connect)
