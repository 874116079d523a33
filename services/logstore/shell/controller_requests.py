"""What this logstore asks of the controller: who is in sync (AlterPartition), one request at a time."""

from __future__ import annotations

import asyncio

from barnabas.cluster.messages import AlterPartitionRequest, AlterPartitionResponse
from barnabas.runtime.membership import MembershipClient
from barnabas.wire.errors import ErrorCode
from services.logstore.shell.loop import LogstoreLoop


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
