"""The matrix in docs/verify/clients.md, between its two marks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.compat.matrix.results import Saved
from tests.compat.matrix.toolchains import ROOT

PAGE: Final = ROOT / "docs/verify/clients.md"
BEGIN: Final = "<!-- what `make compat` writes -->"
END: Final = "<!-- to here -->"

TRANSACTIONS: Final = "transactions"
"""An area, and its first capability: programs that do not check it say whether their client has it."""
NO_CALL: Final = "–"
NOT_ASKED: Final = "not asked"
AREAS: Final[dict[str, tuple[str, ...]]] = {
    "topics": ("create-topic", "list-topics", "describe-topics", "create-partitions", "delete-topic"),
    "produce": ("produce", "produce-acks-0", "produce-acks-1", "produce-idempotent"),
    "codecs": ("produce-gzip", "produce-snappy", "produce-lz4", "produce-zstd"),
    "by assignment": ("consume-assigned", "consume-seek", "list-offsets", "offsets-by-time"),
    "groups": ("group-share", "group-cooperative", "static-member", "group-resume"),
    TRANSACTIONS: ("transactions", "transactional-offsets"),
    "groups' admin": (
        "list-groups",
        "describe-groups",
        "remove-members",
        "list-group-offsets",
        "alter-group-offsets",
        "delete-group-offsets",
        "delete-groups",
    ),
    "configs": ("describe-configs", "alter-configs"),
    "records": ("delete-records",),
}
OTHERS: Final = "other admin"
BARNABAS: Final = ("1", "3")
PEER: Final = "kafka"


def rows(saved: list[Saved]) -> str:
    """Clients by areas; programs that are no clients' checks by their own words."""
    clients = _by_client(saved)
    checked = {name: runs for name, runs in clients.items() if _is_checked(runs)}
    others = {name: runs for name, runs in clients.items() if name not in checked}
    lines = _heading("client", "version", *AREAS, OTHERS, "commits")
    lines += [_row(name, _version(runs), *_cells(runs), _commits(runs)) for name, runs in checked.items()]
    lines += ["", *_heading("program", "version", "one logstore", "three", "commits")]
    for name, runs in others.items():
        lines.append(_row(name, _version(runs), *(_count(runs.get(each)) for each in BARNABAS), _commits(runs)))
    lines += ["", *_failures(clients), "", *_failures_of_peer(clients), *_commits_by_day(saved)]
    return "\n".join(lines)


def write(saved: list[Saved]) -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{rows(saved)}\n\n{END}{rest.split(END)[1]}")


def _by_client(saved: Iterable[Saved]) -> dict[str, dict[str, Saved]]:
    clients: dict[str, dict[str, Saved]] = {}
    for each in saved:
        clients.setdefault(each.client, {})[each.against] = each
    return clients


def _is_checked(runs: dict[str, Saved]) -> bool:
    return any("produce" in each.report.results for each in runs.values())


def _version(runs: dict[str, Saved]) -> str:
    return next((each.report.version for each in runs.values() if each.report.version), "")


def _commits(runs: dict[str, Saved]) -> str:
    return " / ".join(f"`{runs[against].commit}`" if against in runs else "–" for against in BARNABAS)


def _cells(runs: dict[str, Saved]) -> list[str]:
    known = {capability for capabilities in AREAS.values() for capability in capabilities}
    asked = {capability for each in runs.values() for capability in each.report.results}
    areas = [*AREAS.values(), tuple(sorted(asked - known))]
    lacking = {capability for each in runs.values() for capability in each.report.lacking}
    cells = [[_area(runs.get(against), area, asked, lacking) for against in BARNABAS] for area in areas]
    return [each[0] if set(each) <= {NO_CALL, NOT_ASKED} else " / ".join(each) for each in cells]


def _area(run: Saved | None, area: tuple[str, ...], asked: set[str], lacking: set[str]) -> str:
    of_client = [capability for capability in area if capability in asked]
    if not of_client:
        return NOT_ASKED if TRANSACTIONS in area and TRANSACTIONS not in lacking else NO_CALL
    if run is None or run.report.skipped:
        return "not run" if run is None else "skipped"
    # A run from before there was a check says nothing of it.
    of_run = [capability for capability in of_client if capability in run.report.results]
    works = sum(not run.report.results[capability] for capability in of_run)
    if not of_run:
        return NOT_ASKED
    return "✓" if works == len(of_client) else f"{works} of {len(of_run)}"


def _count(run: Saved | None) -> str:
    if run is None:
        return "not run"
    if run.report.skipped:
        return f"skipped: {_cell(run.report.skipped)}"
    works = len(run.report.results) - len(run.report.failed)
    return ("✓ " if not run.report.failed else "") + f"{works} of {len(run.report.results)}"


def _failures(clients: dict[str, dict[str, Saved]]) -> list[str]:
    """Each with what Apache Kafka says to the same program."""
    lines = []
    for name, runs in clients.items():
        peer = runs.get(PEER)
        ours = {against: runs[against].report.failed for against in BARNABAS if against in runs}
        for capability in dict.fromkeys(capability for failed in ours.values() for capability in failed):
            where = " and ".join(against for against, failed in ours.items() if capability in failed)
            why = next(failed[capability] for failed in ours.values() if capability in failed)
            if peer is None or peer.report.skipped or capability not in peer.report.results:
                there = "not run"
            else:
                there = f"fails too: {peer.report.results[capability]}" if peer.report.results[capability] else "works"
            lines.append(_row(name, capability, where, _cell(why), _cell(there)))
    if not lines:
        return ["Nothing failed."]
    return ["What failed:", "", *_heading("client", "capability", "logstores", "why", "Apache Kafka 4.4"), *lines]


def _failures_of_peer(clients: dict[str, dict[str, Saved]]) -> list[str]:
    """What works with Barnabas, and not with Apache Kafka; no lines where there is nothing."""
    lines = []
    for name, runs in clients.items():
        ours = [runs[against].report for against in BARNABAS if against in runs]
        for capability, why in (runs[PEER].report.failed if PEER in runs else {}).items():
            if ours and all(report.results.get(capability) == "" for report in ours):
                lines.append(_row(name, capability, _cell(why)))
    if not lines:
        return []
    heading = _heading("client", "capability", "what Apache Kafka 4.4 says to it")
    return ["What works with Barnabas, and failed with Apache Kafka:", "", *heading, *lines, ""]


def _commits_by_day(saved: list[Saved]) -> list[str]:
    """A plus at a commit: the tree was not quite that commit."""
    by_day: dict[str, dict[str, None]] = {}
    for each in sorted(saved, key=lambda each: each.day):
        by_day.setdefault(each.day, {})[f"`{each.commit}`"] = None
    days = [f"{day} at {', '.join(commits)}" for day, commits in by_day.items()]
    return [f"By `make compat`, {'; '.join(days)}."]


def _heading(*names: str) -> list[str]:
    return [_row(*names), _row(*["---"] * len(names))]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    """Inside a table, and not too long."""
    return text.replace("|", "\\|").replace("<", "&lt;")[:220]
