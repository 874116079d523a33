from __future__ import annotations

from barnabas.metrics.family import Family, Kind, Sample
from barnabas.metrics.histogram import Histogram
from barnabas.metrics.pod_totals import PodTotals

REQUESTS = Family("requests", Kind.COUNTER, "", ("api",))
CONNECTIONS = Family("connections", Kind.GAUGE, "")
TIMES = Family("times", Kind.HISTOGRAM, "")


def histogram(*values: int) -> Histogram:
    made = Histogram((10, 100), 1)
    for value in values:
        made.add(value)
    return made


def pod_samples(requests: float, connections: float = 0, *times: int) -> list[Sample]:
    return [
        Sample(REQUESTS, ("Produce",), requests),
        Sample(CONNECTIONS, (), connections),
        Sample(TIMES, (), histogram(*times)),
    ]


def values(totals: PodTotals, *answered: int) -> dict[str, float | Histogram]:
    return {sample.family.name: sample.value for sample in totals.samples(answered)}


def test_processes_are_added_up() -> None:
    totals = PodTotals()
    totals.heard(1, pod_samples(3, 5, 1, 50))
    totals.heard(2, pod_samples(4, 7, 500))
    seen = values(totals, 1, 2)
    assert (seen["requests"], seen["connections"]) == (7, 12)
    times = seen["times"]
    assert isinstance(times, Histogram)
    assert (times.counts, times.sum) == ([1, 1, 1], 551)


def test_counters_do_not_fall_when_a_process_dies_and_another_begins_from_nothing() -> None:
    totals = PodTotals()
    totals.heard(1, pod_samples(100, 5, 1, 50))
    totals.gone(1)
    assert values(totals)["requests"] == 100
    totals.heard(2, pod_samples(1, 2, 500))
    seen = values(totals, 2)
    assert (seen["requests"], seen["connections"]) == (101, 2), "the gauges of the dead are forgotten"
    times = seen["times"]
    assert isinstance(times, Histogram)
    assert times.count == 3
    totals.gone(2)
    assert values(totals)["requests"] == 101
    assert values(totals)["requests"] == 101, "asking changes nothing"


def test_who_does_not_answer_counts_as_it_did_and_has_no_gauges() -> None:
    totals = PodTotals()
    totals.heard(1, pod_samples(3, 5))
    totals.heard(2, pod_samples(4, 7))
    seen = values(totals, 2)
    assert (seen["requests"], seen["connections"]) == (7, 7)


def test_what_is_added_up_is_not_the_processes_own() -> None:
    own = pod_samples(1, 1, 50)
    totals = PodTotals()
    totals.heard(1, own)
    totals.heard(2, pod_samples(1, 1, 50))
    totals.samples([1, 2])
    times = own[2].value
    assert isinstance(times, Histogram)
    assert times.count == 1
