"""Producer ids for InitProducerId, from blocks that the controller hands out (KIP-730).

Kafka's RPCProducerIdManager: the next block is asked for before the present one is used up, and while there is none,
the answer is COORDINATOR_LOAD_IN_PROGRESS, which producers retry. A block that is lost with its processor only leaves a
gap.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from barnabas.cluster.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas_gateway.core.backends.controller_client import ControllerClient
from barnabas_gateway.core.model.containment import end_by
from barnabas_gateway.core.model.outputs import ControllerAnswer
from barnabas_gateway.core.timing.hops import Hop
from barnabas_gateway.core.timing.request_timing import RequestTiming, Untimed

_PREFETCH_PARTS = 10
"""The next block is requested when less than this fraction of the present one is left."""


class ProducerIdAsker(Protocol):
    @property
    def timing(self) -> RequestTiming | None:
        """The timing of the request that needs an id."""

    def producer_id_taken(self, producer_id: int | None) -> None: ...

    def failed(self, error: Exception) -> None: ...


class ProducerIds(Untimed):
    __slots__ = (
        "_block_end",
        "_block_length",
        "_controller",
        "_gateway_id",
        "_is_asking",
        "_next_id",
        "_prefetched",
        "_waiting",
    )

    def __init__(self, gateway_id: str, controller: ControllerClient) -> None:
        self._gateway_id = gateway_id
        self._controller = controller
        self._next_id = 0
        self._block_end = 0
        self._block_length = 0
        self._prefetched: AllocateProducerIdsResponse | None = None
        self._is_asking = False
        self._waiting: deque[ProducerIdAsker] = deque()

    def allocate(self, asker: ProducerIdAsker) -> None:
        """Call `asker.producer_id_taken` with an id, now or when a block arrives, or with None if no block can be
        had.
        """
        self._waiting.append(asker)
        self._serve()
        if asker.timing is not None and asker in self._waiting:
            asker.timing.enter(Hop.CONTROLLER)

    def forget_asker(self, asker: ProducerIdAsker) -> None:
        if asker in self._waiting:
            self._waiting.remove(asker)

    def _serve(self) -> None:
        while self._waiting:
            if self._next_id == self._block_end and not self._open_prefetched():
                break
            producer_id = self._next_id
            self._next_id += 1
            asker = self._waiting.popleft()
            try:
                asker.producer_id_taken(producer_id)
            except Exception as error:
                end_by(asker, error)
        left = self._block_end - self._next_id
        is_low = left * _PREFETCH_PARTS < self._block_length or left == 0
        if is_low and self._prefetched is None and not self._is_asking:
            self._is_asking = True
            self._controller.call_controller(self, AllocateProducerIdsRequest(self._gateway_id))

    def _open_prefetched(self) -> bool:
        block = self._prefetched
        if block is None:
            return False
        self._prefetched = None
        self._next_id = block.first_producer_id
        self._block_end = block.first_producer_id + block.length
        self._block_length = block.length
        return True

    def controller_answered(self, answer: ControllerAnswer | None) -> None:
        self._is_asking = False
        if isinstance(answer, AllocateProducerIdsResponse) and answer.error_code == 0 and answer.length > 0:
            self._prefetched = answer
            self._serve()
            return
        refused = list(self._waiting)
        self._waiting.clear()
        for asker in refused:
            try:
                asker.producer_id_taken(None)
            except Exception as error:
                end_by(asker, error)

    def revision_applied(self) -> None:
        raise AssertionError("producer ids wait for no revision")
