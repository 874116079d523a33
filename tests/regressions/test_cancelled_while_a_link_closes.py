"""Who is cancelled while it waits for a link to close is cancelled.

A logstore whose last directory failed closed the links to its leaders, as it follows no leader any more, and in the
same moment ended all that it was doing. `StreamLink.close` took the cancellation of its caller for that of its own task
and swallowed it: the caller waited for news for ever, and the process, of no use and without a lease, never ended.
"""

from __future__ import annotations

import asyncio

import pytest

from barnabas.runtime.streams import StreamLink


async def test_cancelled_while_a_link_closes() -> None:
    link = StreamLink(
        "127.0.0.1:1",
        "/a.Service/Method",
        hello=b"",
        pack_heartbeat=lambda count: b"",
        on_up=lambda first: None,
        on_message=lambda data: None,
        on_down=lambda reason: None,
    )
    link.start()
    await asyncio.sleep(0)
    closing = asyncio.create_task(link.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await link.close()
