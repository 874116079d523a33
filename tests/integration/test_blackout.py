"""Everything killed at once under load, and started again; `make blackout` does it five times and measures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.blackout import LOGSTORES, UP_RETURNS, Blackouts, round_times
from tests.faults.etcd_timeline import CONTROLLER_ELECTED, LEADERS_ELECTED
from tests.integration.running_cluster import RunningCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.deep]

LEASE_TTL_MS = 600_000
"""`up` gives up after a minute: if a lease of a dead process is waited for, the cluster is not up by then."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCluster]:
    monkeypatch.setenv("BARNABAS_LEASE_TTL_MS", str(LEASE_TTL_MS))
    with RunningCluster(tmp_path / "cluster", LOGSTORES) as running:
        yield running


def test_nothing_is_lost_and_no_lease_of_the_dead_is_waited_for(cluster: RunningCluster, tmp_path: Path) -> None:
    blackouts = Blackouts(cluster, tmp_path / "history", seed=1, say=print)
    verdict = blackouts.run(rounds=1)
    assert verdict.is_clean, str(verdict)
    (blackout,) = blackouts.blackouts
    times = round_times(blackout, verdict.silences)
    elected_ms, led_ms, up_ms = (times.at_ms(each) for each in (CONTROLLER_ELECTED, LEADERS_ELECTED, UP_RETURNS))
    assert elected_ms is not None
    assert led_ms is not None
    assert up_ms is not None
    assert elected_ms <= led_ms <= up_ms
