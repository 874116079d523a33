"""What the suite of Kafka Connect starts, and what its steps make of it: a step that could not be done never passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.acceptance.suite import Broker
from tests.acceptance.suites import connect, connect_pipeline
from tests.acceptance.suites.connect_pipeline import Pipeline, asked_topics, source_settings
from tests.acceptance.suites.connect_results import PARTITIONS
from tests.acceptance.suites.connect_workers import RestError, worker_settings
from tests.acceptance.suites.steps import problems_of

NO_PIPELINE = cast("Pipeline", SimpleNamespace())


def test_workers_support_exactly_once_and_ask_for_three_replicas() -> None:
    settings = worker_settings("broker:9092", 3, 8083)
    assert settings["exactly.once.source.support"] == "enabled"
    assert {settings[f"{kind}.storage.replication.factor"] for kind in ("config", "offset", "status")} == {"3"}


def test_what_the_topics_must_show_is_what_the_workers_are_started_with_and_compacted() -> None:
    settings = worker_settings("broker:9092", 3, 8083)
    topics = asked_topics(of_workers=True, replicas=3)
    for kind in ("config", "offset", "status"):
        topic = topics[settings[f"{kind}.storage.topic"]]
        assert topic.settings.pop("cleanup.policy") == "compact"
        assert topic.settings
        assert {name: settings[f"{kind}.storage.{name}"] for name in topic.settings} == topic.settings
        assert settings.get(f"{kind}.storage.partitions", "1") == str(topic.partitions)


def test_the_source_must_be_exactly_once_into_three_partitions_of_three_replicas() -> None:
    settings = source_settings(5, 3)
    assert settings["exactly.once.support"] == "required"
    assert settings["topic.creation.default.partitions"] == settings["partitions"] == str(PARTITIONS) == "3"
    assert settings["topic.creation.default.replication.factor"] == "3"


def test_every_row_has_its_own_name() -> None:
    names = [name for step_names, _ in connect.STEPS for name in step_names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("error", [RestError("409"), TimeoutError("late"), ConnectionRefusedError()])
def test_what_a_step_raises_fails_each_of_its_rows(error: Exception) -> None:
    def step(_: Pipeline) -> list[list[str]]:
        raise error

    assert problems_of(step, 2, NO_PIPELINE, float("inf")) == [[repr(error)]] * 2


def test_a_step_after_the_end_of_the_time_fails() -> None:
    steps: list[Callable[[Pipeline], list[list[str]]]] = [step for _, step in connect.STEPS]
    assert all(problems_of(step, 1, NO_PIPELINE, 0.0)[0] for step in steps)


def test_no_row_passes_where_no_broker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_pipeline, "_REQUEST_SECONDS_MAX", 0.1)
    outcomes = connect._run(tmp_path, Broker("127.0.0.1:1", "", 3), tmp_path)
    assert set(outcomes.values()) == {"fail"}
    assert set(outcomes) == {name for names, _ in connect.STEPS for name in names}
