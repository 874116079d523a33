"""With flush.messages a write that brings a flush waits for a flush that is under way, and used to be forgotten there.

The append behind it was answered when the next one came, or never; a clean stop found the log busy.
"""

from __future__ import annotations

from barnabas_logstore.core.storage.effects import FlushEffect, WriteEffect
from tests.unit.logstore.service.support import EXCHANGE, Host, append_results, topic


def test_a_write_goes_on_when_the_flush_before_it_is_done() -> None:
    host = Host()
    host.greet(EXCHANGE)
    host.lead(topic(configs={"flush.messages": "2", "flush.ms": "1000"}))
    host.append()
    host.core.tick(0)
    host.holds_effects = True
    host.now_ms = 5_000
    host.core.tick(host.now_ms)
    host.turn()
    (flush,) = [effect for effect in host.held if isinstance(effect, FlushEffect)]
    host.send(host.append_request(), host.append_request())
    host.turn()
    assert not any(isinstance(effect, WriteEffect) for effect in host.held)

    host.run_effect(flush)
    host.holds_effects = False
    results = [result for out in host.settle() for result in append_results(out)]
    assert [result.error_code for result in results] == [0, 0]
