"""One client that asks for all it can does not keep others waiting, nor does it depose the controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.primitives import ELEMENTS_MAX
from tests.costly.__main__ import controller_epoch
from tests.costly.measure import TOPIC, create_topic, measure
from tests.costly.other_client import OtherClient
from tests.integration.etcd_process import needs_etcd
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, needs_etcd, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.deep]

ELEMENTS = ELEMENTS_MAX - 100
"""As many as a request may have, less those of the arrays around the long one: one with more is not read at all."""
WAIT_MS_MAX = 3_000
"""Ten times what is meant, since other tests run beside this one; without the bounds it was up to 4 seconds."""

SEEN_TO_STALL_OTHERS = {
    ApiKey.OFFSET_COMMIT: "topics.partitions, different, known topic",
    ApiKey.OFFSET_FETCH: "groups.topics.partition_indexes, different, known topic",
    ApiKey.LIST_OFFSETS: "topics.partitions, different, known topic",
    ApiKey.JOIN_GROUP: "protocols, different, known topic",
    ApiKey.METADATA: "topics, different, unknown topic",
    ApiKey.DELETE_TOPICS: "topics, different, unknown topic",
}
"""By the label of one request: `make costly-requests` sends all."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("costly")
    with RunningCluster(directory, 1) as running:
        create_topic(running.bootstrap)
        yield running


@pytest.mark.parametrize("api_key", SEEN_TO_STALL_OTHERS, ids=lambda key: key.name)
def test_another_client_is_answered_and_the_same_controller_goes_on(cluster: RunningCluster, api_key: ApiKey) -> None:
    epoch_before = controller_epoch(cluster)
    other = OtherClient(cluster.bootstrap, TOPIC)
    try:
        outcome = measure(cluster.bootstrap, other, api_key, ELEMENTS, 1, only=[SEEN_TO_STALL_OTHERS[api_key]])
    finally:
        other.stop()
    assert outcome.answered > 0
    assert outcome.closed == 0
    assert outcome.longest_wait_ms < WAIT_MS_MAX, outcome
    assert outcome.failures == ()
    assert epoch_before is not None
    assert controller_epoch(cluster) == epoch_before
