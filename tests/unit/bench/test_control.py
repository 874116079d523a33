"""What bench-control compares, and what it makes of its figures."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from barnabas.cluster.messages import LeaderAndIsr
from barnabas.wire.errors import ErrorCode
from bench.control.changes import LeaderChange
from bench.control.client_side import ClientPoint
from bench.control.designs import CORES, RESERVED_PLACES, Design, Separate
from bench.control.measure import Offered, Point, percentile
from bench.control.plot import backlog_plot
from bench.control.recording import Event, Recording, read_recordings
from bench.control.report import ControlRun, tables
from bench.report import ROOT
from tests.unit.logstore.service import support
from tests.unit.logstore.service.support import EXCHANGE, Host, append_results, led_by_other, topic

STEP, PLACES = 10, 20


@pytest.mark.parametrize(
    ("design", "appends", "places", "taken_before_the_command"),
    [
        (Design.SEPARATE, 25, 500, 0),
        (Design.ONE_QUEUE, 15, PLACES, 15),
        (Design.ONE_QUEUE, 25, PLACES, 25),
        (Design.PRIORITY, 15, PLACES, 0),
        # Nobody passes the five at the door: the command comes in with them, after the first step.
        (Design.PRIORITY, 25, PLACES, STEP),
        (Design.RESERVED, 15, PLACES + RESERVED_PLACES, 15),
        # It has a place at once, behind what is in already and before what is not.
        (Design.RESERVED, 25, PLACES + RESERVED_PLACES, PLACES),
    ],
)
def test_how_much_data_goes_before_a_command(
    design: Design,
    appends: int,
    places: int,
    taken_before_the_command: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = tmp_path / "events"
    monkeypatch.setattr(Separate, "recording", Recording(recording), raising=False)
    monkeypatch.setattr(Separate, "backlog_path", tmp_path / "backlog.json", raising=False)
    monkeypatch.setattr(support, "LogstoreCore", CORES[design])
    host = Host(queued_requests_max=places, step_requests_max=STEP)
    host.greet(EXCHANGE)
    host.core.on_control(1, host.command(LeaderAndIsr(True, [topic(0, 0)])))
    host.settle()
    host.send(*[host.append_request() for _ in range(appends)])
    host.core.on_control(1, host.command(LeaderAndIsr(False, [led_by_other(1)])))
    results = [result for out in host.settle() for result in append_results(out)]
    errors = [result.error_code for result in results]
    assert errors.count(ErrorCode.NONE) == taken_before_the_command
    assert errors.count(ErrorCode.NOT_LEADER_OR_FOLLOWER) == appends - taken_before_the_command
    events = read_recordings([recording])[topic(1, 0).topic_id.hex(), 0, 1]
    assert list(events) == [Event.ARRIVED, Event.APPLIED]
    assert events[Event.ARRIVED].requests_waiting == appends


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values[:10], 0.99) == 10
    assert math.isnan(percentile([], 0.5))


def point(design: Design, backlog: Offered, milliseconds: float) -> Point:
    changes = [
        LeaderChange(True, 400, 0.1, 0.2, 0.3, milliseconds, 2 * milliseconds),
        LeaderChange(False, 400, 0.1, 0.2, 0.3, milliseconds, None),
    ]
    return Point(design, backlog, changes, [1000.0], [500], [0.9])


def test_the_tables_have_a_row_a_backlog_and_a_column_a_design() -> None:
    backlogs = [Offered(0), Offered(200), Offered(200, elsewhere=True)]
    designs = [Design.SEPARATE, Design.ONE_QUEUE]
    points = [
        point(design, backlog, 1.0 + row + 10 * column)
        for column, design in enumerate(designs)
        for row, backlog in enumerate(backlogs)
    ]
    machine = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
    client_side = [ClientPoint("Barnabas", 600, [3.0, 4.0], 12_000.0)]
    text = tables(ControlRun("c", "c", "now", machine, 1000, 1, points, client_side), ROOT / "x.json")
    lines = text.splitlines()
    assert "| data offered | separate | one queue |" in lines
    assert "| 200 % | 2.0 / **2.0** | 12.0 / **12.0** |" in lines
    assert "| 200 % elsewhere | 6.0 / **6.0** | 26.0 / **26.0** |" in lines
    assert any(line.startswith("| Barnabas | 600 connections") and "3.0 ms | 4.0 ms" in line for line in lines)


def test_the_plot_is_svg_with_a_curve_a_design() -> None:
    drawn = ElementTree.fromstring(
        backlog_plot("p99 <ms>", {"a": [(0, 1.0), (200, 90.0)], "b": [(0, 2.0), (200, 3.0)]})
    )
    curves = [element for element in drawn if element.tag.endswith("polyline")]
    assert len(curves) == 2
    assert "p99 <ms>" in [element.text for element in drawn]
