"""Where to begin, as options say it, in a cluster that may have changed since they were made."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.cluster import TopicExtent
from barnabas_pipeline.core.errors import WrongOption
from barnabas_pipeline.core.options import Use, read_options
from barnabas_pipeline.core.positions import Positions, TopicPositions
from barnabas_pipeline.core.tables_job import tables_job
from barnabas_pipeline.kafka.places import positions_at
from barnabas_pipeline.tables.running import source_options

SEEN = {"a": TopicPositions("id-a", {0: 5, 1: 6}), "b": TopicPositions("id-b", {0: 7})}
EXTENTS = {
    "a": TopicExtent("id-a", {0: 0, 1: 0}, {0: 90, 1: 90}),
    "b": TopicExtent("id-b", {0: 0}, {0: 90}),
}


def begins(options: dict[str, str], extents: dict[str, TopicExtent]) -> dict[str, Any]:
    place = read_options(options, Use.STREAM).starting
    found: Positions = positions_at(None, place, extents)  # type: ignore[arg-type]
    return {topic: each.offsets for topic, each in found.items()}


def options_of_a_job() -> dict[str, str]:
    return source_options(tables_job({"topic_pattern": "[a-z]"}), SEEN)


def test_a_job_begins_where_its_tables_are() -> None:
    assert begins(options_of_a_job(), EXTENTS) == {"a": {0: 5, 1: 6}, "b": {0: 7}}


def test_what_comes_while_a_job_starts_begins_at_its_beginning() -> None:
    grown = {"a": TopicExtent("id-a", {0: 0, 1: 0, 2: 3}, {0: 90, 1: 90, 2: 90}), "b": EXTENTS["b"]}
    found = begins(options_of_a_job(), {**grown, "c": TopicExtent("id-c", {0: 2}, {0: 90})})
    assert found == {"a": {0: 5, 1: 6, 2: 3}, "b": {0: 7}, "c": {0: 2}}


def test_what_goes_while_a_job_starts_is_no_end_of_it() -> None:
    assert begins(options_of_a_job(), {"b": EXTENTS["b"]}) == {"b": {0: 7}}


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ('{"a": {"0": 5, "1": 6}}', "missing are b-0"),
        ('{"a": {"0": 5, "1": 6}, "b": {"0": 7}, "c": {"0": 1}}', "not read are c-0"),
    ],
)
def test_who_names_partitions_names_them_all(offsets: str, message: str) -> None:
    options = {"kafka.bootstrap.servers": "x:1", "subscribePattern": "[a-z]", "startingOffsets": offsets}
    with pytest.raises(WrongOption, match=message):
        begins(options, EXTENTS)
    with pytest.raises(WrongOption, match="has to be 'error' or 'earliest'"):
        begins({**options, "startingOffsetsOfUnnamed": "latest"}, EXTENTS)
    assert begins({**options, "startingOffsetsOfUnnamed": "earliest"}, EXTENTS)["a"] == {0: 5, 1: 6}
