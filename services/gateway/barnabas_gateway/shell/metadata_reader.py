"""MetadataReader: updates of the metadata, applied in order; large ones are read over several turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from barnabas.cluster.messages import UpdateMetadata
from barnabas.runtime.large_messages import LARGE_BYTES, over_turns
from barnabas.runtime.loop.background import BackgroundTasks
from barnabas_gateway.shell.containment import METADATA
from barnabas_gateway.shell.processor_ipc import decode_metadata, decode_metadata_in_steps


class MetadataReader:
    def __init__(
        self,
        apply: Callable[[UpdateMetadata], None],
        applied: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`applied` follows an update that was applied in a turn of its own. `fail` gets the exception of one that was
        not applied: later ones assume it.
        """
        self._apply = apply
        self._applied = applied
        self._fail = fail
        self._unread: deque[bytes] = deque()
        self._tasks = BackgroundTasks(METADATA, fail)
        self._reading: asyncio.Task[None] | None = None

    def take(self, payload: bytes) -> None:
        """Apply one update now, or, if it is large or others wait, after them and over several turns."""
        if self._reading is None and len(payload) < LARGE_BYTES:
            try:
                self._apply(decode_metadata(payload))
            except Exception as error:
                self._fail(error)
            return
        self._unread.append(payload)
        if self._reading is None:
            self._reading = self._tasks.start(self._read())

    async def _read(self) -> None:
        while self._unread:
            self._apply(await over_turns(decode_metadata_in_steps(self._unread.popleft())))
            self._applied()
        self._reading = None

    def stop(self) -> None:
        self._tasks.cancel()
