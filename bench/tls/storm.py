"""A process of clients that connect by TLS, ask for versions and go, one after the other.

    python -m bench.tls.storm 127.0.0.1:9093 ca.crt --seconds 5 [--rate 300] [--resumed]

Prints how many there were, how many of them resumed a session, and how long the slowest took, as JSON.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Final

from barnabas.wire.codec import encode_request
from barnabas.wire.messages.api_versions import ApiVersionsRequest

THREADS: Final = 8
"""A handshake is OpenSSL's own work, in which other threads run."""
_TIMEOUT_S: Final = 30
_ASK: Final = b"".join(encode_request(ApiVersionsRequest("bench", "1"), 3, 1, "bench"))


@dataclass(slots=True)
class Storm:
    handshakes: int
    resumed: int
    failed: int
    slowest_ms: float
    seconds: float


class _Clients:
    def __init__(self, address: tuple[str, int], context: ssl.SSLContext, until: float, gap_s: float) -> None:
        self._address = address
        self._context = context
        self._until = until
        self._gap_s = gap_s
        """Between two connections of a thread; 0: none."""
        self._lock = threading.Lock()
        self.storm = Storm(0, 0, 0, 0.0, 0.0)

    def run(self, *, is_resumed: bool) -> None:
        session: ssl.SSLSession | None = None
        due = time.monotonic()
        while time.monotonic() < self._until:
            began = time.monotonic()
            try:
                session, was_reused = self._connect(session if is_resumed else None)
            except OSError:
                with self._lock:
                    self.storm.failed += 1
                continue
            with self._lock:
                self.storm.handshakes += 1
                self.storm.resumed += was_reused
                self.storm.slowest_ms = max(self.storm.slowest_ms, (time.monotonic() - began) * 1000)
            due = max(due + self._gap_s, time.monotonic() - self._gap_s)
            time.sleep(max(0.0, due - time.monotonic()))

    def _connect(self, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        """Return the session, for the next connection, and whether this one has resumed `session`."""
        with (
            socket.create_connection(self._address, timeout=_TIMEOUT_S) as plain,
            self._context.wrap_socket(plain, server_hostname=self._address[0], session=session) as tls,
        ):
            tls.sendall(_ASK)
            if not tls.recv(1 << 16):
                raise ConnectionError("closed instead of an answer")
            return tls.session, bool(tls.session_reused)


def main() -> None:
    parser = argparse.ArgumentParser(description="Clients that connect by TLS, ask for versions and go.")
    parser.add_argument("bootstrap")
    parser.add_argument("authority")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=0.0, help="handshakes per second; 0: as many as there can be")
    parser.add_argument("--resumed", action="store_true")
    arguments = parser.parse_args()
    host, _, port = arguments.bootstrap.rpartition(":")
    context = ssl.create_default_context(cafile=arguments.authority)
    began = time.monotonic()
    gap_s = THREADS / arguments.rate if arguments.rate else 0.0
    clients = _Clients((host, int(port)), context, began + arguments.seconds, gap_s)
    threads = [threading.Thread(target=clients.run, kwargs={"is_resumed": arguments.resumed}) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clients.storm.seconds = time.monotonic() - began
    json.dump(asdict(clients.storm), sys.stdout)


if __name__ == "__main__":
    main()
