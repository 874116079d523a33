"""A schema registry of Confluent's kind, as far as the pipeline asks one; in a thread of the tests."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from barnabas_pipeline.schemas.decoders import decoder_of


@dataclass
class FakeRegistry:
    """What a registry of Confluent's kind answers; `failures` are answered with 503 first, `absences` with 404 as a
    proxy does that has no registry behind it. Without `codes` it answers 404 as any server does, and `types` to the
    question for them."""

    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failures: int = 0
    absences: int = 0
    codes: bool = True
    types: Any = None
    url: str = ""


@contextlib.contextmanager
def fake_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """The pauses between two questions are left out."""
    known = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            if known.failures:
                known.failures -= 1
                self.send_error(503)
                return
            if known.absences:
                known.absences -= 1
                self.send_error(404)
                return
            place, _, name = self.path.rpartition("/")
            if self.path == "/schemas/types":
                answer: Any = known.types
            else:
                answer = known.schemas.get(int(name)) if place == "/schemas/ids" else known.subjects.get(self.path)
            if answer is None and known.codes:
                answer, status = {"error_code": 40403, "message": "not here"}, 404
            else:
                status = 200
            if answer is None:
                self.send_error(404)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setattr("barnabas_pipeline.schemas.registry.time.sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    known.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield known
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        decoder_of.cache_clear()
