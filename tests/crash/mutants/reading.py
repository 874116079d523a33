"""Planted faults of what a read finds in a log of many segments."""

from __future__ import annotations

from dataclasses import replace as replaced

from barnabas.wire.errors import ErrorCode
from barnabas.wire.file_range import FileRange
from barnabas.wire.record_batch import parse_header
from barnabas_logstore.core.storage.effect_results import FoundBatches, NotFound
from barnabas_logstore.core.storage.effects import ReadBatchesEffect
from barnabas_logstore.core.storage.log import log_view
from barnabas_logstore.core.storage.log.log_view import ReadPlan
from barnabas_logstore.core.storage.log.state.log_state import LogState
from tests.crash.mutants.planting import Plant, replace


def full_read_goes_on_in_the_next_segment() -> None:
    """What is between the last batch that fits and the end of its segment is skipped."""
    original = log_view._finish

    def finish(
        state: LogState, plan: ReadPlan, found: FoundBatches | NotFound
    ) -> memoryview | FileRange | ReadBatchesEffect | ErrorCode:
        read = original(state, plan, found)
        segment, following = plan.segment, state.segments.after(plan.segment)
        if not isinstance(found, FoundBatches) or isinstance(read, ErrorCode | ReadBatchesEffect):
            return read
        if segment.is_retired or following is None or following.base_offset >= plan.upto_offset:
            return read
        if found.position + len(read) >= segment.byte_count:
            return read
        plan.segment = following
        part = log_view._part_of(state, following, following.base_offset, plan.upto_offset)
        plan.effect = replaced(plan.effect, part=part, offset=following.base_offset)
        return plan.effect

    replace(log_view, "_finish", finish)


def read_begins_behind_the_batch_of_its_offset() -> None:
    original = log_view._finish

    def finish(
        state: LogState, plan: ReadPlan, found: FoundBatches | NotFound
    ) -> memoryview | FileRange | ReadBatchesEffect | ErrorCode:
        read = original(state, plan, found)
        if isinstance(read, memoryview) and read:
            header = parse_header(read)
            if header.base_offset < plan.effect.offset:
                return read[header.size_bytes :]
        return read

    replace(log_view, "_finish", finish)


PLANTS: tuple[Plant, ...] = (full_read_goes_on_in_the_next_segment, read_begins_behind_the_batch_of_its_offset)
