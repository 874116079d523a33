"""The command gets SIGTERM in the middle of a batch: it ends at once, and Java prints no stack."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the pipeline's environment (make pipeline)")
pytest.importorskip("deltalake", reason="needs the pipeline's environment (make pipeline)")

from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster
from tests.pipeline.job_process import LOCAL, JobProcess
from tests.pipeline.spark_world import Topics

pytestmark = [needs_etcd, pytest.mark.timeout(600)]
_RECORDS = 300_000


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        topics = Topics(running.bootstrap)
        topics.create("long")
        for begin in range(0, _RECORDS, 50_000):
            values = [json.dumps({"id": number, "text": "x" * 60}).encode() for number in range(begin, begin + 50_000)]
            topics.fill("long", values)
        yield topics


def ctrl_c(process: JobProcess) -> None:
    """As a terminal sends it: to the driver, its JVM and its workers at once."""
    os.killpg(process.process.pid, signal.SIGINT)


def terminate(process: JobProcess) -> None:
    """As a supervisor sends it."""
    process.process.terminate()


@pytest.mark.parametrize("stop", [ctrl_c, terminate])
def test_a_job_is_stopped_in_mid_batch(topics: Topics, tmp_path: Path, stop: Callable[[JobProcess], None]) -> None:
    lake = tmp_path / "lake"
    arguments = ("tables", "--bootstrap-servers", topics.bootstrap, "--topics", "long", "--to", str(lake))
    as_json = ("--into", "delta", "--value", "json", "--column", "id=long", "--column", "text=string")
    with JobProcess(tmp_path / "job", *arguments, *as_json, *LOCAL) as process:
        # A file of rows is begun, and no batch with rows is done.
        process.until(lambda: list((lake / "long" / "data").glob("*.parquet")))
        stop(process)
        assert process.end() == 0
        assert "rows" not in process.out.replace(" 0 rows", "")
        assert "Exception in thread" not in process.err
        assert "\tat " not in process.err
