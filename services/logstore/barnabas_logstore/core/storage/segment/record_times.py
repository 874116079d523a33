"""What is known of the times of a segment's records besides what their headers say: whether they have expired.

Clients write the headers, and one that leaves the largest timestamp out, or writes a wrong one, must not have its
records deleted for it. So a segment has expired when its headers say so, and one of these does as well:

- the broker's own clock: it was written last so long ago
- its records: they have been read (`batches.record_timestamps`), as Kafka reads them when they are appended

Reading is asked for only where the two disagree by more than a producer's clock and its delays explain: for records
that were old when they came, and for wrong headers. Otherwise the broker's clock is waited for.
"""

from __future__ import annotations

from typing import Final

from barnabas_logstore.core.storage.segment.time_index import NO_TIMESTAMP

PATIENCE_MS: Final = 900_000
"""The broker's clock is waited for so long, but not longer than a tenth of `retention.ms`."""


class RecordTimes:
    """Of one segment. It only grows, so what has been read of it stays true."""

    __slots__ = ("_is_readable", "_latest_ms", "is_wanted", "upto_position")

    def __init__(self) -> None:
        self._latest_ms = NO_TIMESTAMP
        self._is_readable = True
        self.upto_position = 0
        """Where what has been read ends."""
        self.is_wanted = False
        """Retention has to know more."""

    def are_over(self, wall_ms: int, retention_ms: int, modified_ms: int, byte_count: int) -> bool:
        """Whether all records of the segment are older than `retention_ms`, as its headers say. `modified_ms` is when
        it was written last, `byte_count` its size.
        """
        limit_ms = wall_ms - retention_ms
        is_long_ago = modified_ms < limit_ms
        is_soon_over = modified_ms - limit_ms < min(PATIENCE_MS, retention_ms // 10)
        is_read = self.upto_position >= byte_count
        is_known_later = self._latest_ms >= limit_ms
        self.is_wanted = not (is_soon_over or is_read or is_known_later) and self._is_readable
        if is_known_later:
            return False
        # Without any timestamp, it is as old as its file.
        return is_long_ago or (is_read and self._latest_ms != NO_TIMESTAMP)

    def add(self, latest_ms: int, end_position: int) -> None:
        """The records have been read up to `end_position`; `latest_ms` is the largest timestamp of the new ones."""
        self._latest_ms = max(self._latest_ms, latest_ms)
        self.upto_position = end_position
        self.is_wanted = False

    def give_up(self) -> None:
        """The records can't be read: the segment is as old as its file."""
        self._is_readable = self.is_wanted = False
