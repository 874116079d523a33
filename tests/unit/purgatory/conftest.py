from __future__ import annotations

import pytest

from barnabas_purgatory.core.purgatory import PurgatoryCore
from tests.unit.purgatory.support import LEADER


@pytest.fixture
def core() -> PurgatoryCore:
    core = PurgatoryCore(now_ms=0)
    core.logstore_up(LEADER)
    return core
