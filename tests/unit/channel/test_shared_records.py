"""Records in shared memory: what arrives, when blocks are free again, what a broken peer can name."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.channel import shared_records
from barnabas.channel.generated.packing import (
    MalformedMessage,
    pack_exchange_request,
    pack_replicate_response,
    scan_exchange_request,
    scan_replicate_response,
)
from barnabas.channel.messages import (
    Append,
    ExchangeRequest,
    ReplicaData,
    ReplicaPiece,
    ReplicateResponse,
    SharedRecords,
)
from barnabas.channel.shared_records import (
    BLOCK_BYTES,
    SHARED_BYTES_MIN,
    SHARED_MAX,
    SharedInbox,
    SharedOutbox,
    blocks_of,
    memory_bytes,
    resolve,
)


def ends(blocks: int) -> tuple[SharedOutbox, SharedInbox]:
    memory = memoryview(bytearray(memory_bytes(blocks)))
    return SharedOutbox(memory), SharedInbox(memory)


def put(outbox: SharedOutbox, records: bytes) -> SharedRecords:
    block = outbox.put(records)
    assert block >= 0
    return SharedRecords(0, block, len(records))


@pytest.mark.parametrize("blocks", [1, 2, 4095, 4096, 4097, 9000])
def test_a_memory_has_the_blocks_that_it_was_made_for(blocks: int) -> None:
    assert blocks_of(memory_bytes(blocks)) == blocks
    assert blocks_of(memory_bytes(blocks) - 1) < blocks


def test_what_is_put_is_read_and_free_when_no_slice_of_it_is_left() -> None:
    outbox, inbox = ends(4)
    records = inbox.read(put(outbox, b"x" * (4 * BLOCK_BYTES)))
    assert outbox.put(b"y") == -1
    part = records[5:7]
    del records
    assert outbox.put(b"y") == -1, "a slice is left"
    assert bytes(part) == b"xx"
    assert len(inbox) == 1
    del part
    assert len(inbox) == 0
    assert bytes(inbox.read(put(outbox, b"y"))) == b"y"


def test_the_first_free_blocks_are_used() -> None:
    outbox, inbox = ends(10)
    shared = [put(outbox, bytes(2 * BLOCK_BYTES)) for _ in range(5)]
    read = [inbox.read(each) for each in shared]
    del read[3], read[1]
    assert outbox.put(bytes(3 * BLOCK_BYTES)) == -1
    assert outbox.put(bytes(BLOCK_BYTES + 1)) == shared[1].block
    assert outbox.put(bytes(BLOCK_BYTES)) == shared[3].block


def test_so_much_may_be_with_the_receiver() -> None:
    outbox, inbox = ends(SHARED_MAX + 10)
    read = [inbox.read(put(outbox, b"x")) for _ in range(SHARED_MAX)]
    assert outbox.put(b"x") == -1
    read.pop()
    assert outbox.put(b"x") >= 0


def test_no_byte_that_is_still_read_is_written_over() -> None:
    random = Random(7)
    outbox, inbox = ends(40)
    live: list[tuple[bytes, memoryview]] = []
    put_count = 0
    for _ in range(3_000):
        records = random.randbytes(1) * random.randint(1, 9 * BLOCK_BYTES)
        block = outbox.put(records)
        if block >= 0:
            put_count += 1
            live.append((records, inbox.read(SharedRecords(0, block, len(records)))))
        elif live:
            live.pop(random.randrange(len(live)))
        assert all(view == expected for expected, view in live)
    assert put_count > 500
    live.clear()
    assert outbox.put(bytes(40 * BLOCK_BYTES)) == 0


def test_appends_arrive_as_they_were_sent_and_stay_what_they_were() -> None:
    outbox, inbox = ends(100)
    bodies = [b"small", b"L" * SHARED_BYTES_MIN, b"", b"M" * (SHARED_BYTES_MIN + 1)]
    appends = [Append(number, bytes(16), number, 5, -1, body, 7, True) for number, body in enumerate(bodies)]
    request = ExchangeRequest(appends=list(appends))
    outbox.share_appends(request)
    packed = pack_exchange_request(request)
    assert len(packed) < SHARED_BYTES_MIN
    assert [append.records for append in appends] == bodies, "they may be sent again, by another stream"
    scanned = scan_exchange_request(packed)
    resolve(scanned.shared, scanned.appends, inbox)
    assert [bytes(append.records) for append in scanned.appends] == bodies
    assert scanned.appends == appends


def test_replicated_records_arrive_as_they_were_sent() -> None:
    outbox, inbox = ends(100)
    bodies = [b"L" * SHARED_BYTES_MIN, b"small", b"M" * SHARED_BYTES_MIN]
    partitions = [ReplicaData(slot, records=body) for slot, body in enumerate(bodies)]
    response = ReplicateResponse(piece=ReplicaPiece(1, True, partitions))
    outbox.share_replicated(response)
    packed = pack_replicate_response(response)
    assert len(packed) < SHARED_BYTES_MIN
    scanned = scan_replicate_response(packed)
    assert scanned.piece is not None
    resolve(scanned.shared, scanned.piece.partitions, inbox)
    assert [bytes(data.records) for data in scanned.piece.partitions] == bodies


def test_what_finds_no_space_is_sent() -> None:
    outbox, inbox = ends(SHARED_BYTES_MIN // BLOCK_BYTES)
    bodies = [b"a" * SHARED_BYTES_MIN, b"b" * SHARED_BYTES_MIN]
    request = ExchangeRequest(appends=[Append(1, bytes(16), 0, 0, 1, body) for body in bodies])
    outbox.share_appends(request)
    assert len(request.shared) == 1
    scanned = scan_exchange_request(pack_exchange_request(request))
    resolve(scanned.shared, scanned.appends, inbox)
    assert [bytes(append.records) for append in scanned.appends] == bodies


@pytest.mark.parametrize(
    ("index", "block", "length"),
    [
        (1, 0, 1),
        (2**32 - 1, 0, 1),
        (0, 4, 1),
        (0, 2**32 - 1, 1),
        (0, 0, 4 * BLOCK_BYTES + 1),
        (0, 3, BLOCK_BYTES + 1),
        (0, 0, 2**32 - 1),
        (0, 0, 0),
    ],
)
def test_what_is_outside_of_the_memory_or_the_message_is_malformed(index: int, block: int, length: int) -> None:
    _, inbox = ends(4)
    with pytest.raises(MalformedMessage):
        resolve([SharedRecords(index, block, length)], [Append(1, bytes(16), 0, 0, 1, b"")], inbox)
    assert len(inbox) == 0


def test_blocks_that_are_still_read_are_not_named_again() -> None:
    outbox, inbox = ends(4)
    shared = put(outbox, b"x")
    records = inbox.read(shared)
    with pytest.raises(MalformedMessage):
        inbox.read(shared)
    assert bytes(records) == b"x"


def test_records_are_shared_only_through_memory_that_was_handed_over() -> None:
    with pytest.raises(MalformedMessage):
        resolve([SharedRecords(0, 0, 1)], [Append(1, bytes(16), 0, 0, 1, b"")], None)


def test_a_state_that_the_peer_overwrites_is_no_more_than_wrong() -> None:
    """A receiver that frees too much or too little costs records or space, never bytes outside of the memory."""
    memory = memoryview(bytearray(memory_bytes(8)))
    outbox = SharedOutbox(memory)
    random = Random(3)
    for _ in range(500):
        block = outbox.put(bytes(random.randint(1, 3 * BLOCK_BYTES)))
        assert -1 <= block < 8
        memory[: shared_records._first_block_at(8)] = random.randbytes(1) * shared_records._first_block_at(8)
