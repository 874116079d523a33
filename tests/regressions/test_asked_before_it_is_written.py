"""A client that asked for the largest timestamp while a segment's first batch was being written took all of its log's
directory offline: the segment had no file yet.
"""

from __future__ import annotations

from barnabas.channel.messages import ExchangeRequest, OffsetAnswer, OffsetQuery
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import WriteEffect
from barnabas_logstore.core.storage.log.features.timestamp_lookup import MAX_TIMESTAMP
from tests.unit.logstore.service.support import (
    EXCHANGE,
    TOPIC_ID,
    WALL_MS,
    Host,
    append_results,
    batch,
    exchange,
    topic,
)

HALF_A_SEGMENT = 600_000


def test_a_segment_whose_first_batch_is_being_written_has_no_answer_yet() -> None:
    host = Host()
    host.lead(topic(configs={"segment.bytes": str(1 << 20)}))
    host.greet(EXCHANGE)
    assert not host.append(batch(value_bytes=HALF_A_SEGMENT)).error_code

    host.holds_effects = True
    host.send(host.append_request(batch(value_bytes=HALF_A_SEGMENT, timestamp_ms=WALL_MS + 5)))
    query = OffsetQuery(1, TOPIC_ID, 0, -1, 0, MAX_TIMESTAMP)
    host.turn()
    assert any(effect.creates for effect in host.held if isinstance(effect, WriteEffect))
    host.core.on_exchange(EXCHANGE, ExchangeRequest(offset_queries=[query]))
    (answer,) = exchange(host.turn()).offset_answers
    # As in Kafka, where the record with the largest timestamp is not committed.
    assert answer == OffsetAnswer(1, ErrorCode.NONE, -1, -1, -1)
    assert not host.core.all_directories_offline

    host.holds_effects = False
    results = [result for out in host.settle() for result in append_results(out)]
    assert [(result.error_code, result.base_offset) for result in results] == [(ErrorCode.NONE, 1)]
    answer = host.query_offset(MAX_TIMESTAMP)
    assert (answer.timestamp, answer.offset) == (WALL_MS + 5, 1)
