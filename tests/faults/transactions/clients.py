"""The process of the transactional clients: `python -m tests.faults.transactions.clients PLAN`, a Plan as JSON.

They work until standard input ends. Then the feeder stops, the copiers go on until they have committed the end of the
input, everything is read, and the process ends. It writes to standard output how many transactions were committed by
now, a line each half second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.faults.transactions.java_clients import JavaClient, JavaClients
from tests.faults.transactions.plan import Plan
from tests.faults.transactions.producers import Copier, Writer
from tests.faults.transactions.readers import Feeder, LiveReader, all_is_copied, read_everything

REPORT_SECONDS: Final = 0.5
COPY_SECONDS_MAX: Final = 90.0
READERS: Final = 2


def main(argument: str) -> None:
    plan = msgspec.json.decode(argument, type=Plan)
    copiers, writers = _clients_of(plan)
    readers = [LiveReader(f"reader-{number}", plan) for number in range(READERS)]
    feeder = Feeder(plan)
    feeder.start()
    for started in (*copiers, *writers):
        started.start()
    for reader in readers:
        reader.start()
    asked_to_stop = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(asked_to_stop,), daemon=True).start()
    while not asked_to_stop.wait(REPORT_SECONDS):
        print(sum(client.committed for client in (*copiers, *writers)), flush=True)
    feeder.stop()
    for writer in writers:
        writer.stop()
    deadline = time.monotonic() + COPY_SECONDS_MAX
    while not all_is_copied(plan) and time.monotonic() < deadline:
        time.sleep(0.5)
    for copier in copiers:
        copier.stop()
    for ended in (*copiers, *writers):
        ended.join()
    for reader in readers:
        reader.stop()
        reader.join()
    read_everything(plan)


def _clients_of(plan: Plan) -> tuple[Sequence[Copier | JavaClient], Sequence[Writer | JavaClient]]:
    """Return the copiers and the writers."""
    if plan.by_java:
        by_name = JavaClients(plan).by_name
        return (
            [client for name, client in by_name.items() if name.startswith("copier")],
            [client for name, client in by_name.items() if name.startswith("writer")],
        )
    return (
        [Copier("copier", number, plan, plan.seed * 1000 + number) for number in range(plan.copiers)],
        [Writer("writer", number, plan, plan.seed * 1000 + 100 + number) for number in range(plan.writers)],
    )


def _await_end_of_input(asked_to_stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    asked_to_stop.set()


if __name__ == "__main__":
    main(sys.argv[1])
