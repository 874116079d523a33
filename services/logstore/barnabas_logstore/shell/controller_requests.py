"""What this logstore asks of the controller: who is in sync (AlterPartition), one request at a time; and, before it
stops, other leaders for what it leads.
"""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas.cluster.messages import AlterPartitionRequest, AlterPartitionResponse, ControlledShutdownRequest
from barnabas.runtime.logs import get_logger
from barnabas.runtime.membership import MembershipClient
from barnabas.wire.errors import ErrorCode
from barnabas_logstore.shell.loop import LogstoreLoop

_log = get_logger("logstore")

# Without a controller nobody can lead in our place, and a pod has to stop all the same.
HAND_OVER_MS_MAX: Final = 5_000


class ControllerRequests:
    def __init__(self, membership: MembershipClient, loop: LogstoreLoop) -> None:
        self._membership = membership
        self._loop = loop
        self._request: AlterPartitionRequest | None = None
        self._asked = asyncio.Event()

    def alter_partition(self, request: AlterPartitionRequest) -> None:
        """The core has at most one under way."""
        self._request = request
        self._asked.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._membership.follow())
            tasks.create_task(self._ask())

    async def hand_over(self, node_id: int, broker_epoch: int) -> None:
        """Have others lead what they can, while this logstore serves on."""
        request = ControlledShutdownRequest(node_id, broker_epoch)
        try:
            async with asyncio.timeout(HAND_OVER_MS_MAX / 1000):
                answer = await self._membership.controlled_shutdown(request)
        except TimeoutError:
            _log.warning("stops without having handed over", reason="no controller has answered")
            return
        error = ErrorCode(answer.error_code)
        _log.info("leadership handed over", led_still=answer.remaining, error=error.name if error else None)

    async def _ask(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            request, self._request = self._request, None
            assert request is not None
            answer = await self._membership.alter_partition(request)
            self._loop.core.on_alter_partition(_known(answer))
            self._loop.wake()


def _known(answer: AlterPartitionResponse) -> AlterPartitionResponse | None:
    """None where nobody knows what has become of it."""
    return None if answer.error_code == ErrorCode.REQUEST_TIMED_OUT else answer
