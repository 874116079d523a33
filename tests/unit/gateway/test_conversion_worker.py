"""Conversions run one after the other on a thread, which outlives what goes wrong in one."""

from __future__ import annotations

import asyncio
from typing import cast

from barnabas.ports.compression import Codecs
from barnabas_gateway.core.model.outputs import Conversion
from barnabas_gateway.shell.conversion_worker import ConversionWorker


class Scripted:
    """Stands for a conversion."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.fault = ""
        self.has_run = False

    def run(self, codecs: Codecs) -> None:
        assert codecs.decompress(0, b"", 1) is None
        if self.fails:
            raise RuntimeError("a fault of ours")
        self.has_run = True


async def test_conversions_come_back_in_order_and_a_fault_with_its_traceback() -> None:
    done: list[tuple[Conversion, float]] = []
    worker = ConversionWorker(lambda conversion, elapsed_ms: done.append((conversion, elapsed_ms)))
    worker.stop()  # Nothing was begun.
    conversions = [Scripted(), Scripted(fails=True), Scripted()]
    for conversion in conversions:
        worker.submit(cast("Conversion", conversion))
    while len(done) < len(conversions):
        await asyncio.sleep(0.001)
    worker.stop()
    assert [conversion for conversion, _ in done] == conversions
    assert all(elapsed_ms >= 0 for _, elapsed_ms in done)
    assert [conversion.has_run for conversion in conversions] == [True, False, True]
    assert "a fault of ours" in conversions[1].fault
