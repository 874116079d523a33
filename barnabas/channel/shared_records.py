"""Records in memory that both ends of a stream have mapped: the sender copies them there, and its message says where.

The memory belongs to the receiver, which has created it and handed it over with the lane. It has a byte of state for
each block of 4 KiB, and then the blocks. The sender marks the first block of what it sends as used; the receiver marks
it as free when nothing refers to the bytes any more, whatever it was that did. So neither an answer that comes too
early nor a request that is given up can free bytes that are still being read.

The sender never waits: what finds no space is sent in the message. What it has sent before must not change, which is
what the receiver relies on between the check of a batch and its write.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final
from weakref import KeyedRef

from barnabas.channel.messages import Append, ExchangeRequest, ReplicaData, ReplicateResponse, SharedRecords
from barnabas.channel.packing_primitives import MalformedMessage
from barnabas.wire.primitives import Buffer

BLOCK_BYTES: Final = 4 << 10
SHARED_BYTES: Final = 16 << 20
"""Of each stream that shares records; pages exist once they are used."""
SHARED_BYTES_MIN: Final = 32 << 10
"""Records from this size on are shared: below it, what the two system calls copy costs less."""

SHARED_MAX: Final = 64
"""What may be with the receiver at a time: the sender looks through it before it takes blocks."""

_FREE: Final = 0
_USED: Final = 1


def memory_bytes(blocks: int) -> int:
    """Return the size of a memory of so many blocks."""
    return _first_block_at(blocks) + blocks * BLOCK_BYTES


def blocks_of(byte_count: int) -> int:
    """Return how many blocks a memory of this size has."""
    blocks = byte_count // (BLOCK_BYTES + 1)
    while blocks and memory_bytes(blocks) > byte_count:
        blocks -= 1
    return blocks


def _first_block_at(blocks: int) -> int:
    return -(-blocks // BLOCK_BYTES) * BLOCK_BYTES


class SharedOutbox:
    """The sender's end. It takes the first blocks that are free, so that the memory in use stays in the processor's
    caches.
    """

    __slots__ = ("_blocks", "_first_at", "_memory", "_used")

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._blocks = blocks_of(len(memory))
        self._first_at = _first_block_at(self._blocks)
        self._used: list[tuple[int, int]] = []
        """First block and end of what is with the receiver, in their order in the memory."""

    def put(self, records: Buffer) -> int:
        """Copy records to where the receiver can read them, and return their first block; -1 if there is no space."""
        length = len(records)
        block = self._find(-(-length // BLOCK_BYTES))
        if block >= 0:
            start = self._first_at + block * BLOCK_BYTES
            self._memory[start : start + length] = records
            self._memory[block] = _USED
        return block

    def _find(self, count: int) -> int:
        """Take so many free blocks in a row, and return the first; -1 if there are none."""
        memory = self._memory
        used = self._used = [each for each in self._used if memory[each[0]] != _FREE]
        if len(used) >= SHARED_MAX:
            return -1
        end = 0
        for place, (first, next_end) in enumerate(used):
            if first - end >= count:
                used.insert(place, (end, end + count))
                return end
            end = next_end
        if end + count > self._blocks:
            return -1
        used.append((end, end + count))
        return end

    def share_appends(self, request: ExchangeRequest) -> None:
        """Replace large records of a request that is about to be packed."""
        appends = request.appends
        for index, append in enumerate(appends):
            if len(append.records) >= SHARED_BYTES_MIN:
                block = self.put(append.records)
                if block < 0:
                    return
                request.shared.append(SharedRecords(index, block, len(append.records)))
                # The append itself may be sent again, by another stream.
                appends[index] = Append(
                    append.request_id,
                    append.topic_id,
                    append.partition,
                    append.leader_epoch,
                    append.acks,
                    b"",
                    append.verification_guard,
                    append.supports_epoch_bump,
                )

    def share_replicated(self, response: ReplicateResponse) -> None:
        """Replace large records of a response that is about to be packed."""
        piece = response.piece
        if piece is None:
            return
        for index, data in enumerate(piece.partitions):
            if len(data.records) >= SHARED_BYTES_MIN:
                block = self.put(data.records)
                if block < 0:
                    return
                response.shared.append(SharedRecords(index, block, len(data.records)))
                data.records = b""


class SharedInbox:
    """The receiver's end."""

    __slots__ = ("_blocks", "_first_at", "_live", "_memory")

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._blocks = blocks_of(len(memory))
        self._first_at = _first_block_at(self._blocks)
        self._live: dict[int, KeyedRef[int, Any]] = {}
        """What is referred to, by its first block."""

    def __len__(self) -> int:
        return len(self._live)

    def read(self, shared: SharedRecords) -> memoryview:
        """Return the bytes, which are free again once no slice of them is left. Raises MalformedMessage."""
        block, length = shared.block, shared.length
        count = -(-length // BLOCK_BYTES)
        if not length or block + count > self._blocks:
            raise MalformedMessage(f"{length} shared bytes from block {block} on, of {self._blocks}")
        if block in self._live:
            raise MalformedMessage(f"block {block} is shared again while it is used")
        # Of all that exports a buffer without a copy only these can be referred to weakly.
        exporter = _array_of(count * BLOCK_BYTES).from_buffer(self._memory, self._first_at + block * BLOCK_BYTES)
        self._live[block] = KeyedRef(exporter, self._freed, block)
        return memoryview(exporter).cast("B")[:length]

    def _freed(self, reference: KeyedRef[int, Any]) -> None:
        block = reference.key
        # The reference ends here: compiled code does not keep what it is called with.
        del self._live[block]
        self._memory[block] = _FREE


def resolve(
    shared: Sequence[SharedRecords], holders: Sequence[Append] | Sequence[ReplicaData], inbox: SharedInbox | None
) -> None:
    """Give the messages that `shared` names by their index their records. Raises MalformedMessage."""
    if inbox is None:
        raise MalformedMessage("records are shared, and no memory was handed over")
    for each in shared:
        if each.index >= len(holders):
            raise MalformedMessage(f"shared records of {each.index}, of {len(holders)}")
        holders[each.index].records = inbox.read(each)


@cache
def _array_of(byte_count: int) -> Any:
    """Return the type: creating one takes longer than anything else here, and there are as many as blocks."""
    return ctypes.c_char * byte_count
