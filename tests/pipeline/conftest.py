"""A real cluster of one logstore per module, and topics in it. A module that needs another cluster has its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.integration.running_cluster import RunningCluster

if TYPE_CHECKING:
    from tests.pipeline.spark_world import Topics


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


@pytest.fixture(scope="module")
def topics(cluster: RunningCluster) -> Topics:
    from tests.pipeline.spark_world import Topics  # of Spark, without which modules that ask for this are skipped

    return Topics(cluster.bootstrap)
