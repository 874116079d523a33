"""Requests of this logstore to the controller: AlterPartition and AllocateProducerIds, one of each at a time; and,
before it stops, ControlledShutdown.
"""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas.cluster.controller_calls.table import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, CONTROLLED_SHUTDOWN
from barnabas.cluster.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
)
from barnabas.runtime.logs import get_logger
from barnabas.runtime.membership import MembershipClient
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.shell.driver import LogstoreDriver

_log = get_logger("logstore")

# Without a controller no other logstore can be elected, and a pod still has to stop.
HAND_OVER_MS_MAX: Final = 5_000


class ControllerRequests:
    def __init__(self, node_id: int, membership: MembershipClient, loop: LogstoreDriver) -> None:
        self._node_id = node_id
        self._membership = membership
        self._loop = loop
        self._request: AlterPartitionRequest | None = None
        self._asked = asyncio.Event()
        self._ids_asked = asyncio.Event()

    def alter_partition(self, request: AlterPartitionRequest) -> None:
        """The core has at most one in progress."""
        self._request = request
        self._asked.set()

    def allocate_producer_ids(self) -> None:
        """The core has at most one in progress."""
        self._ids_asked.set()

    async def run(self) -> None:
        """Send requests until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._membership.follow())
            tasks.create_task(self._ask())
            tasks.create_task(self._ask_for_ids())

    async def hand_over(self, node_id: int, broker_epoch: int) -> None:
        """Have other leaders elected where possible, while this logstore keeps serving."""
        request = ControlledShutdownRequest(node_id, broker_epoch)
        try:
            async with asyncio.timeout(HAND_OVER_MS_MAX / 1000):
                answer = await self._membership.ask(CONTROLLED_SHUTDOWN, request)
        except TimeoutError:
            _log.warning("stopping without a handover of leadership", reason="no controller answered")
            return
        error = ErrorCode(answer.error_code)
        _log.info("leadership handed over", led_still=answer.remaining, error=error.name if error else None)

    async def _ask(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            request, self._request = self._request, None
            assert request is not None
            answer = await self._membership.ask(ALTER_PARTITION, request)
            self._loop.core.on_alter_partition(_known(answer))
            self._loop.wake()

    async def _ask_for_ids(self) -> None:
        request = AllocateProducerIdsRequest(f"logstore-{self._node_id}")
        while True:
            await self._ids_asked.wait()
            self._ids_asked.clear()
            answer = await self._membership.ask(ALLOCATE_PRODUCER_IDS, request)
            length = 0 if answer.error_code else answer.length
            self._loop.core.transactions.on_producer_ids(answer.first_producer_id, length)
            self._loop.wake()


def _known(answer: AlterPartitionResponse) -> AlterPartitionResponse | None:
    """Return None if the outcome is unknown."""
    return None if answer.error_code == ErrorCode.REQUEST_TIMED_OUT else answer
