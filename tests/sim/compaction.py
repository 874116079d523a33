"""What the cleaner may take out of a log (rule 22), checked whenever a cleaned segment is about to replace others.

A record may go only if a later one of its key is committed below the end of the pass, or if its transaction is aborted.
So batches on two disks may differ by what was cleaned, and by nothing else: a batch that no pass has removed is missed
wherever it is not, and one that was made smaller counts as the batch that it was made of.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.ports.disk import Buffer
from barnabas.wire.markers import COMMIT, control_type_of
from barnabas.wire.record_batch import HEADER_BYTES, BatchHeader, Record, decode_payload, iterate_headers

if TYPE_CHECKING:
    from tests.sim.replica_logs import Batch, BatchRegister


@dataclass(slots=True, frozen=True)
class CleanedLog:
    """The batches in [first_offset, end_offset) are about to be replaced by those in `data`, in a pass whose end was
    `pass_end_offset`.
    """

    first_offset: int
    end_offset: int
    pass_end_offset: int
    data: Buffer


class BadCleaning(Exception):  # noqa: N818 - it names what was found
    """Something is gone that had to stay, or there is something new."""


class CommittedKeys:
    """The offsets of what is committed, by key; and what is aborted."""

    def __init__(self) -> None:
        self.scanned = 0
        """Batches of the book that it has seen."""
        self._offsets: dict[bytes | None, list[int]] = {}
        self._undecided: dict[int, list[Record]] = {}
        """By producer id."""
        self._aborted: set[int] = set()

    def add(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self.scanned += 1
            header = batch.whole.header
            records = decode_payload(header, batch.whole.payload)
            if header.is_control:
                undecided = self._undecided.pop(header.producer_id, [])
                if control_type_of(records[0].key) == COMMIT:
                    self._commit(undecided)
                else:
                    self._aborted.update(record.offset for record in undecided)
            elif header.is_transactional:
                self._undecided.setdefault(header.producer_id, []).extend(records)
            else:
                self._commit(records)

    def _commit(self, records: list[Record]) -> None:
        for record in records:
            insort(self._offsets.setdefault(record.key, []), record.offset)

    def may_go(self, record: Record, pass_end_offset: int) -> bool:
        if record.offset in self._aborted:
            return True
        offsets = self._offsets.get(record.key, [])
        later = bisect_right(offsets, record.offset)
        return later < len(offsets) and offsets[later] < pass_end_offset


def check_cleaned(
    before: list[Batch], cleaned: CleanedLog, register: BatchRegister, keys: Callable[[], CommittedKeys]
) -> list[Batch]:
    """Return what the log has there from now on. `keys` is asked where something has changed. Raises BadCleaning."""
    here = {batch.base_offset: batch for batch in before}
    after: dict[int, Batch] = {}
    for position, header in iterate_headers(cleaned.data):
        batch = here.get(header.base_offset)
        if batch is None or _identity(batch.header) != _identity(header):
            raise BadCleaning(f"a batch at offset {header.base_offset} that was not there before")
        if header.crc != batch.crc:
            payload = bytes(cleaned.data[position + HEADER_BYTES : position + header.size_bytes])
            batch = register.cleaned(batch, header, payload)
        after[batch.base_offset] = batch
    for batch in before:
        smaller = after.get(batch.base_offset)
        if smaller is not batch:
            _check_batch(batch, smaller, cleaned, keys())
        if smaller is None:
            batch.whole.is_removed = True
    return list(after.values())


def _identity(header: BatchHeader) -> tuple[int, ...]:
    """What of a batch stays whatever becomes of its records."""
    sequence = (header.producer_id, header.producer_epoch, header.base_sequence)
    kinds = (header.is_transactional, header.is_control)
    return (header.base_offset, header.next_offset, header.partition_leader_epoch, *sequence, *kinds)


def _check_batch(batch: Batch, smaller: Batch | None, cleaned: CleanedLog, keys: CommittedKeys) -> None:
    kept = {} if smaller is None else {each.offset: each for each in decode_payload(smaller.header, smaller.payload)}
    for record in decode_payload(batch.header, batch.payload):
        remains = kept.pop(record.offset, None)
        if remains == record:
            continue
        if remains is not None:
            raise BadCleaning(f"the record at offset {record.offset} has changed")
        if batch.header.is_control:
            raise BadCleaning(f"the marker at offset {record.offset} is gone, long before its horizon")
        if not keys.may_go(record, cleaned.pass_end_offset):
            raise BadCleaning(
                f"the record at offset {record.offset} is gone, and none of its key is committed after it and below "
                f"{cleaned.pass_end_offset}"
            )
    if kept:
        raise BadCleaning(f"records at offsets {list(kept)} that were not there before")
