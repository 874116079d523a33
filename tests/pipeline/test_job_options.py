"""What a tables job tells the source of its records."""

from __future__ import annotations

import pytest

pytest.importorskip("pyiceberg", reason="needs the pipeline's environment (make pipeline)")

from barnabas_pipeline.core.options import ReadOptions, Use, read_options
from barnabas_pipeline.core.settings import Isolation
from barnabas_pipeline.core.tables_job import tables_job
from barnabas_pipeline.tables.running import source_options


def options_of(**options: str) -> ReadOptions:
    return read_options(source_options(tables_job({"topics": ["orders"], "options": options}), {}), Use.STREAM)


def test_tables_take_no_record_of_an_aborted_transaction() -> None:
    assert options_of().client.isolation is Isolation.READ_COMMITTED


@pytest.mark.parametrize("name", ["kafka.isolation.level", "Kafka.Isolation.Level"])
def test_a_job_may_read_what_is_not_committed(name: str) -> None:
    assert options_of(**{name: "read_uncommitted"}).client.isolation is Isolation.READ_UNCOMMITTED
