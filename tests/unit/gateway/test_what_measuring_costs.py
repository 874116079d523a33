"""What measuring adds to a small produce, in instructions of the interpreter: a count, which no other load disturbs.

`make bench-metrics` has the same in microseconds of processor time, of all services.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from barnabas.channel.messages import AppendResult, Credit, ExchangeResponse
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas_gateway.core import processor
from tests.compiled import COUNTS, interpreted_only
from tests.unit.gateway.world import BATCH, World

pytestmark = interpreted_only(COUNTS)

MEASURING_PERCENT_MAX = 3.0
_ROOT = str(Path(processor.__file__).parents[4])
_PIPELINED = 20
"""Requests that arrive together, as from a client that doesn't wait for answers."""


def instructions_of_produces(requests: int, *, metrics_enable: bool) -> float:
    """For each request, from its bytes to its answer's, in a processor."""
    world = World(metrics_enable=metrics_enable)
    client = world.client()
    data = [PartitionProduceData(0, BATCH)]
    request = ProduceRequest(None, 1, 30_000, [TopicProduceData("t", partition_data=data)])
    counted = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        if event == "call":
            if not frame.f_code.co_filename.startswith((f"{_ROOT}/services/", f"{_ROOT}/barnabas/")):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            counted += 1
        return trace

    traced_before = sys.gettrace()
    for _ in range(requests // _PIPELINED):
        frames = b"".join(client.frame(request, ApiKey.PRODUCE, 11) for _ in range(_PIPELINED))
        world.clock_us += 1000
        sys.settrace(trace)
        try:
            world.processor.bytes_received(client.connection_id, frames, world.now_ms)
            outputs = world.processor.take_outputs()
            world.processor.turn_over()
            while outputs.exchanges:
                asked = [append for _, exchange in outputs.exchanges for append in exchange.appends]
                results = [AppendResult(append.request_id, required_offset=8) for append in asked]
                credit = Credit(len(asked), len(asked) * len(BATCH))
                response = ExchangeResponse(append_results=results, credit=credit)
                world.processor.exchange_response(1, response, world.now_ms)
                outputs = world.processor.take_outputs()
                world.processor.turn_over()
        finally:
            sys.settrace(traced_before)
    return counted / requests


def test_measuring_adds_little_to_a_small_produce() -> None:
    measured = instructions_of_produces(2000, metrics_enable=True)
    plain = instructions_of_produces(2000, metrics_enable=False)
    percent = 100 * (measured / plain - 1)
    assert plain > 500, "nothing was counted"
    assert 0 < percent <= MEASURING_PERCENT_MAX, f"{plain:.0f} instructions a request, {percent:.1f} % more measured"
