"""Find the aborted transactions that may have batches among records that were read.

A lookup is a generator of effects, as in `timestamp_lookup`: it yields `FindAbortedEffect`s, is sent their results, and
returns its answer. Only segments that may have an index of aborted transactions are looked at, the next ones after at
most `SEGMENTS_MAX` once a worker has read, and the files of these only if a transaction in them can have begun before
the end of the records. Entries in memory are used there; no file is opened here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.wire.errors import ErrorCode
from barnabas_logstore.core.storage.effect_results import AbortedTransaction, FoundAborted
from barnabas_logstore.core.storage.effects import EndOfRecords, FindAbortedEffect
from barnabas_logstore.core.storage.log.state.log_state import LogState
from barnabas_logstore.core.storage.segment.segment import Segment

SEGMENTS_MAX: Final = 64

AbortedLookup = Generator[FindAbortedEffect, FoundAborted | None, list[AbortedTransaction] | ErrorCode]


@dataclass(slots=True, eq=False)
class AbortedQuestion:
    """Records of `segment` from `from_offset` on, and below `upto_offset`. `end`: where they end."""

    segment: Segment
    from_offset: int
    upto_offset: int
    end: EndOfRecords | None


def find_aborted(state: LogState, question: AbortedQuestion) -> AbortedLookup:
    """Return them by their first offsets. OFFSET_OUT_OF_RANGE: the records have been deleted since, and with them what
    is known of their transactions.
    """
    while True:
        found: dict[AbortedTransaction, None] = {}
        is_complete = yield from _find(state, question, found)
        if question.segment.is_retired and question.from_offset < state.log_start_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if is_complete:
            return sorted(found, key=_first_offset_of)


def _first_offset_of(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


def _find(
    state: LogState, question: AbortedQuestion, found: dict[AbortedTransaction, None]
) -> Generator[FindAbortedEffect, FoundAborted | None, bool]:
    """Add them to `found`. False: a file was of a segment that has been replaced meanwhile, and it has to begin again.

    Files of a retired segment are those of the cleaned segment that has replaced it, or gone. That one has what is
    needed of its transactions, so more of them may be named.
    """
    end = question.end
    next_offset = state.segments.containing(question.segment.base_offset).base_offset
    is_complete = False
    while not is_complete:
        segments = state.segments.with_aborted(next_offset, SEGMENTS_MAX)
        is_complete = len(segments) < SEGMENTS_MAX
        to_read: list[Segment] = []
        for segment in segments:
            next_offset = segment.base_offset + 1
            aborted = segment.aborted
            if aborted.index is not None:
                if _add(found, aborted.index.ending_from(question.from_offset), question.upto_offset):
                    is_complete = True
                    break
                continue
            if aborted.first_offset_min < question.upto_offset:
                to_read.append(segment)
            if aborted.last_stable_offset_max >= question.upto_offset:
                is_complete = True
                break
        if not to_read and is_complete:
            return True
        # Without a file to read this is one turn of many.
        paths = [segment.aborted.path for segment in to_read]
        result = yield FindAbortedEffect(paths, question.from_offset, question.upto_offset, end)
        assert isinstance(result, FoundAborted)
        question.upto_offset, end = result.upto_offset, None
        if segments and segments[-1].is_retired:
            # What has replaced it may reach into those that follow.
            return False
        for segment, in_file in zip(to_read, result.files, strict=False):
            if segment.is_retired or segment.aborted.index is not None:
                return False
            segment.aborted.learn(in_file)
            if in_file is not None:
                found.update(dict.fromkeys(in_file.aborted))
                is_complete |= in_file.last_stable_offset_max >= question.upto_offset
    return True


def _add(found: dict[AbortedTransaction, None], ending: Iterable[AbortedTransaction], upto_offset: int) -> bool:
    """Return whether no transaction that began below `upto_offset` ends after these."""
    for aborted in ending:
        if aborted.first_offset < upto_offset:
            found[aborted] = None
        if aborted.last_stable_offset >= upto_offset:
            return True
    return False
