"""What the metrics say, in words: which hop has grown, and which logstore is behind it. Nothing else is known here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.slow_hop.evaluation import evaluate
from bench.slow_hop.expressions import parse
from bench.slow_hop.series import Labels, Scraped

_HOPS: Final = (
    'sum by (hop) (rate(barnabas_request_hop_ms_sum{request="Produce"}[W]))'
    ' / sum by (hop) (rate(barnabas_request_hop_ms_count{request="Produce"}[W]))'
)
_ANSWERS: Final = (
    "histogram_quantile(0.75, sum by (le, logstore) (rate(barnabas_gateway_logstore_answer_ms_bucket[W])))"
)
_LAGS: Final = "max by (follower) (max_over_time(barnabas_replication_follower_lag_records[W]))"
_LATENESS: Final = (
    "histogram_quantile(0.75, sum by (le, instance, process) (rate(barnabas_loop_lateness_ms_bucket[W])))"
)
_CPU: Final = "sum by (instance, process) (rate(process_cpu_seconds_total[W]))"
_DISK: Final = (
    'histogram_quantile(0.75, sum by (le, instance) (rate(barnabas_logstore_io_time_ms_bucket{effect="write"}[W])))'
)
_BUSY_CORES: Final = 0.8
_TELLING: Final = 2.0
"""By how much the worst has to be worse than the next, to be named."""


@dataclass(slots=True, frozen=True)
class Verdict:
    """`logstore` is empty where none stands out."""

    hop: str
    logstore: str
    words: list[str]


def judge(scraped: Scraped, well_s: float, now_s: float, window_s: int) -> Verdict:
    """How it was in the `window_s` seconds before `now_s`, against how it was in those before `well_s`.

    By what three requests of four stay under: on a busy machine some are slow everywhere, and the worst of few tells
    little.
    """

    def ask(expression: str, at_s: float) -> dict[str, float]:
        found = evaluate(parse(expression.replace("[W]", f"[{window_s}s]")), scraped, at_s)
        assert isinstance(found, dict)
        return {_name(labels): value for labels, value in found.items()}

    before, after = ask(_HOPS, well_s), ask(_HOPS, now_s)
    grown = sorted(((after[hop] - before.get(hop, 0.0), hop) for hop in after), reverse=True)
    total = sum(ms for ms, _ in grown)
    hops = [f"{hop} by {ms:.1f} ms" for ms, hop in grown if ms > 0.1 * total]
    words = [
        f"A produce takes {sum(after.values()):.1f} ms on average; it took {sum(before.values()):.1f} ms.",
        f"What has grown: {', '.join(hops)}.",
    ]
    answers, lags = ask(_ANSWERS, now_s), ask(_LAGS, now_s)
    words.append(
        "Three of four answers come within: "
        + ", ".join(f"{ms:.0f} ms (logstore {name})" for name, ms in sorted(answers.items()))
        + "; as followers they are behind by "
        + ", ".join(f"{records:.0f} records (logstore {name})" for name, records in sorted(lags.items()))
        + "."
    )
    logstore = _worst(answers) or _worst(lags)
    if logstore:
        words.append(f"It is logstore {logstore}.")
        words.append(_why(logstore, ask(_LATENESS, now_s), ask(_CPU, now_s), ask(_DISK, now_s)))
    else:
        words.append("No logstore stands out.")
    return Verdict(grown[0][1] if grown else "", logstore, words)


def _name(labels: Labels) -> str:
    return " ".join(text for _, text in sorted(labels))


def _worst(by_name: dict[str, float]) -> str:
    """Who is much worse than the next."""
    ordered = sorted(by_name.items(), key=lambda item: item[1], reverse=True)
    if len(ordered) < 2 or ordered[0][1] < _TELLING * max(ordered[1][1], 1.0):
        return ""
    return ordered[0][0]


def _why(logstore: str, lateness: dict[str, float], cpu: dict[str, float], disk: dict[str, float]) -> str:
    """By the pod's name, which `barnabas up` gives services too."""
    pod = f"logstore-{logstore}"
    late_ms, cores, write_ms = lateness.get(f"{pod} data", 0.0), cpu.get(f"{pod} data", 0.0), disk.get(pod, 0.0)
    others_ms = max((ms for name, ms in lateness.items() if not name.startswith(pod)), default=0.0)
    if late_ms >= _TELLING * max(others_ms, 1.0):
        reason = "it is busy" if cores > _BUSY_CORES else "it is not let run"
        return (
            f"Its data process comes {late_ms:.0f} ms late to what is due, any other process {others_ms:.0f} ms at the "
            f"most, and uses {cores:.2f} of a core: {reason}."
        )
    if write_ms > late_ms:
        return f"Its writes take {write_ms:.0f} ms: its disk."
    return "The process itself is on time, and so is its disk: it is the network between."
