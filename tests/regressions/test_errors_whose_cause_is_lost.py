"""`raise A from b` has no cause where it is compiled: what decided by `__cause__` decided for the worst.

An unexpected exception in what follows a write, a flush or a swap of files takes that log's partition offline. With
compiled cores it ended the logstore, at each of its starts if it came from what was in the log.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.containment import summary_of
from barnabas_logstore.core.replica.containment import LOG_EFFECT
from barnabas_logstore.core.storage.effects import ProbeEffect
from barnabas_logstore.core.storage.log.state.log_state import LogInDoubt
from barnabas_logstore.core.streams.outbox import Completion, CompletionFault
from tests.unit.logstore.service.support import Host, topic


def raises(*arguments: object) -> Any:
    raise ValueError("planted")


def test_what_follows_an_effect_costs_the_partition_of_its_log() -> None:
    host = Host()
    host.lead(topic(partitions=2))
    first, second = host.core.partitions
    effect = ProbeEffect("/data")
    host.core._outbox.add_effect(effect, Completion(raises, raises, (first.log,)))
    host.core._outbox._effects.clear()
    host.core.stopping.effects_in_flight += 1
    host.core.on_io_done(effect, None)
    assert host.core.contained.counts[LOG_EFFECT] == 1
    assert not first.online
    assert second.online
    assert "planted" in next(iter(host.core.contained.in_doubt.values()))


def test_without_a_log_it_ends_the_process() -> None:
    host = Host()
    effect = ProbeEffect("/data")
    host.core._outbox.add_effect(effect, Completion(raises, raises))
    host.core.stopping.effects_in_flight += 1
    with pytest.raises(CompletionFault) as raised:
        host.core.on_io_done(effect, None)
    assert isinstance(raised.value.cause, ValueError)


def test_an_error_without_words_is_summed_up_by_what_led_to_it() -> None:
    def in_doubt() -> None:
        try:
            raises()
        except ValueError as error:
            raise LogInDoubt from error

    with pytest.raises(LogInDoubt) as raised:
        in_doubt()
    assert summary_of(raised.value) == "ValueError: planted"
