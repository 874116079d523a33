"""Counts the records of each key with Quix Streams, exactly once: `quix_counts.py BOOTSTRAP NAME STATE`."""

from __future__ import annotations

import sys
from typing import TypedDict

from quixstreams import Application, State


class Record(TypedDict):
    number: int


class Counted(Record):
    count: int


def count(record: Record, state: State) -> Counted:
    seen: int = state.get("count", 0) + 1
    state.set("count", seen)
    return {"number": record["number"], "count": seen}


def main(bootstrap: str, name: str, state: str) -> None:
    application = Application(
        broker_address=bootstrap,
        consumer_group=name,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.5,
        state_dir=state,
        consumer_extra_config={"session.timeout.ms": 6000},
        producer_extra_config={"transaction.timeout.ms": 10000},
    )
    source = application.topic(f"{name}-input", key_deserializer="str", value_deserializer="json")
    results = application.topic(f"{name}-output", key_serializer="str", value_serializer="json")
    application.dataframe(source).apply(count, stateful=True).to_topic(results)
    application.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
