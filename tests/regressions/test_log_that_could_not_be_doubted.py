"""A log that an unexpected exception has left half-changed, and that could not be taken offline, ends the process.

The exception met while the log was taken offline was contained as one of the marker whose append had failed, or of the
stream of a request: the log went on half-changed, its last stable offset stood still (seed 315 with exceptions).
"""

from __future__ import annotations

from typing import cast

import pytest

from barnabas.containment import CONTAINING, Uncontained
from barnabas_logstore.core.replica.containment import APPEND_TO_LOG
from barnabas_logstore.core.storage.log.state.producer_state import ProducerEntry
from tests.unit.logstore.service.support import topic
from tests.unit.logstore.service.test_markers import PRODUCER, VERSION, GroupHost, markers, partition_of
from tests.unit.logstore.storage.test_transactions import write


def test_a_log_in_doubt_that_stays_online_ends_the_process() -> None:
    host = GroupHost()
    host.lead(topic())
    log = partition_of(host).log
    write(log, 0)
    # Of another type than any code expects: the append of a marker fails unexpectedly.
    log.state.producers._producers[PRODUCER] = cast("ProducerEntry", object())
    # What counts the exceptions does not know the place: the containment itself fails.
    del host.core.contained.counts[APPEND_TO_LOG]
    with pytest.raises(Uncontained):
        host.ask(markers(), VERSION)


def test_what_is_not_an_exception_leaves_a_containing_block_as_it_is() -> None:
    with pytest.raises(KeyboardInterrupt), CONTAINING:
        raise KeyboardInterrupt
    with CONTAINING:
        pass
