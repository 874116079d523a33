"""What Kafka's own client says of its transactions is recorded as librdkafka's clients record theirs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.faults.history import Type
from tests.faults.transactions.history import read_events
from tests.faults.transactions.java_clients import JavaClients
from tests.faults.transactions.plan import Plan

LINES = [
    "invoke writer-0 writer-0|1|1",
    "ok writer-0 writer-0|1|1",
    "copied copier-0 ",
    "invoke writer-0 writer-0|1|2",
    "fail writer-0 writer-0|1|2",
    "invoke writer-1 writer-1|1|1",
    "zombie-fail copier-1 copier-1|1",
    *(f"ended {name} " for name in ("copier-0", "copier-1", "writer-0", "writer-1")),
]


def test_the_lines_of_the_jvm_are_a_history(tmp_path: Path) -> None:
    plan = Plan(bootstrap_servers=["x:1"], topic="t", partitions=4, directory=str(tmp_path), seed=1)
    clients = JavaClients(plan)
    for line in LINES:
        clients.said(f"{line}\n")
    by_name = clients.by_name
    assert {name: client.committed for name, client in by_name.items() if client.committed} == {
        "copier-0": 1,
        "writer-0": 1,
    }
    assert all(client.ended.is_set() for client in by_name.values())
    found = Counter((event.client, event.f, event.type) for event in read_events(tmp_path))
    assert found == {
        ("writer-0", "transaction", Type.INVOKE): 2,
        ("writer-0", "transaction", Type.OK): 1,
        ("writer-0", "transaction", Type.FAIL): 1,
        ("writer-1", "transaction", Type.INVOKE): 1,
        ("copier-0", "copied", Type.OK): 1,
        ("copier-1", "zombie", Type.FAIL): 1,
    }
