"""One process of each role killed under producers that never stop; `make rolling-kills` does it ten times to each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rolling_kills import LOGSTORES as LOGSTORES_OF_THE_RUN
from tests.faults.rolling_kills import RollingKills, one_of_each_role, victims_of
from tests.integration.running_cluster import RunningCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(300),
    pytest.mark.slow,
    pytest.mark.deep,
    pytest.mark.minutes(
        "seven kills one after the other, each until all have recovered; test_rolling_groups kills a process of each "
        "service under such producers, and test_kill each service alone under load"
    ),
]

PROCESSORS = None
LOGSTORES = LOGSTORES_OF_THE_RUN


def test_nothing_acknowledged_is_lost(cluster: RunningCluster, tmp_path: Path) -> None:
    victims = one_of_each_role(victims_of(cluster))
    assert [victim.role for victim in victims] == [
        "etcd",
        "controller",
        "logstore",
        "control process",
        "purgatory",
        "gateway acceptor",
        "processor",
    ]
    rolling = RollingKills(cluster, tmp_path / "history", seed=1, say=print)
    verdict = rolling.run(victims, times=1)
    print(verdict)
    assert verdict.is_clean, str(verdict)
    assert len(rolling.kills) == len(victims)
    assert verdict.figures.acknowledged > 60 * len(victims)
