"""Latency against offered load: the open loop against a broker of a few lines, and what becomes of its figures."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from xml.etree import ElementTree

from barnabas.wire.codec import encode_response
from barnabas.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from bench.groups.swarm import Swarm
from bench.offered_load import OpenLoop, Point, Run, medians, plot, section
from bench.one_at_a_time import produce_frame
from bench.report import ROOT

ANSWER = b"".join(
    encode_response(
        ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(0, 0, 0)])]
        ),
        9,
        1,
    )
)
STALL_SECONDS = 0.2


@contextlib.contextmanager
def broker(stall_seconds: float) -> Iterator[tuple[str, int]]:
    """Answer every produce on one connection at once, but for one pause before the first answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                time.sleep(stall_seconds)
                size, received = len(produce_frame()), b""
                while chunk := connection.recv(1 << 16):
                    received += chunk
                    count = len(received) // size
                    received = received[count * size :]
                    connection.sendall(ANSWER * count)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(10)


def latencies(stall_seconds: float) -> tuple[list[float], float]:
    with broker(stall_seconds) as address, Swarm() as swarm:
        loop = OpenLoop(swarm, [swarm.connect(address)], produce_frame(), random.Random(1))
        share = loop.run(rate=500, seconds=0.6)
        assert len(loop.took) == loop.sent
        return sorted(loop.took), share


def test_what_is_due_while_a_broker_stalls_is_charged_the_wait() -> None:
    took, share = latencies(STALL_SECONDS)
    assert len(took) > 200, "the rate does not depend on answers"
    assert share > 0.9
    waited = [each for each in took if each > STALL_SECONDS / 4]
    assert len(waited) > 40, "not only the one that was sent first"


def point(offered: int, p50_us: float) -> Point:
    return Point(offered, offered - 1.0, p50_us, p50_us * 3, p50_us * 9, 50.0, 20.0)


def run_of() -> Run:
    machine = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
    points = {
        "Barnabas": [point(500, 300), point(500, 100), point(500, 200), point(1000, 400)],
        "Apache Kafka": [point(500, 90), point(1000, 95)],
    }
    return Run("command", "commit", "now", machine, {}, points)


def test_each_rate_has_one_point_the_median_of_its_turns() -> None:
    assert [(each.offered, each.p50_us) for each in medians(run_of().points["Barnabas"])] == [(500, 200), (1000, 400)]
    assert (
        "| Barnabas | 500 | 499 | 200 µs | 600 µs | 1,800 µs | 50 % | 20 % |"
        in section(run_of(), ROOT / "x.json").splitlines()
    )


def test_the_plot_has_two_curves_a_side_and_its_latencies_rise_upwards() -> None:
    image = ElementTree.fromstring(plot(run_of()))
    lines = image.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 4
    first, last = (tuple(map(float, each.split(","))) for each in lines[0].get("points", "").split())
    assert first[0] < last[0]
    assert first[1] > last[1]
