"""The verdict on samples made up: which logstore, which hop, and why; and that the picture has what it should."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

from bench.slow_hop.picture import Span, axis_label, draw, lines_of
from bench.slow_hop.series import Scraped
from bench.slow_hop.verdict import judge
from scripts.dashboards.dashboard import ROWS, Panel, Query

FAULT_S = 30
END_S = 60
_BOUNDS = ("1.0", "10.0", "100.0", "1000.0", "+Inf")


class Story:
    """Every second each logstore answers ten requests; from FAULT_S on as `slow` says."""

    def __init__(self, **slow: float) -> None:
        self.scraped = Scraped()
        self._counts: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[str, float] = {}
        self._slow = slow
        for second in range(END_S + 1):
            self._second(second, slow if second > FAULT_S else {})

    def _second(self, second: int, slow: dict[str, float]) -> None:
        for node in ("0", "1", "2"):
            is_slow = node == "1"
            pod = f"logstore-{node}"
            self._histogram(second, "barnabas_gateway_logstore_answer_ms", slow["answer"] if is_slow and slow else 2.0,
                            logstore=node, instance="gateway")  # fmt: skip
            self._histogram(second, "barnabas_loop_lateness_ms", slow.get("late", 1.0) if is_slow else 1.0,
                            instance=pod, process="data")  # fmt: skip
            self._histogram(second, "barnabas_logstore_io_time_ms", slow.get("disk", 0.5) if is_slow else 0.5,
                            instance=pod, effect="write", by="loop")  # fmt: skip
            self.scraped.add("process_cpu_seconds_total", {"instance": pod, "process": "data"}, second, 0.1 * second)
            self.scraped.add("barnabas_replication_follower_lag_records", {"follower": node}, second, 0)
        for hop, ms in (("gateway", 1.0), ("channel", slow.get("channel", 1.0)), ("purgatory", 1.0)):
            labels = {"hop": hop, "request": "Produce", "instance": "gateway"}
            self._sums[hop] = self._sums.get(hop, 0.0) + 10 * ms
            self.scraped.add("barnabas_request_hop_ms_sum", labels, second, self._sums[hop])
            self.scraped.add("barnabas_request_hop_ms_count", labels, second, 10 * second)

    def _histogram(self, second: int, name: str, ms: float, **labels: str) -> None:
        counts = self._counts.setdefault((name, str(labels)), [0] * len(_BOUNDS))
        for index, bound in enumerate(_BOUNDS):
            counts[index] += 10 * (ms <= float(bound))
            self.scraped.add(f"{name}_bucket", {**labels, "le": bound}, second, counts[index])


def words(**slow: float) -> tuple[str, str, str]:
    verdict = judge(Story(**slow).scraped, FAULT_S, END_S, 20)
    return verdict.logstore, verdict.hop, " ".join(verdict.words)


def test_a_process_that_is_not_let_run_is_named() -> None:
    logstore, hop, text = words(answer=500.0, late=200.0, channel=60.0)
    assert (logstore, hop) == ("1", "channel")
    assert "It is logstore 1." in text
    assert "What has grown: channel by 59.0 ms." in text
    assert "it is not let run" in text


def test_a_slow_disk_is_named() -> None:
    logstore, _, text = words(answer=500.0, disk=500.0, channel=60.0)
    assert logstore == "1"
    assert "its disk." in text
    assert "not let run" not in text


def test_what_is_neither_is_the_network() -> None:
    assert "it is the network between" in words(answer=500.0, channel=60.0)[2]


def test_no_hop_is_named_where_none_stands_out() -> None:
    logstore, _, text = words(answer=2.0)
    assert logstore == ""
    assert "No logstore stands out." in text


def test_the_picture_has_every_panel_and_is_one_document() -> None:
    span = Span(0.0, END_S, FAULT_S, END_S)
    text = draw("A <title>", ROWS, Story(answer=500.0).scraped, span)
    ElementTree.fromstring(text)
    for panels in ROWS.values():
        for panel in panels:
            assert f">{escape(panel.title)}</text>" in text
    assert "A &lt;title&gt;" in text


def test_a_line_is_the_expressions_value_at_every_second() -> None:
    panel = Panel(
        "CPU", "percentunit", "", (Query("sum by (instance) (rate(process_cpu_seconds_total{$}[$]))", "{{instance}}"),)
    )
    lines = lines_of(panel, Story(answer=2.0).scraped, Span(0.0, END_S, FAULT_S, END_S))
    assert sorted(lines) == ["logstore-0", "logstore-1", "logstore-2"]
    assert {round(value, 6) for _, value in lines["logstore-0"]} == {0.1}
    assert [second for second, _ in lines["logstore-0"]] == [float(second) for second in range(1, END_S + 1)]


def test_large_values_are_shortened() -> None:
    assert [axis_label(value, "ms") for value in (0.25, 12.4, 40_000)] == ["0.25 ms", "12 ms", "40k ms"]
    assert axis_label(5_300_000_000, "bytes") == "5G"
