"""Of a log in which one base offset or leader epoch has rotted the sound begin is kept, and never the rotten batch."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.record_batch import BatchHeader
from barnabas_logstore.core.storage.segment.batch_order import OffsetAndEpoch, in_order

BEGIN = OffsetAndEpoch(10, 2)


@st.composite
def logs(draw: st.DrawFn) -> list[BatchHeader]:
    """Also with the gaps that compaction leaves."""
    headers = []
    offset, epoch = BEGIN
    for _ in range(draw(st.integers(1, 8))):
        offset += draw(st.sampled_from((0, 0, 0, 3)))
        epoch += draw(st.sampled_from((0, 0, 1, 2)))
        last_offset_delta = draw(st.integers(0, 4))
        headers.append(BatchHeader(offset, 49, epoch, 2, 0, 0, last_offset_delta, 0, 0, -1, -1, -1, 1))
        offset += last_offset_delta + 1
    return headers


def end_of(headers: list[BatchHeader]) -> OffsetAndEpoch:
    return OffsetAndEpoch(headers[-1].next_offset, headers[-1].partition_leader_epoch)


def kept(headers: list[BatchHeader], after: OffsetAndEpoch | None) -> list[BatchHeader]:
    return [header for _, header in in_order(enumerate(headers), BEGIN, after)]


def fit_together(headers: list[BatchHeader], after: OffsetAndEpoch | None) -> bool:
    places = [BEGIN]
    for header in headers:
        places += [OffsetAndEpoch(header.base_offset, header.partition_leader_epoch), end_of([header])]
    return all(earlier.admits(later) for earlier, later in pairwise(places + ([] if after is None else [after])))


@given(logs(), st.booleans())
def test_a_sound_log_is_kept(headers: list[BatchHeader], knows_end: bool) -> None:
    assert kept(headers, end_of(headers) if knows_end else None) == headers


@given(logs(), st.booleans(), st.data())
def test_the_begin_is_kept_and_the_rotten_batch_is_not(
    headers: list[BatchHeader], knows_end: bool, data: st.DataObject
) -> None:
    after = end_of(headers) if knows_end else None
    at = data.draw(st.integers(0, len(headers) - 1))
    rotten = list(headers)
    if data.draw(st.booleans()):
        rotten[at] = headers[at]._replace(base_offset=headers[at].base_offset ^ 1 << data.draw(st.integers(0, 62)))
    else:
        epoch = headers[at].partition_leader_epoch ^ 1 << data.draw(st.integers(0, 30))
        rotten[at] = headers[at]._replace(partition_leader_epoch=epoch)
    found = kept(rotten, after)
    if fit_together(rotten, after):
        assert found == rotten, "no reader can know"
    else:
        assert found == headers[: len(found)]
        assert at - 1 <= len(found) <= at, "at most one batch too many is given up"
