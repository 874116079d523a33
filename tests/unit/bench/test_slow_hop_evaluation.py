"""The small PromQL: by examples worked out by hand, and by what Prometheus' manual says of each function."""

from __future__ import annotations

import pytest

from bench.slow_hop.evaluation import Value, evaluate, increase_of
from bench.slow_hop.expressions import PromqlError, Selector, parse, selectors
from bench.slow_hop.series import Scraped


@pytest.fixture
def scraped() -> Scraped:
    scraped = Scraped()
    for second in range(61):
        for logstore, rate in (("0", 10), ("1", 30)):
            scraped.add("bytes_total", {"logstore": logstore, "topic": ""}, second, rate * second)
        scraped.add("up", {"instance": "a"}, second, 1)
        for bound, count in (("10", 50 * second), ("100", 90 * second), ("+Inf", 100 * second)):
            scraped.add("ms_bucket", {"le": bound, "hop": "channel"}, second, count)
    scraped.add("up", {"instance": "b"}, 0, 1)
    return scraped


def value(text: str, scraped: Scraped, at_s: float = 60.0) -> Value:
    return evaluate(parse(text), scraped, at_s)


def series(text: str, scraped: Scraped, at_s: float = 60.0) -> dict[str, float]:
    """By the labels, "label=value" joined."""
    found = value(text, scraped, at_s)
    assert isinstance(found, dict)
    return {",".join(f"{label}={text}" for label, text in sorted(labels)): each for labels, each in found.items()}


def test_an_instant_is_the_last_sample_of_who_is_there_still(scraped: Scraped) -> None:
    assert series("up", scraped) == {"instance=a": 1.0}
    assert series("up", scraped, 1.0) == {"instance=a": 1.0, "instance=b": 1.0}


def test_matchers(scraped: Scraped) -> None:
    assert series('bytes_total{logstore="1"}', scraped) == {"logstore=1": 1800}
    assert series('bytes_total{logstore!="1"}', scraped) == {"logstore=0": 600}
    assert len(series('bytes_total{logstore=~"0|1",topic=""}', scraped)) == 2, "what is not there is empty"
    assert series('bytes_total{logstore=~"1.+"}', scraped) == {}
    assert series('bytes_total{logstore!~"0"}', scraped) == {"logstore=1": 1800}


def test_rate_and_increase(scraped: Scraped) -> None:
    assert series("rate(bytes_total[10s])", scraped) == {"logstore=0": 10, "logstore=1": 30}
    assert series("increase(bytes_total[1m])", scraped) == {"logstore=0": 600, "logstore=1": 1800}
    assert series("rate(bytes_total[1s])", scraped) == {}, "one sample tells no rate"


def test_changes(scraped: Scraped) -> None:
    assert series("changes(bytes_total[10s])", scraped).keys() == {"logstore=0", "logstore=1"}
    assert series("changes(up[1m])", scraped)["instance=a"] == 0


def test_a_counter_that_falls_has_started_over() -> None:
    assert increase_of([5, 8, 2, 4]) == 3 + 2 + 2


def test_aggregations(scraped: Scraped) -> None:
    assert series("sum(bytes_total)", scraped) == {"": 2400}
    assert series("sum by (logstore) (bytes_total)", scraped) == {"logstore=0": 600, "logstore=1": 1800}
    assert series("max(bytes_total) by (topic)", scraped) == {"": 1800}
    assert series("avg without (logstore) (bytes_total)", scraped) == {"": 1200}
    assert series("count(bytes_total)", scraped) == {"": 2}


def test_a_quantile_lies_within_its_bucket(scraped: Scraped) -> None:
    by_le = "sum by (le, hop) (rate(ms_bucket[10s]))"
    assert series(f"histogram_quantile(0.5, {by_le})", scraped) == {"hop=channel": pytest.approx(10)}
    assert series(f"histogram_quantile(0.25, {by_le})", scraped) == {"hop=channel": pytest.approx(5)}
    assert series(f"histogram_quantile(0.7, {by_le})", scraped) == {"hop=channel": pytest.approx(55)}
    assert series(f"histogram_quantile(0.99, {by_le})", scraped) == {"hop=channel": 100}, "above all bounds"


def test_operators(scraped: Scraped) -> None:
    assert value("1 + 2 * 3", scraped) == 7
    assert value("(1 + 2) * 3 - 4 / 2", scraped) == 7
    assert series("bytes_total / 60 > 20", scraped) == {"logstore=1": 30}
    assert series("100 - bytes_total / 60", scraped) == {"logstore=0": 90, "logstore=1": 70}
    assert series("bytes_total / bytes_total", scraped) == {"logstore=0": 1, "logstore=1": 1}
    assert series("bytes_total > on (logstore) bytes_total / 2", scraped) == {"logstore=0": 600, "logstore=1": 1800}
    assert series('bytes_total and bytes_total{logstore="0"}', scraped) == {"logstore=0": 600}
    assert series('bytes_total unless bytes_total{logstore="0"}', scraped) == {"logstore=1": 1800}
    assert series("up or bytes_total", scraped) == {"instance=a": 1, "logstore=0": 600, "logstore=1": 1800}
    assert series("absent(nothing)", scraped) == {"": 1}
    assert series("absent(up)", scraped) == {}


def test_what_binds_how_tightly(scraped: Scraped) -> None:
    assert series("bytes_total > 1000 or up == 1", scraped) == {"logstore=1": 1800, "instance=a": 1}
    assert series("bytes_total / 60 - 5 * 2 > 0", scraped) == {"logstore=1": 20}


def test_scraped_pages_are_read(scraped: Scraped) -> None:
    page = '# TYPE requests counter\nrequests_total{api="Produce"} 7\n'
    scraped.add_page(page, {"instance": "gateway"}, 60)
    assert series("requests_total", scraped) == {"api=Produce,instance=gateway": 7}


@pytest.mark.parametrize(
    "text",
    ["", "sum(", "rate(bytes_total)", "up{instance}", "up{instance=a}", "up up", "topk(1, up)", "1 +", "up[5x]", "!"],
)
def test_what_is_no_expression_is_refused(text: str, scraped: Scraped) -> None:
    with pytest.raises(PromqlError):
        value(text, scraped)


def test_selectors_of_an_expression() -> None:
    found = selectors(parse('sum(rate(a_total{x="1"}[5m])) / on (b) histogram_quantile(0.9, c_bucket) > 2'))
    assert [each.name for each in found] == ["a_total", "c_bucket"]
    assert found[0] == Selector("a_total", found[0].matchers, 300)
