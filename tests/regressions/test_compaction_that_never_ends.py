"""An internal error as a compacted segment takes its place costs its partition, and other logs are compacted.

The pass stayed in progress for ever: nothing was compacted any more, and a new topic of the same name waited for its
end, with every later command of the controller behind it. Found by seed 72 with exceptions.
"""

from __future__ import annotations

from barnabas_logstore.core.replica.containment import CLEANING_PASS
from barnabas_logstore.core.storage.compaction.orders import CleanedSegment, PassEnded, PassOutcome
from tests.unit.logstore.compaction.test_cleaning import COMPACTED, CleaningHost
from tests.unit.logstore.service.support import EXCHANGE, READ, WATCH, topic


def test_a_swap_that_ends_unexpectedly_leaves_the_log_to_no_cleaner_and_others_are_cleaned() -> None:
    host = CleaningHost()
    host.greet(EXCHANGE, READ, WATCH, WATCH + 10)
    host.lead(topic(configs=COMPACTED, partitions=2))
    host.fill("a", "b", "a", "b", "a")
    host.fill("a", "b", "a", partition=1)
    host.tick()
    host.take_order()
    first, second = host.core.partitions
    host.holds_effects = True
    host.until(CleanedSegment)
    host.turn()
    # As nothing leaves it.
    first.log.swap.abandon()
    host.holds_effects = False
    host.run_effects()
    host.settle()
    assert host.core.contained.counts[CLEANING_PASS] == 1
    assert (first.online, second.online) == (False, True)
    assert first.log.is_being_cleaned, "the cleaner has not let go of it"
    host.until(PassEnded)
    host.settle()
    assert not first.log.is_being_cleaned
    host.commands.clear()
    host.tick()
    assert host.take_order().directory == second.log.state.directory
    host.until(PassEnded)
    host.settle()
    assert host.passes.pop().ended.outcome is PassOutcome.DONE
