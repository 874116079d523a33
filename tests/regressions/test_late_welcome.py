"""A peer that is too busy to welcome a stream at once is not taken for a stranger."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.runtime import conversation
from tests.unit.runtime.test_streams import Client, Echo, Served, until


class BusyEcho(Echo):
    """Welcomes when several heartbeats would have been due."""

    def on_message(self, data: bytes) -> None:
        if data == b"hello":
            loop = asyncio.get_running_loop()
            loop.call_later(5 * conversation.HEARTBEAT_MS / 1000, self.stream.send, b"welcome")
        else:
            super().on_message(data)


async def test_the_first_message_is_the_welcome_however_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat went before it: the gateway took that for the welcome of another process, reset the stream, and could
    not come back to its logstores for as long as these were busy."""
    monkeypatch.setattr(conversation, "HEARTBEAT_MS", 20)
    served = Served()
    monkeypatch.setattr(served, "open_stream", BusyEcho)
    await served.start()
    client = Client(served.address)
    client.link.start()
    try:
        await until(lambda: client.calls)
        assert client.calls[0] == ("up", "welcome")
        await until(lambda: client.count("message"))
        assert client.calls[1][1].startswith("heartbeat"), "from then on"
    finally:
        await client.link.close()
        await served.stop()
