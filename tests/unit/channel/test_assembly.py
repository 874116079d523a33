"""Read results travel in pieces and come out as they went in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.channel.assembly import ReadAssembler, ReadResult, split_read_result
from barnabas.channel.generated.packing import MalformedMessage, pack_read_response, scan_read_response
from barnabas.channel.messages import ReadPartitionResult, ReadPiece, ReadResponse
from tests.tiers import Cost, examples


def result_of(request_id: int, *lengths: int) -> ReadResult:
    partitions = [
        ReadPartitionResult(index, 0, 100 + index, 90, 1, 5, 2, 4096, bytes([index % 251]) * length)
        for index, length in enumerate(lengths)
    ]
    return ReadResult(request_id, partitions)


def through_the_stream(piece: ReadPiece) -> ReadPiece:
    return scan_read_response(pack_read_response(ReadResponse(pieces=[piece]))).pieces[0]


@given(lengths=st.lists(st.integers(0, 700), max_size=12), piece_bytes_max=st.integers(1, 1000))
def test_a_result_comes_out_as_it_went_in(lengths: list[int], piece_bytes_max: int) -> None:
    result = result_of(7, *lengths)
    pieces = list(split_read_result(result, piece_bytes_max))
    assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assembler = ReadAssembler(reads_max=1, bytes_max=1 << 20)
    taken = [assembler.add_piece(through_the_stream(piece)) for piece in pieces]
    assert taken[:-1] == [None] * (len(pieces) - 1)
    assert taken[-1] == result


@examples(Cost.HIGH)
@given(lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=20))
def test_pieces_keep_to_their_size(lengths: list[int]) -> None:
    for piece in split_read_result(result_of(1, *lengths), 1000):
        assert sum(len(partition.records) for partition in piece.partitions) <= 1000
        assert len(pack_read_response(ReadResponse(pieces=[piece]))) < 1000 + 200


def test_a_result_that_fits_is_one_piece_with_the_records_untouched() -> None:
    result = result_of(3, 10, 0, 20)
    (piece,) = split_read_result(result)
    assert piece.last
    assert piece.partitions[0].records is result.partitions[0].records


def test_records_in_one_piece_are_not_copied() -> None:
    whole = through_the_stream(next(split_read_result(result_of(3, 10))))
    taken = ReadAssembler().add_piece(whole)
    assert taken is not None
    assert isinstance(taken.partitions[0].records, memoryview)


def test_a_read_without_partitions_is_one_empty_piece() -> None:
    (piece,) = split_read_result(ReadResult(9, []))
    assert ReadAssembler().add_piece(piece) == ReadResult(9, [])


def test_pieces_of_several_reads_may_interleave() -> None:
    first, second = (list(split_read_result(result_of(each, 900, 900), 500)) for each in (1, 2))
    assembler = ReadAssembler()
    taken = [assembler.add_piece(piece) for pair in zip(first, second, strict=True) for piece in pair]
    assert taken[-2:] == [result_of(1, 900, 900), result_of(2, 900, 900)]


def part(request_id: int, *, last: bool = False) -> ReadPiece:
    return ReadPiece(request_id, last, [ReadPartitionResult(0, records=b"x" * 100)])


def test_unfinished_reads_are_bounded_in_number() -> None:
    assembler = ReadAssembler(reads_max=2)
    assembler.add_piece(part(1))
    assembler.add_piece(part(2))
    with pytest.raises(MalformedMessage, match="more reads"):
        assembler.add_piece(part(3))


def test_unfinished_reads_are_bounded_in_bytes() -> None:
    assembler = ReadAssembler(bytes_max=500)
    assembler.add_piece(part(1))
    assembler.add_piece(part(2))
    assembler.add_piece(part(1))
    with pytest.raises(MalformedMessage, match="more bytes"):
        assembler.add_piece(part(2))


def test_finished_and_forgotten_reads_leave_room() -> None:
    assembler = ReadAssembler(reads_max=1, bytes_max=400)
    for request_id in range(50):
        assert assembler.add_piece(part(request_id)) is None
        assert assembler.add_piece(part(request_id, last=True)) is not None
        assert assembler.add_piece(part(request_id)) is None
        assembler.forget(request_id)
    assert assembler.add_piece(part(100)) is None
    assembler.clear()
    assert assembler.add_piece(part(101)) is None


def test_a_partition_out_of_order_is_refused() -> None:
    partitions = [ReadPartitionResult(1), ReadPartitionResult(0)]
    with pytest.raises(MalformedMessage, match="out of order"):
        ReadAssembler().add_piece(ReadPiece(1, True, partitions))
