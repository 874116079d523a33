"""Segments of a deleted log that still waited to be renamed are left alone: the names may be another log's by now.

The topic was made again under the same name, and the first files of its log were renamed, and removed, in the place of
the old ones: acknowledged records were gone.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from tests.unit.logstore.service.support import TOPIC_ID, batch, topic
from tests.unit.logstore.service.test_retention import files, new_host, tick


def test_the_files_of_the_new_log_stay() -> None:
    host = new_host({"retention.ms": "-1"})
    (partition,) = host.core.partitions
    log = partition.log
    log.retire_segments(2)
    host.core._retention._retiring[log] = None
    host.stop_replica()
    host.lead(topic(leader_epoch=1, topic_id=TOPIC_ID[::-1]))
    (made_again,) = host.core.partitions
    assert made_again.log.append(memoryview(batch()), 1, 0, None) is not ErrorCode.KAFKA_STORAGE_ERROR
    before = files(host, "")
    for now_ms in (1_000, 2_000, 10_000):
        tick(host, now_ms)
    assert not files(host, ".deleted")
    assert set(before) <= set(files(host, ""))
