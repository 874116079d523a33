"""What recovery has cut stays cut after a clean stop, also of a log that it found empty.

The closing flush had nothing to flush where no record was left, and the clean-shutdown marker vouched for indexes that
came back with the next power cut.
"""

from __future__ import annotations

from random import Random

import pytest

from barnabas.cluster.topic_config import TopicConfig
from tests.sim.disk_model import DiskModel
from tests.unit.logstore.storage.support import DIRECTORY, append, batch, close, reopen

CONFIG = TopicConfig()
LOG = f"{DIRECTORY}/{0:020d}.log"


@pytest.mark.parametrize("seed", range(20))
def test_an_index_that_was_emptied_stays_empty(seed: int) -> None:
    disk = DiskModel()
    log = reopen(disk, CONFIG).log
    append(log, batch())
    close(disk, log)
    disk.truncate(disk.open(LOG), 0)
    disk.flush(disk.open(LOG))

    close(disk, reopen(disk, CONFIG).log)
    disk.lose_power(Random(seed))
    again = reopen(disk, CONFIG, shut_down_cleanly=True).log
    assert again.log_end_offset == 0
    assert len(again.segments.active.offset_index) == 0
    assert again.segments.active.max_timestamp() == (-1, 0)
