"""Large messages that wait to be packed are bounded, as others are: their bytes are not known before, and were not
counted, so that a purgatory pod which reads more slowly than a gateway parks filled that gateway's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from barnabas.runtime.conversation import PACKINGS_MAX, Conversation
from barnabas.runtime.lane_offers import is_on
from tests.unit.runtime.test_streams import Served, linked, until


async def pack() -> bytes:
    return b"packed"


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


async def test_more_than_so_many_end_the_stream() -> None:
    conversation = Conversation(never, never, lambda _: None, lambda _: b"", 1 << 20)
    running = asyncio.ensure_future(conversation.run())
    await asyncio.sleep(0)
    for _ in range(PACKINGS_MAX):
        conversation.send_when_packed(pack)
    assert not conversation.ended.done()
    conversation.send_when_packed(pack)
    assert "the peer reads too slowly: 1000 large messages" in await running


@pytest.mark.parametrize("lane", ["on", "off"])
async def test_those_that_a_peer_takes_are_not_counted(lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_LANE", lane)
    assert is_on() is (lane == "on")
    served = Served()
    await served.start()
    begun = 0
    async with linked(served.address) as client:
        await until(lambda: client.link.up)

        def counted() -> Awaitable[bytes]:
            nonlocal begun
            begun += 1
            return pack()

        for due in range(500, 3 * PACKINGS_MAX + 1, 500):
            for _ in range(500):
                client.link.send_when_packed(counted)
            while begun < due:
                await asyncio.sleep(0)
        assert client.link.up
    await served.stop()
