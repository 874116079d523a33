"""The version of Apache Kafka that is fetched, started and named."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from bench import apache_kafka
from tests.unit.wire.golden import JARS, WITHOUT_KAFKA

ROOT = Path(__file__).parents[3]


def test_what_is_fetched_is_what_results_are_labelled_with() -> None:
    fetched = re.search(r"(?m)^version=(.*)$", (ROOT / "scripts/peer").read_text())
    assert fetched is not None
    assert fetched[1] == apache_kafka.VERSION
    assert apache_kafka.VERSION in WITHOUT_KAFKA
    assert apache_kafka.LIBS == JARS


def test_jars_of_another_version_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apache_kafka, "LIBS", tmp_path)
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/java")
    (tmp_path / ".complete-4.3.0").touch()
    with pytest.raises(click.ClickException, match=re.escape(apache_kafka.VERSION)):
        apache_kafka.need_apache_kafka()
    (tmp_path / f".complete-{apache_kafka.VERSION}").touch()
    apache_kafka.need_apache_kafka()
