"""Found by a loaded machine: `barnabas up` asked one network processor which logstores it knew, and a client of another
one got the answer that a broker did not exist.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_cli.local import readiness


class Processors:
    """Connections go to them in turn; each knows its own brokers."""

    def __init__(self, *known: list[int]) -> None:
        self._known = known
        self.connections = 0

    def connect(self, host: str, port: int, seconds: float, security: object) -> Processors:
        self.connections += 1
        return self

    def __enter__(self) -> Processors:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def api_versions(self) -> None:
        pass

    def metadata(self) -> Any:
        known = self._known[(self.connections - 1) % len(self._known)]
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=each) for each in known])


LAYOUT: Any = SimpleNamespace(kafka_port=1, logstore_ids=[0, 1])


def asked(monkeypatch: pytest.MonkeyPatch, processors: Processors) -> str | None:
    monkeypatch.setattr(readiness, "RecordClient", processors.connect)
    return readiness._gateway_waits_for(LAYOUT)


def test_one_processor_that_does_not_know_a_logstore_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_NUM_NETWORK_THREADS", raising=False)
    assert asked(monkeypatch, Processors([0, 1], [0, 1], [0])) == "the gateway does not know logstore-1"
    assert asked(monkeypatch, Processors([0, 1])) is None


def test_as_many_are_asked_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_NUM_NETWORK_THREADS", "4")
    assert asked(monkeypatch, Processors([0, 1], [0, 1], [0, 1], [1])) == "the gateway does not know logstore-0"
