"""Files of ranges at both ends of a read stream: numbers, what goes along, what is closed when."""

from __future__ import annotations

import gc

import pytest

from barnabas.channel.generated.packing import MalformedMessage, pack_read_response, scan_read_response
from barnabas.channel.messages import ReadPartitionResult, ReadPiece, ReadResponse, RecordsRange
from barnabas.channel.range_files import HandedFiles, ReceivedFiles
from barnabas.wire.file_range import FileRange


class OpenFile:
    """What a descriptor is of."""


def response(*records: bytes | FileRange) -> ReadResponse:
    results = [ReadPartitionResult(index, records=each) for index, each in enumerate(records)]
    return ReadResponse(pieces=[ReadPiece(1, True, results)])


def passed(handed: HandedFiles, received: ReceivedFiles, sent: ReadResponse) -> ReadResponse:
    """The response as the gateway's core sees it."""
    received.arrive(handed.number_ranges(sent))
    scanned = scan_read_response(pack_read_response(sent))
    received.resolve(scanned)
    return scanned


def records_of(got: ReadResponse) -> list[object]:
    return [
        each.records if isinstance(each.records, FileRange) else bytes(each.records)
        for each in got.pieces[0].partitions
    ]


def test_a_range_arrives_as_it_was_sent_beside_bytes() -> None:
    handed, received = HandedFiles(), ReceivedFiles()
    file, other = OpenFile(), OpenFile()
    sent: list[bytes | FileRange] = [FileRange(file, 7, 100), b"abc", FileRange(other, 0, 1 << 40), b""]
    assert records_of(passed(handed, received, response(*sent))) == sent


def test_a_descriptor_goes_along_once() -> None:
    handed = HandedFiles()
    file = OpenFile()
    assert handed.number_ranges(response(FileRange(file, 0, 1), FileRange(file, 1, 1))) == [file]
    again = response(FileRange(file, 2, 1))
    assert handed.number_ranges(again) == []
    assert (again.opened_files, again.closed_files) == ([], [])
    assert again.pieces[0].partitions[0].records_range == RecordsRange(1, 2, 1)


def test_the_least_recently_used_file_is_closed_and_its_number_not_used_again() -> None:
    handed, received = HandedFiles(files_max=2), ReceivedFiles()
    files = [OpenFile() for _ in range(3)]
    for file in files:
        passed(handed, received, response(FileRange(file, 0, 1)))
    assert len(received) == 2
    again = response(FileRange(files[0], 0, 1))
    assert handed.number_ranges(again) == [files[0]]
    assert (again.opened_files, again.closed_files) == ([4], [2])


def test_a_file_that_is_gone_is_closed_with_the_next_message() -> None:
    handed, received = HandedFiles(), ReceivedFiles()
    file = OpenFile()
    sent = passed(handed, received, response(FileRange(file, 0, 1)))
    # The gateway has a descriptor of its own; here it is the same object.
    received.clear()
    del sent, file
    gc.collect()
    heartbeat = ReadResponse(heartbeat=1)
    handed.close_ended(heartbeat)
    assert heartbeat.closed_files == [1]
    other = OpenFile()
    after = response(FileRange(other, 0, 1))
    handed.number_ranges(after)
    assert (after.opened_files, after.closed_files) == ([2], [])


def test_a_range_that_is_still_to_be_sent_keeps_its_file_open() -> None:
    received = ReceivedFiles()
    received.arrive([file := OpenFile()])
    got = ReadResponse(
        pieces=[ReadPiece(1, True, [ReadPartitionResult(0, records_range=RecordsRange(5, 1, 2))])],
        opened_files=[5],
        closed_files=[5],
    )
    received.resolve(got)
    assert len(received) == 0
    assert got.pieces[0].partitions[0].records == FileRange(file, 1, 2)


@pytest.mark.parametrize(
    "got",
    [
        ReadResponse(opened_files=[1]),
        ReadResponse(pieces=[ReadPiece(1, True, [ReadPartitionResult(0, records_range=RecordsRange(9, 0, 1))])]),
    ],
)
def test_a_file_that_was_not_handed_over_ends_the_stream(got: ReadResponse) -> None:
    with pytest.raises(MalformedMessage):
        ReceivedFiles().resolve(got)


def test_no_file_of_one_stream_is_known_on_the_next() -> None:
    handed, received = HandedFiles(), ReceivedFiles()
    file = OpenFile()
    passed(handed, received, response(FileRange(file, 0, 1)))
    received.clear()
    late = response(FileRange(file, 1, 1))
    handed.number_ranges(late)
    with pytest.raises(MalformedMessage):
        received.resolve(late)


def test_parts_of_a_range() -> None:
    whole = FileRange(OpenFile(), 10, 5)
    assert (len(whole), bool(whole), bool(FileRange(whole.file, 0, 0))) == (5, True, False)
    assert whole.after(2) == FileRange(whole.file, 12, 3)
