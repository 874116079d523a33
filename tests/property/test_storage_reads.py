"""Any read of any log: whole batches from the one asked for, never past the bound, never more than asked except the
first.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.topic_config import TopicConfig
from barnabas.wire.record_batch import iterate_headers, parse_header
from tests.sim.disk_model import DiskModel
from tests.tiers import Cost, examples
from tests.unit.logstore.storage.support import WALL_MS, append, batch, lookup, new_log, read, settle


@examples(Cost.VERY_HIGH)
@given(seed=st.integers(0, 2**32 - 1))
def test_reads_and_lookups_agree_with_the_history(seed: int) -> None:
    random = Random(seed)
    disk = DiskModel()
    config = TopicConfig(
        segment_bytes=random.choice((4000, 30_000, 1 << 30)), index_interval_bytes=random.choice((0, 500, 4096))
    )
    log = new_log(disk, config)
    base_offsets = []
    timestamps = []
    for _ in range(random.choice((5, 100, 1200))):
        records_count = random.randint(1, 4)
        timestamp_ms = WALL_MS + random.randint(0, 5000)
        timestamps += [timestamp_ms + index for index in range(records_count)]
        records = batch(records_count, value_bytes=random.choice((0, 20, 800)), timestamp_ms=timestamp_ms)
        base_offsets.append(append(log, records).base_offset)
    settle(disk, log)
    for _ in range(30):
        offset = random.randrange(log.log_end_offset + 1)
        upto_offset = random.choice([*base_offsets, log.log_end_offset])
        max_bytes = random.choice((0, 1, 100, 5000, 1 << 20))
        min_one_batch = random.random() < 0.5
        data = read(disk, log, offset, max_bytes, upto_offset, min_one_batch=min_one_batch)
        assert isinstance(data, bytes)
        headers = [header for _, header in iterate_headers(data)]
        if offset >= upto_offset:
            assert data == b""
        elif min_one_batch:
            assert headers
        if data:
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            assert headers[-1].last_offset < upto_offset
            assert len(data) <= max(max_bytes, headers[0].size_bytes if min_one_batch else 0)
            rest = data[sum(header.size_bytes for header in headers) :]
            assert len(rest) < 61 or parse_header(rest).base_offset < upto_offset
    for _ in range(20):
        wanted_ms = WALL_MS + random.randint(-5, 5010)
        upto_offset = random.choice([*base_offsets, log.log_end_offset])
        expected = next((offset for offset, timestamp_ms in enumerate(timestamps) if timestamp_ms >= wanted_ms), -1)
        assert lookup(disk, log, wanted_ms, upto_offset).offset == (expected if expected < upto_offset else -1)
