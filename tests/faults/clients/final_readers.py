"""Readers of everything, from the beginning to the end, when all is over: twice through each gateway."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults.clients.plan import Plan
from tests.faults.clients.readers import RecordingConsumer
from tests.faults.history import Recorder, Type

TIMES = 2
ASK_AGAIN_SECONDS = 0.1


def read_everything(plan: Plan) -> None:
    for number in range(TIMES * len(plan.bootstrap_servers)):
        server = plan.bootstrap_servers[number % len(plan.bootstrap_servers)]
        with Recorder(Path(plan.directory) / f"final-{number}.jsonl", plan.seed) as recorder:
            consumer = RecordingConsumer(f"final-{number}/1", [server], plan.topic, recorder)
            _read_to_the_end(consumer, recorder, plan)
            consumer.close()


def _read_to_the_end(consumer: RecordingConsumer, recorder: Recorder, plan: Plan) -> None:
    deadline = time.monotonic() + plan.seconds_max
    ends: dict[int, int] = {}
    for partition in range(plan.partitions):
        recorder.record(consumer.proc, Type.INVOKE, "final", partition=partition)
        end_offset = _ask(consumer, partition, deadline)
        if end_offset is not None:
            ends[partition] = end_offset
    consumer.assign(dict.fromkeys(ends, 0))
    while any(consumer.due_offsets[each] < end for each, end in ends.items()) and time.monotonic() < deadline:
        consumer.poll()
    for partition in range(plan.partitions):
        due, end = consumer.due_offsets.get(partition, 0), ends.get(partition)
        if end is None:
            recorder.record(consumer.proc, Type.INFO, "final", partition=partition, error="no answer to list_offsets")
        elif due < end:
            recorder.record(consumer.proc, Type.INFO, "final", partition=partition, error="the end was not reached")
        else:
            # More than the end that was returned: another client's last record came after that.
            recorder.record(consumer.proc, Type.OK, "final", partition=partition, offset=due)


def _ask(consumer: RecordingConsumer, partition: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        end_offset = consumer.end_of(partition)
        if end_offset is not None:
            return end_offset
        time.sleep(ASK_AGAIN_SECONDS)
    return None
