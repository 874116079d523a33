"""One process of recording clients: `python -m tests.faults.clients PLAN`, a Plan as JSON.

It works until its standard input ends, as it does when whoever started it is gone, and writes to standard output how
many records were acknowledged by now, a line each half second.
"""

from __future__ import annotations

import sys
import threading

import msgspec

from tests.faults.clients.plan import Part, Plan

REPORT_SECONDS = 0.5


def main(argument: str) -> None:
    plan = msgspec.json.decode(argument, type=Plan)
    match plan.part:
        case Part.PRODUCERS:
            _produce(plan)
        case Part.READERS:
            _read(plan)
        case Part.FINAL_READERS:
            from tests.faults.clients.final_readers import read_everything

            read_everything(plan)


def _produce(plan: Plan) -> None:
    from tests.faults.clients.producers import recording_producers

    producers = recording_producers(plan)
    for producer in producers:
        producer.start()
    told_to_stop = _end_of_input()
    while not told_to_stop.wait(REPORT_SECONDS):
        print(sum(producer.acknowledged for producer in producers), flush=True)
    for producer in producers:
        producer.stop()
    for producer in producers:
        producer.join()


def _read(plan: Plan) -> None:
    from tests.faults.clients.readers import recording_readers

    readers = recording_readers(plan)
    for reader in readers:
        reader.start()
    _end_of_input().wait()
    for reader in readers:
        reader.stop()
    for reader in readers:
        reader.join()


def _end_of_input() -> threading.Event:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


if __name__ == "__main__":
    main(sys.argv[1])
