"""All planted faults by name, and where each can show."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.mutants import compacting, flushes, log_starts, names, reading, recovering
from tests.crash.mutants.planting import Plant

MUTANTS: dict[str, Plant] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        *names.PLANTS,
        *flushes.PLANTS,
        *recovering.PLANTS,
        *log_starts.PLANTS,
        *compacting.PLANTS,
        *reading.PLANTS,
    )
}


# Where a fault can show at all: seeds of another shape are passed over. What needs two rare things at once gets more of
# the one.
WHERE: dict[Plant, Callable[[dict[str, str]], bool]] = {
    recovering.last_time_is_never_in_doubt: lambda defaults: (
        defaults.get("flush.messages") == "1" and defaults["segment.index.bytes"] in ("24", "40")
    ),
    recovering.torn_tail_is_cut_and_not_flushed: lambda defaults: defaults.get("flush.messages") != "1",
    **dict.fromkeys(
        (
            compacting.compaction_loses_the_last_value,
            compacting.compaction_takes_tombstones_for_nothing,
            compacting.compaction_goes_past_the_high_watermark_and_what_is_durable,
            compacting.cleaned_segments_are_not_flushed,
            compacting.swaps_are_not_durable_step_by_step,
            compacting.swaps_that_were_broken_off_are_dropped,
            compacting.producers_keep_no_last_batch,
            recovering.leader_epochs_are_read_back_from_batches,
        ),
        lambda defaults: "compact" in defaults["cleanup.policy"],
    ),
}
