"""One connection of a client with several: requests in order, an answer to each in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import decode_response, encode_request
from barnabas.wire.frames import FrameSplitter
from barnabas.wire.messages import Request, Response
from tests.sim.network import Network
from tests.sim.process import Process
from tests.sim.protocols import KAFKA
from tests.sim.scheduler import Event, InvariantViolation

_FRAME_BYTES_MAX = 1 << 26


class KafkaConnection:
    """`lost` is called once, when it has ended for whatever reason: `is_timeout` where an answer took too long.

    Nothing that was asked is answered after that.
    """

    def __init__(
        self, process: Process, network: Network, address: str, timeout_us: int, lost: Callable[[bool], None]
    ) -> None:
        self._process = process
        self._timeout_us = timeout_us
        self._lost = lost
        self._splitter = FrameSplitter(_FRAME_BYTES_MAX)
        self._outstanding: deque[tuple[int, ApiKey, int, Callable[[Response], None], Event]] = deque()
        self._last_correlation_id = 0
        self.is_open = True
        self._end = network.connect(KAFKA, process, address, self)

    @property
    def unanswered(self) -> int:
        return len(self._outstanding)

    def ask(self, api_key: ApiKey, request: Request, version: int, answered: Callable[[Response], None]) -> None:
        self._last_correlation_id += 1
        correlation_id = self._last_correlation_id
        timer = self._process.after(
            self._timeout_us, f"waits no longer for {correlation_id}", lambda: self.close(is_timeout=True)
        )
        self._outstanding.append((correlation_id, api_key, version, answered, timer))
        self._end.send(b"".join(map(bytes, encode_request(request, version, correlation_id, self._process.name))))

    def close(self, *, is_timeout: bool = False) -> None:
        if self.is_open:
            self._end.close("closed")
            self._ended(is_timeout=is_timeout)

    def on_closed(self, reason: str) -> None:
        if self.is_open:
            self._ended(is_timeout=False)

    def _ended(self, *, is_timeout: bool) -> None:
        self.is_open = False
        for *_, timer in self._outstanding:
            timer.cancelled = True
        self._outstanding.clear()
        self._lost(is_timeout)

    def on_message(self, message: bytes) -> None:
        for frame in self._splitter.feed(message):
            if not self.is_open:
                return
            if not self._outstanding:
                raise InvariantViolation(f"{self._process.name} got an answer that it did not ask for")
            correlation_id, api_key, version, answered, timer = self._outstanding.popleft()
            if int.from_bytes(frame[:4]) != correlation_id:
                raise InvariantViolation(f"{self._process.name} got another answer where {correlation_id} is due")
            timer.cancelled = True
            answered(decode_response(api_key, version, frame)[1])
