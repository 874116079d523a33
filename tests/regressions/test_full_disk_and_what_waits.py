"""A full disk: what waits behind a write that found no room fails with it, and no command of the controller hangs.

A producer's third batch was still being opened when its first two found no room; it got into the log before they were
sent again, and they were out of order for ever. A topic that was deleted and made again waited for a checkpoint that
could not be written, and every other command behind it.
"""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effects import ValidateBatchEffect, WriteEffect
from tests.unit.logstore.service.support import EXCHANGE, TOPIC_ID, Host, append_results, batch, topic


def full(host: Host) -> None:
    host.disk.capacity_bytes = host.disk.used_bytes()


def test_what_is_being_opened_fails_with_the_write_before_it() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"cleanup.policy": "compact"}))
    host.holds_effects = True
    host.send(*[host.append_request(batch(value_bytes=2000)) for _ in range(2)])
    host.turn()
    (opening,) = [effect for effect in host.held if isinstance(effect, ValidateBatchEffect)]
    host.run_effect(opening)
    host.turn()
    (write,) = [effect for effect in host.held if isinstance(effect, WriteEffect)]
    full(host)
    host.run_effect(write)
    results = append_results(host.turn())
    assert [result.error_code for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_a_topic_that_is_made_again_does_not_wait_for_room() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic())
    full(host)
    host.stop_replica()
    answer = host.lead(topic(leader_epoch=1, topic_id=TOPIC_ID[::-1]))
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.KAFKA_STORAGE_ERROR]
