"""What MirrorMaker is started with, and what is wrong with what it has mirrored."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from tests.acceptance import clusters
from tests.acceptance.suite import Broker
from tests.acceptance.suites import mirror
from tests.acceptance.suites.connect_results import Delivered
from tests.acceptance.suites.mirror_maker import mirror_settings
from tests.acceptance.suites.mirror_results import (
    Mirrored,
    Translated,
    headers_of,
    key_of,
    parse,
    parse_translated,
    problems_of_contents,
    problems_of_going_on,
    problems_of_numbers_read,
    problems_of_translated,
)

THREE, ONE = Broker("here:9092", "", 3), Broker("other:9092", "", 1)
MIRRORED = [Delivered(0, 0, 0), Delivered(1, 0, 1), Delivered(0, 2, 3), Delivered(1, 2, 4)]
SAID = """upstream here
hops here 1
checkpoints here.checkpoints.internal
offset here.orders 0 17
offset here.orders 1 9
"""
TRANSLATED = Translated(("here",), 1, ("here.checkpoints.internal",), {("here.orders", 0): 17, ("here.orders", 1): 9})


def message(**changed: Any) -> Message:
    """Return a record with number 7, as it was written but for what has changed."""
    fields = {
        "partition": 1,
        "offset": 5,
        "value": b"7",
        "key": key_of(7),
        "headers": headers_of(7, 1000),
        "timestamp": (TIMESTAMP_CREATE_TIME, 1000),
        **changed,
    }
    return cast("Message", SimpleNamespace(**{name: lambda value=value: value for name, value in fields.items()}))


def test_both_flows_are_exactly_once_and_read_what_is_committed() -> None:
    settings = mirror_settings(THREE, ONE)
    for source, target in (("here", "other"), ("other", "here")):
        assert settings[f"{source}->{target}.enabled"] == "true"
        assert settings[f"{source}->{target}.consumer.isolation.level"] == "read_committed"
        assert settings[f"{target}.exactly.once.source.support"] == "enabled"


def test_each_topic_has_the_replicas_of_the_cluster_that_it_is_in() -> None:
    settings = mirror_settings(THREE, ONE)
    assert (
        settings["here->other.replication.factor"]
        == settings["here->other.checkpoints.topic.replication.factor"]
        == "1"
    )
    assert settings["other->here.replication.factor"] == settings["here.offset.storage.replication.factor"] == "3"
    assert settings["here->other.offset-syncs.topic.replication.factor"] == "3"


def test_a_record_as_it_was_written_is_whole() -> None:
    assert parse(message()) == Mirrored(1, 5, 7, is_whole=True)
    assert problems_of_contents([parse(message())]) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"key": None},
        {"headers": []},
        {"headers": list(reversed(headers_of(7, 1000)))},
        {"timestamp": (TIMESTAMP_CREATE_TIME, 1001)},
        {"timestamp": (TIMESTAMP_LOG_APPEND_TIME, 1000)},
    ],
)
def test_a_record_that_has_changed_is_named(changed: dict[str, Any]) -> None:
    assert problems_of_contents([parse(message(**changed))]) == ["1 records have changed, the first is 7"]


def test_a_group_that_goes_on_with_all_that_is_left_loses_nothing() -> None:
    assert problems_of_going_on(MIRRORED, {0: 2, 1: 1}, {3, 4}) == []
    assert problems_of_going_on(MIRRORED, {0: 0, 1: 0}, {3, 4}) == []


def test_a_group_that_goes_on_too_late_loses_what_is_named() -> None:
    assert problems_of_going_on(MIRRORED, {0: 3, 1: 3}, {3, 4}) == ["2 records lost, the first is 3"]


def test_what_a_group_has_read_must_be_all_that_was_to_be_read_once() -> None:
    assert problems_of_numbers_read([4, 3], [3, 4]) == []
    assert problems_of_numbers_read([3, 3, 5], [3, 4]) == [
        "1 records not read, the first is 4",
        "2 records read too often, the first is 3",
    ]


def test_what_remote_cluster_utils_finds_is_read() -> None:
    assert parse_translated(SAID) == TRANSLATED
    assert problems_of_translated(parse_translated(SAID), TRANSLATED) == []


def test_what_it_finds_otherwise_is_a_problem() -> None:
    assert len(problems_of_translated(parse_translated(""), TRANSLATED)) == 4
    later = dataclasses.replace(TRANSLATED, offsets={("here.orders", 0): 18, ("here.orders", 1): 9})
    (problem,) = problems_of_translated(later, TRANSLATED)
    assert problem.startswith("offsets")


def test_every_row_has_its_own_name_and_both_flows_have_the_same() -> None:
    names = [name for step_names, _ in mirror.STEPS for name in step_names]
    assert len(names) == len(set(names))
    here, other = (
        {name.removeprefix(flow) for name in names if name.startswith(flow)}
        for flow in ("here to other", "other to here")
    )
    assert here == other
    assert len(here) > 1


def test_no_row_passes_where_the_other_cluster_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(clusters, "kafka", fails)
    outcomes = mirror._run(tmp_path, THREE, tmp_path)
    assert set(outcomes.values()) == {"fail"}
    assert set(outcomes) == {name for names, _ in mirror.STEPS for name in names}
