"""Producer ids for transactional ids, from blocks that the controller hands out (KIP-730).

Kafka's RPCProducerIdManager: the next block is requested before the present one is used up, and while there is none,
clients are answered COORDINATOR_LOAD_IN_PROGRESS, and ask again. The host takes a request from `take_request`, and
answers it by `block_received`; there is one at a time, and none before an id is needed.
"""

from __future__ import annotations

from typing import Final

from barnabas_logstore.core.coordinator.transactions.transaction import Transaction

_PREFETCH_PARTS: Final = 10
"""The next block is requested when less than this fraction of the present one is left."""


class ProducerIds:
    __slots__ = ("_block_end", "_block_length", "_is_asking", "_is_wanted", "_next_block", "_next_id")

    def __init__(self) -> None:
        self._next_id = 0
        self._block_end = 0
        self._block_length = 0
        self._next_block: tuple[int, int] | None = None
        self._is_wanted = False
        self._is_asking = False

    def peek(self) -> int | None:
        """Return an id that was never used, and that the next call returns again unless it is used; None: there is none
        yet.
        """
        if self._next_id == self._block_end and self._next_block is not None:
            self._next_id, self._block_length = self._next_block
            self._block_end = self._next_id + self._block_length
            self._next_block = None
        left = self._block_end - self._next_id
        if left * _PREFETCH_PARTS < self._block_length or not left:
            self._is_wanted = self._next_block is None
        return self._next_id if left else None

    def use(self, producer_id: int) -> None:
        """The id that `peek` has returned is in use."""
        assert producer_id == self._next_id < self._block_end, "this id is not the next one"
        self._next_id += 1

    def use_if_next(self, transaction: Transaction) -> None:
        """The id that `peek` has returned is in use if it is the next one of this transaction."""
        if transaction.next_producer_id == self._next_id < self._block_end:
            self._next_id += 1

    def take_request(self) -> bool:
        """Return whether a block is to be requested now."""
        if not self._is_wanted or self._is_asking:
            return False
        self._is_wanted, self._is_asking = False, True
        return True

    def block_received(self, first_id: int, length: int) -> None:
        """The answer to a request; no length: there was none, and the next client that needs an id asks again."""
        self._is_asking = False
        if length > 0:
            self._next_block = first_id, length
