"""One process of recording clients: `python -m tests.faults.clients PLAN`, a Plan as JSON.

It works until its standard input ends, as it does when its parent is gone, and writes to standard output how many
records were acknowledged by now, a line each half second.
"""

from __future__ import annotations

import asyncio
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
        case Part.PURE_PYTHON:
            _use_pure_python(plan)
        case Part.FINAL_READERS:
            from tests.faults.clients.final_readers import read_everything

            read_everything(plan)


def _produce(plan: Plan) -> None:
    from tests.faults.clients.producers import recording_producers

    producers = recording_producers(plan)
    for producer in producers:
        producer.start()
    asked_to_stop = _end_of_input()
    while not asked_to_stop.wait(REPORT_SECONDS):
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


def _use_pure_python(plan: Plan) -> None:
    asked_to_stop = _end_of_input()
    kafka_python = None
    if plan.mix.kafka_python:
        from tests.faults.clients.kafka_python import KafkaPythonClients

        kafka_python = KafkaPythonClients(plan)
        kafka_python.start()
    if plan.mix.aiokafka:
        asyncio.run(_use_aiokafka(plan, asked_to_stop))
    asked_to_stop.wait()
    if kafka_python is not None:
        kafka_python.stop()
        kafka_python.join()


async def _use_aiokafka(plan: Plan, asked_to_stop: threading.Event) -> None:
    from tests.faults.clients.aiokafka_clients import run

    stopping = asyncio.Event()
    clients = asyncio.create_task(run(plan, stopping))
    reported = asyncio.create_task(asyncio.to_thread(asked_to_stop.wait))
    await asyncio.wait({clients, reported}, return_when=asyncio.FIRST_COMPLETED)
    stopping.set()
    await clients


def _end_of_input() -> threading.Event:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


if __name__ == "__main__":
    main(sys.argv[1])
