"""Which batches of a log can be what their headers say.

The CRC covers neither the base offset nor the leader epoch, so that a leader can set them (Kafka's format). Only their
order tells that one of them has rotted: along a log offsets ascend, and epochs never go back (KIP-101). Where two
batches can't follow each other one of them is wrong, and the one before them is the witness.

What no neighbour contradicts is believed, as in Kafka: a last batch whose offset or epoch has become a larger one, or
an epoch that is still between its neighbours'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.wire.record_batch import BatchHeader


class OffsetAndEpoch(NamedTuple):
    """A place in a log: what comes there has at least this offset and at least this leader epoch."""

    offset: int
    leader_epoch: int

    def admits(self, place: OffsetAndEpoch) -> bool:
        return place.offset >= self.offset and place.leader_epoch >= self.leader_epoch


def in_order(
    batches: Iterable[tuple[int, BatchHeader]], before: OffsetAndEpoch, after: OffsetAndEpoch | None
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches up to the first that is wrong.

    `before` is where they begin, `after` where they should end at the latest: at the begin of what follows them, None
    where that is not known. Of two batches that contradict each other the later one is wrong where it can't follow the
    batch before them either; else the earlier one is taken for it, and the log ends before both.
    """
    last: tuple[int, BatchHeader] | None = None
    last_end = before
    for batch in batches:
        header = batch[1]
        begin = OffsetAndEpoch(header.base_offset, header.partition_leader_epoch)
        if not last_end.admits(begin):
            if last is not None and not before.admits(begin):
                yield last
            return
        if last is not None:
            yield last
            before = last_end
        last, last_end = batch, OffsetAndEpoch(header.next_offset, header.partition_leader_epoch)
    if last is not None and (after is None or last_end.admits(after) or not before.admits(after)):
        yield last
