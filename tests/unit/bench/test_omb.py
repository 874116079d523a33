"""What the bench of OpenMessaging Benchmark's workloads reads, computes, and says of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click import ClickException

from bench.omb.__main__ import wanted_workloads
from bench.omb.histogram import SUB_BUCKETS, Latencies, bucket_of, largest_in, latencies_of, percentile_us
from bench.omb.load_process import SOURCES, Counters, LoadFailed, open_command, parse_answer
from bench.omb.measurement import Drain, Sample, behind
from bench.omb.page import BEGIN, END, PAGE, section
from bench.omb.processors import Placement, Processors, place
from bench.omb.results import MEASURES, OmbRun, WorkloadResult
from bench.omb.workloads import (
    FIXED_RATE_MAX,
    QUICK,
    WHOLE,
    WORKLOADS,
    Options,
    Scale,
    Workload,
    parse_workload,
    workload_named,
)
from bench.report import ROOT

MACHINE = {"cpu": "2 × CPU", "memory": "4 GiB", "kernel": "6", "python": "3.11", "load average before": "0.10"}
FIXED, BACKLOG = workload_named("1-topic-16-partitions-1kb"), workload_named("backlog-1-topic-1-partition-1kb")
LARGEST = workload_named("max-rate-1-topic-100-partitions-1kb")
RATE, CPU, MEMORY, PUBLISH_P99, PUBLISH_P999, END_TO_END_P99, END_TO_END_P999 = MEASURES

FILE = """
name: 100 topics / 1 partition / 1Kb

topics: 100
partitionsPerTopic: 1

# what follows has no bearing
messageSize: 1024
payloadFile: "payload/payload-1Kb.data"

subscriptionsPerTopic: 3
consumerPerSubscription: 2
producersPerTopic: 4

producerRate: 150000   # of all
consumerBacklogSizeGB: 0
testDurationMinutes: 240
"""


def latencies(p99_ms: float) -> Latencies:
    return Latencies(1000, p99_ms / 10, p99_ms, p99_ms * 2, p99_ms * 3)


def sample(rate: float = 20_000, p99_ms: float = 4.0, cpu_us: float = 20.0, drain: Drain | None = None) -> Sample:
    return Sample(
        seconds=15,
        published_per_second=rate,
        received_per_second=rate,
        publish=latencies(p99_ms),
        delay=None,
        end_to_end=latencies(p99_ms + 1),
        cpu_us_per_record=cpu_us,
        cpu_percent=40,
        load_percent=60,
        memory_bytes=500_000_000,
        behind_records=0,
        load_average=0.25,
        drain=drain,
    )


def run_of(*results: WorkloadResult, scale: Scale = WHOLE) -> OmbRun:
    return OmbRun(
        *("command", "commit", "now", MACHINE, "Ours", "Theirs", 3, {"BARNABAS_LANE": "on"}, {"java": "-Xmx1G"}),
        is_quick=False,
        scale=scale,
        in_flight=1,
        placement="apart",
        processors={"Ours": [0], "Theirs": [0], "the load": [1]},
        client="clients",
        seconds=600,
        results=list(results),
    )


def rows_of(text: str, start: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith(start)]


class TestWorkloads:
    def test_the_documented_ones_are_thirteen_with_a_backlog_of_which_and_rates(self) -> None:
        assert len({each.name for each in WORKLOADS}) == 13
        assert [each.name for each in WORKLOADS if each.has_backlog] == [
            "backlog-1-topic-1-partition-1kb",
            "backlog-1-topic-16-partitions-1kb",
        ]
        assert {each.record_bytes for each in WORKLOADS if "100b" in each.name} == {100}
        assert {each.record_bytes for each in WORKLOADS if each.name.endswith("1kb")} == {1024}
        assert all(each.is_maximum for each in WORKLOADS if each.name.startswith("max-rate"))
        for each in WORKLOADS:
            partitions = re.search(r"(\d+)-partition", each.name)
            assert partitions is None or each.partitions == int(partitions[1])

    def test_a_file_is_read(self) -> None:
        assert parse_workload("some", FILE) == Workload(
            "some", 100, 1, 1024, 150_000, producers=4, subscriptions=3, consumers=2, backlog_gigabytes=0, minutes=240
        )

    @pytest.mark.parametrize(
        ("damaged", "message"),
        [
            (FILE.replace("topics: 100", ""), "without topics"),
            (FILE.replace("1024", "1Kb"), "1Kb"),
            (FILE.replace("topics: 100", "topics 100"), "no key and value: 'topics 100'"),
        ],
    )
    def test_a_file_that_is_none_is_refused(self, damaged: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_workload("some", damaged)

    def test_a_backlog_without_a_rate_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a backlog needs a rate"):
            replace(BACKLOG, producer_rate=0)

    def test_files_and_names_are_taken_and_neither_means_all(self, tmp_path: Path) -> None:
        file = tmp_path / "own.yaml"
        file.write_text(FILE)
        assert [each.name for each in wanted_workloads((FIXED.name,), (file,))] == [FIXED.name, "own"]
        assert wanted_workloads((), ()) == list(WORKLOADS)
        file.write_text("topics: 1")
        with pytest.raises(ClickException, match="own: without partitionsPerTopic"):
            wanted_workloads((), (file,))

    def test_the_scale_names_only_what_is_smaller(self) -> None:
        assert WHOLE.in_words(FIXED) == "15 s of 15 min, 20,000/s of 50,000/s"
        assert WHOLE.in_words(workload_named("simple-workload")) == "15 s of 5 min"
        assert WHOLE.in_words(LARGEST) == "15 s of 5 min"
        assert QUICK.in_words(BACKLOG) == "3 s of 5 min, 20,000/s of 100,000/s, 60 MB of 100 GB"
        small = replace(BACKLOG, producer_rate=5_000)
        assert (small.rate_here, FIXED.rate_here, LARGEST.rate_here) == (5_000, FIXED_RATE_MAX, 0)


class TestHistogram:
    def test_each_latency_is_in_the_bucket_that_counts_it(self) -> None:
        previous = -1
        for microseconds in [*range(2_000), *range(2_000, 3_000_000, 997)]:
            bucket = bucket_of(microseconds)
            assert previous <= bucket, "buckets follow the latencies"
            assert microseconds <= largest_in(bucket) <= microseconds * 1.008
            assert bucket == 0 or largest_in(bucket - 1) < microseconds
            previous = bucket

    def test_percentiles_are_those_of_the_sorted_latencies(self) -> None:
        exact = [7] * 500 + [20] * 489 + [100] * 10 + [120]
        counts = {value: exact.count(value) for value in set(exact)}
        assert percentile_us(counts, 50) == 7
        assert percentile_us(counts, 50.1) == 20
        assert percentile_us(counts, 98.9) == 20
        assert percentile_us(counts, 99) == 100
        assert percentile_us(counts, 99.9) == 100
        assert percentile_us(counts, 99.91) == 120
        assert percentile_us(counts, 100) == 120
        with pytest.raises(ValueError, match="nothing was counted"):
            percentile_us({}, 50)

    def test_of_pairs_in_any_order_in_milliseconds(self) -> None:
        high = bucket_of(8_000)
        found = latencies_of([(high, 5), (50, 990), (high, 5)])
        assert found == Latencies(1000, 0.05, 0.05, largest_in(high) / 1e3, largest_in(high) / 1e3)
        assert latencies_of([]) is None

    def test_the_load_has_as_many_buckets(self) -> None:
        source = (SOURCES / "LatencyHistogram.java").read_text()
        assert f"SUB_BUCKETS = {SUB_BUCKETS};" in source
        assert "numberOfLeadingZeros(microseconds) - 7" in source


class TestLoadProcess:
    def test_what_is_opened_is_said_in_words_that_the_load_reads(self) -> None:
        words = open_command("host:1", parse_workload("some", FILE), "t", Options(3, 1)).split()
        assert words[0] == "open"
        assert dict(word.split("=") for word in words[1:]) == {
            "bootstrap": "host:1",
            "topic": "t",
            "topics": "100",
            "partitions": "1",
            "replicas": "3",
            "bytes": "1024",
            "producers": "4",
            "subscriptions": "3",
            "consumers": "2",
            "in_flight": "1",
        }
        read = (SOURCES / "Workload.java").read_text()
        assert {word.split("=")[0] for word in words[1:]} == set(re.findall(r'words(?:\.get\(|, )"(\w+)"', read))

    def test_answers_are_read(self) -> None:
        line = b'{"published":5,"failed":1,"received":9,"first_failure":"why"}\n'
        assert parse_answer(line, Counters) == Counters(5, 1, 9, "why")

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b'{"error":"no brokers"}\n', "no brokers"),
            (b"", "the load has ended"),
            (b"Exception in thread main\n", "Exception in thread main"),
            (b'{"published":"many"}\n', "many"),
        ],
    )
    def test_what_is_no_answer_fails(self, line: bytes, message: str) -> None:
        with pytest.raises(LoadFailed, match=message):
            parse_answer(line, Counters)

    def test_each_subscription_is_to_receive_each_record(self) -> None:
        workload = parse_workload("some", FILE)
        assert behind(Counters(10, 0, 12), workload) == 18
        assert behind(Counters(10, 0, 31), workload) == 0


class TestProcessors:
    def test_apart_the_load_has_the_last_one(self) -> None:
        assert place(Placement.APART, [1, 0]) == Processors(frozenset({0}), frozenset({1}))
        found = place(Placement.APART, {2, 0, 5})
        assert (found.sides, found.load) == ({0, 2}, {5})

    def test_together_both_have_all(self) -> None:
        found = place(Placement.TOGETHER, {0, 1})
        assert found.sides == found.load == {0, 1}
        with pytest.raises(ValueError, match="one processor"):
            place(Placement.APART, {3})


class TestPage:
    def test_ratios_are_of_each_turn_and_medians_of_those(self) -> None:
        result = WorkloadResult(LARGEST, [sample(90), sample(400), sample(100)], [sample(100), sample(200), sample(50)])
        assert result.ratios(RATE) == [0.9, 2.0, 2.0]
        row = rows_of(section(run_of(result), ROOT / "x.json"), f"| `{LARGEST.name}`")[1]
        assert row[1] == "2.00 (0.90–2.00)"

    def test_what_is_behind_is_bold_and_listed_the_worst_first(self) -> None:
        result = WorkloadResult(
            FIXED, [sample(19_950, p99_ms=4.4, cpu_us=50.0)], [sample(20_000, p99_ms=4.0, cpu_us=20.0)]
        )
        text = section(run_of(result), ROOT / "x.json")
        row = rows_of(text, f"| `{FIXED.name}`")[1]
        assert row[1:] == ["1.00", "**2.50**", "1.00", "**1.10**", "**1.10**", "**1.08**", "**1.08**"]
        assert "2 of 7 ratios reach the goal. Behind, the worst first:" in text
        listed = [line for line in text.splitlines() if line.startswith(f"- `{FIXED.name}`")]
        assert listed[0] == f"- `{FIXED.name}`: CPU a record 2.50"
        assert len(listed) == 5

    def test_a_rate_counts_the_other_way_round(self) -> None:
        assert [RATE.is_met(ratio) for ratio in (1.3, 0.996, 0.99)] == [True, True, False]
        assert [CPU.is_met(ratio) for ratio in (0.3, 1.004, 1.01)] == [True, True, False]
        half = run_of(WorkloadResult(LARGEST, [sample(50, cpu_us=30)], [sample(100, cpu_us=20)]))
        assert [measure.title for _, measure, _ in half.behind] == ["rate", "CPU a record"]

    def test_figures_have_the_spread_and_the_scale(self) -> None:
        result = WorkloadResult(FIXED, [sample(19_000), sample(19_200)], [sample(20_000), sample(20_000)])
        ours, theirs = rows_of(section(run_of(result), ROOT / "x.json"), "| ")[1:3]
        assert ours[:3] == [f"`{FIXED.name}`", "15 s of 15 min, 20,000/s of 50,000/s", "Ours"]
        assert ours[3] == "19,100 (19,000–19,200), **over its capacity**"
        assert theirs[2:4] == ["Theirs", "20,000 (20,000–20,000)"]
        assert theirs[5] == "0.40 (0.40–0.40) / 4.00 (4.00–4.00) / 8.00 (8.00–8.00)"
        assert theirs[7:] == ["20.0 (20.0–20.0) µs", "500 MB", "40 %, 60 %"]

    def test_of_a_backlog_the_drain_is_compared(self) -> None:
        fast, slow = Drain(390_000, 20, 1.0, 400_000), Drain(390_000, 20, 2.0, 200_000)
        result = WorkloadResult(BACKLOG, [sample(drain=fast)], [sample(drain=slow)])
        assert result.ratio(RATE) == 2.0
        text = section(run_of(result), ROOT / "x.json")
        assert "| 400,000 while it drains, for 1.00 s |" in text

    def test_a_workload_that_failed_is_listed_and_compared_in_nothing(self) -> None:
        result = WorkloadResult(FIXED, failures=["Ours: not drained within 180 s"])
        text = section(run_of(result, scale=QUICK), ROOT / "x.json")
        assert "| **not measured**: Ours: not drained within 180 s |" in text
        assert "0 of 0 ratios reach the goal." in text
        assert f"- `{FIXED.name}`: Ours: not drained within 180 s" in text
        columns = {len(row) for row in rows_of(text, "| ")}
        assert columns == {10, 1 + len(MEASURES)}, "every row is as wide as its head"

    def test_the_head_says_where_all_of_it_ran(self) -> None:
        head = section(run_of(WorkloadResult(FIXED, [sample()], [sample()])), ROOT / "x.json").splitlines()[0]
        assert "Ours on processors 0; Theirs on processors 0; the load on processors 1" in head
        assert "1 request in flight" in head
        assert "medians of 5 turns of both in 10 minutes" in head
        assert "the largest load average before a measurement was 0.25" in head

    def test_the_page_has_the_marks_once(self) -> None:
        text = PAGE.read_text()
        assert text.count(BEGIN) == text.count(END) == 1
        assert text.index(BEGIN) < text.index(END)
        assert all(f"`{each.name}`" in text for each in WORKLOADS)
