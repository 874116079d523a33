"""The files of a read stream's ranges: which descriptors the other end has, and under which numbers.

The logstore hands a file over with the first answer that has a range of it, and names it by its number afterwards. A
number is never used again on its stream, so that a range can't mean another file than that of its time. The logstore
decides when a number ends: when it has too many of them, or when nothing else uses the file at the logstore, for
example because it has been deleted. The gateway holds the file open until then, and for ranges that clients have not
read.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final
from weakref import ref

from barnabas.channel.messages import ReadPartitionResult, ReadResponse, RecordsRange
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.file_range import FileRange

FILES_MAX: Final = 128
"""Of one stream, open at the gateway."""


class HandedFiles:
    """The logstore's end. It keeps no file open: a file that is closed elsewhere is closed at the gateway too."""

    __slots__ = ("_ended", "_files_max", "_last_number", "_numbers")

    def __init__(self, files_max: int = FILES_MAX) -> None:
        self._files_max = files_max
        self._numbers: OrderedDict[ref[object], int] = OrderedDict()
        """The least recently used first."""
        self._ended: deque[ref[object]] = deque()
        """Files that are gone, as any thread may report."""
        self._last_number = 0

    def number_ranges(self, response: ReadResponse) -> list[object]:
        """Replace the ranges of a response that is about to be sent by numbers; return the files of
        `response.opened_files`, whose descriptors have to go along with it.
        """
        opened: list[object] = []
        self.close_ended(response)
        for piece in response.pieces:
            for result in piece.partitions:
                if isinstance(result.records, FileRange):
                    self._number(result, result.records, response, opened)
        while len(self._numbers) > self._files_max:
            response.closed_files.append(self._numbers.popitem(last=False)[1])
        return opened

    def close_ended(self, response: ReadResponse) -> None:
        """Have the gateway close files that are gone."""
        while self._ended:
            number = self._numbers.pop(self._ended.popleft(), None)
            if number is not None:
                response.closed_files.append(number)

    def _number(
        self, result: ReadPartitionResult, records: FileRange, response: ReadResponse, opened: list[object]
    ) -> None:
        # A reference that has died is equal to itself only, so the callback's argument finds its entry.
        key = ref(records.file, self._ended.append)
        number = self._numbers.get(key)
        if number is None:
            self._last_number += 1
            number = self._numbers[key] = self._last_number
            response.opened_files.append(number)
            opened.append(records.file)
        else:
            self._numbers.move_to_end(key)
        result.records = b""
        result.records_range = RecordsRange(number, records.position, records.length)


class ReceivedFiles:
    """The gateway's end."""

    __slots__ = ("_arrived", "_files")

    def __init__(self) -> None:
        self._arrived: deque[object] = deque()
        """Those whose message has not been delivered."""
        self._files: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self._files)

    def arrive(self, files: Iterable[object]) -> None:
        """Files have come along with a message that is delivered later."""
        self._arrived.extend(files)

    def resolve(self, response: ReadResponse) -> None:
        """Replace the numbers in a response by ranges of files. Raises MalformedMessage."""
        for number in response.opened_files:
            if not self._arrived:
                raise MalformedMessage(f"file {number} has not come along")
            self._files[number] = self._arrived.popleft()
        for piece in response.pieces:
            for result in piece.partitions:
                if result.records_range is not None:
                    result.records = self._range_of(result.records_range)
                    result.records_range = None
        for number in response.closed_files:
            self._files.pop(number, None)

    def _range_of(self, found: RecordsRange) -> FileRange:
        file = self._files.get(found.file_number)
        if file is None:
            raise MalformedMessage(f"a range of file {found.file_number}, which is not open")
        return FileRange(file, found.position, found.length)

    def clear(self) -> None:
        """The stream is down."""
        self._arrived.clear()
        self._files.clear()
