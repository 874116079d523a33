"""A processor that can't apply an update of the metadata ends, and its successor gets the whole image.

It logged the exception and applied the next update over the gap, so that its clients were sent to leaders of long ago.
"""

from __future__ import annotations

import pytest

from barnabas_gateway.shell import processor_ipc
from tests.regressions.test_stopped_processor import Gateway, gateway
from tests.unit.runtime.test_processes import until

__all__ = ["gateway"]

LARGE = b"\xff" * (1 << 20)
"""Decoded in steps, over several turns."""


@pytest.mark.parametrize("update", [b"\xff", LARGE], ids=["small", "large"])
async def test_the_processor_is_replaced_by_one_that_knows_all(gateway: Gateway, update: bytes) -> None:
    wounded, other = gateway.children
    wounded.messages.send(processor_ipc.METADATA, update)
    assert await wounded.exited != 0
    await until(lambda: len(gateway.children) == 2 and wounded not in gateway.children)
    await until(lambda: all(each.applied_revision == 1 for each in gateway.processors._by_index.values()))
    assert other in gateway.children, "it had nothing to do with that update"
