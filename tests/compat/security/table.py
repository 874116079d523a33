"""The matrix in docs/verify/security-matrix.md, between its two marks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.compat.matrix.results import Saved
from tests.compat.matrix.toolchains import ROOT
from tests.compat.security.cells import MUTUAL

PAGE: Final = ROOT / "docs/verify/security-matrix.md"
RESULTS: Final = ROOT / "tests/compat/results/security.json"
BEGIN: Final = "<!-- what `make security-matrix` writes -->"
END: Final = "<!-- to here -->"
OURS: Final = "barnabas"
PEER: Final = "kafka"
FRANZ_GO_TESTS: Final = "franz-go's own tests"
_REFUSED: Final = "-refused"
_CONNECTIONS: Final = ("SASL_PLAINTEXT", "TLSv1.2", "TLSv1.3")


def write(saved: list[Saved], page: Path = PAGE) -> None:
    text = page.read_text()
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{rows(saved)}\n\n{END}{rest.split(END)[1]}")


def rows(saved: list[Saved]) -> str:
    """A row for each cell, a column for each client, Barnabas before Apache Kafka; then the clients' own tests, what
    failed, and when it was run.
    """
    ours = {each.client: each for each in saved if each.against == OURS}
    peers = {each.client: each for each in saved if each.against == PEER}
    clients = [each for each in ours.values() if each.client != FRANZ_GO_TESTS]
    names = dict.fromkeys(name for each in clients for name in each.report.results if not name.endswith(_REFUSED))
    lines = [_row("", *(f"{each.client} {each.report.version}".strip() for each in clients))]
    lines.append("|---" * (len(clients) + 1) + "|")
    for name in sorted(names, key=_order):
        lines.append(_row(_title(name), *(_marks(each, peers.get(each.client), name) for each in clients)))
    own = ours.get(FRANZ_GO_TESTS)
    if own is not None:
        peer = peers.get(FRANZ_GO_TESTS)
        lines += ["", f"{FRANZ_GO_TESTS}: {_verdicts(own)}. With Apache Kafka: {_verdicts(peer)}."]
    lines += ["", *_failures(saved)]
    commits = ", ".join(dict.fromkeys(f"`{each.commit}`" for each in saved))
    days = ", ".join(dict.fromkeys(each.day for each in saved))
    return "\n".join([*lines, "", f"By `make security-matrix`, {days} at {commits}."])


def worse_than_peer(saved: Iterable[Saved]) -> list[str]:
    """Return a line for each cell that fails with Barnabas and is not known to fail with Apache Kafka."""
    by_key = {(each.client, each.against): each for each in saved}
    lines = []
    for (client, against), each in by_key.items():
        peer = by_key.get((client, PEER))
        for name, why in each.report.failed.items() if against == OURS else ():
            if peer is None or not peer.report.failed.get(name):
                lines.append(f"{client}, {name}: {why}")
    return lines


def _marks(ours: Saved, peer: Saved | None, name: str) -> str:
    return f"{_mark(ours, name)} / {'not run' if peer is None else _mark(peer, name)}"


def _mark(client: Saved, name: str) -> str:
    if client.report.skipped:
        return "skipped"
    if name not in client.report.results:
        return "–"
    passes = [client.report.results.get(each) == "" for each in (name, f"{name}{_REFUSED}")]
    return "✓" if all(passes) else "fails" if not any(passes) else "only let in" if passes[0] else "only refused"


def _verdicts(own: Saved | None) -> str:
    if own is None:
        return "not run"
    if own.report.skipped:
        return own.report.skipped
    return ", ".join(f"`{name}` {'fails' if why else 'passes'}" for name, why in own.report.results.items())


def _order(name: str) -> tuple[int, int, str]:
    connection = next((each for each in _CONNECTIONS if name.endswith(each)), "")
    return name.startswith(MUTUAL), _CONNECTIONS.index(connection) if connection else -1, ""


def _title(name: str) -> str:
    for connection in _CONNECTIONS:
        if name.endswith(connection):
            return f"{name.removesuffix(f'-{connection}')}, {connection.replace('TLSv', 'TLS ')}"
    return name


def _failures(saved: list[Saved]) -> list[str]:
    peers = {each.client: each.report for each in saved if each.against == PEER}
    lines = []
    for each in saved:
        for name, why in each.report.failed.items() if each.against == OURS else ():
            peer = peers.get(each.client)
            with_kafka = "not run" if peer is None else peer.results.get(name, "not run") or "passes"
            lines.append(_row(each.client, name, _cell(why), _cell(with_kafka)))
    if not lines:
        return ["No cell fails."]
    # The broker is of the same jars as Kafka's own clients.
    java = peers.get("Java clients")
    broker = f"Apache Kafka {java.version}".strip() if java is not None else "Apache Kafka"
    return [_row("client", "cell", "why", broker), "|---|---|---|---|", *lines]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")[:300]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
