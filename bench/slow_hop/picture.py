"""The dashboard's panels as one SVG, of what was scraped; the time of the fault is shaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Final

from bench.slow_hop.evaluation import evaluate
from bench.slow_hop.expressions import parse
from bench.slow_hop.series import Labels, Scraped
from scripts.dashboards.dashboard import Panel

_COLUMNS: Final = 3
_WIDTH: Final = 380
_HEIGHT: Final = 210
_PLOT: Final = (44, 30, 322, 92)
"""x, y, width, height within a panel."""
_SERIES_MAX: Final = 6
"""Those that grow the largest; the legend says how many more there are."""
_COLOURS: Final = ("#2a9d5c", "#c98a1b", "#3b78c4", "#b5483a", "#7d5bb0", "#5a8f8f")
_RATE_RANGE: Final = "5s"

Line = list[tuple[float, float]]


@dataclass(slots=True, frozen=True)
class Span:
    """Seconds, as in what was scraped; the fault is within."""

    begin_s: float
    end_s: float
    fault_begin_s: float
    fault_end_s: float


def draw(title: str, rows: Mapping[str, Sequence[Panel]], scraped: Scraped, span: Span) -> str:
    parts: list[str] = []
    top = 44
    for row, panels in rows.items():
        parts.append(f'<text x="8" y="{top + 20}" font-size="15" font-weight="bold">{escape(row)}</text>')
        top += 28
        for number, panel in enumerate(panels):
            x, y = _WIDTH * (number % _COLUMNS), top + _HEIGHT * (number // _COLUMNS)
            parts.append(f'<g transform="translate({x},{y})">')
            parts += _draw_panel(panel, lines_of(panel, scraped, span), span)
            parts.append("</g>")
        top += _HEIGHT * -(-len(panels) // _COLUMNS)
    width = _WIDTH * _COLUMNS
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
        'font-family="sans-serif" font-size="11">',
        "<style>text{fill:#222}.axis{stroke:#888}.fault{fill:#c98a1b;fill-opacity:.15}@media(prefers-color-scheme:dark)"
        "{text{fill:#ddd}}</style>",
        f'<text x="8" y="24" font-size="17" font-weight="bold">{escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def lines_of(panel: Panel, scraped: Scraped, span: Span) -> dict[str, Line]:
    """By legend: a value for every second."""
    lines: dict[str, Line] = {}
    for query in panel.queries:
        text = query.expression.replace("$__rate_interval", _RATE_RANGE)
        expression = parse(re.sub(r'"\$(namespace|job)"', '".*"', text))
        for second in range(int(span.end_s - span.begin_s) + 1):
            value = evaluate(expression, scraped, span.begin_s + second)
            found = value if isinstance(value, dict) else {frozenset(): value}
            for labels, number in found.items():
                if isfinite(number):
                    lines.setdefault(_legend(query.legend, labels), []).append((float(second), number))
    return lines


def _legend(text: str, labels: Labels) -> str:
    values = dict(labels)
    return re.sub(r"{{(\w+)}}", lambda found: values.get(found[1], ""), text).strip()


def _draw_panel(panel: Panel, lines: dict[str, Line], span: Span) -> Iterator[str]:
    left, top, width, height = _PLOT
    seconds = span.end_s - span.begin_s
    y_max = max((y for line in lines.values() for _, y in line), default=0.0) * 1.1 or 1.0

    def x(second: float) -> float:
        return left + width * second / seconds

    fault_x, fault_end_x = x(span.fault_begin_s - span.begin_s), x(span.fault_end_s - span.begin_s)
    yield f'<text x="8" y="18" font-size="12" font-weight="bold">{escape(panel.title)}</text>'
    yield (f'<rect class="fault" x="{fault_x:.1f}" y="{top}" width="{fault_end_x - fault_x:.1f}" height="{height}"/>')
    yield f'<line class="axis" x1="{left}" x2="{left + width}" y1="{top + height}" y2="{top + height}"/>'
    yield f'<text x="{left - 4}" y="{top + 8}" text-anchor="end">{axis_label(y_max, panel.unit)}</text>'
    yield f'<text x="{left - 4}" y="{top + height}" text-anchor="end">0</text>'
    largest = sorted(lines, key=lambda name: max(y for _, y in lines[name]), reverse=True)
    for number, name in enumerate(largest[:_SERIES_MAX]):
        colour = _COLOURS[number]
        points = " ".join(f"{x(second):.0f},{top + height * (1 - y / y_max):.1f}" for second, y in lines[name])
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        legend_x, legend_y = left + 165 * (number % 2), top + height + 18 + 15 * (number // 2)
        yield f'<rect x="{legend_x}" y="{legend_y - 8}" width="8" height="8" fill="{colour}"/>'
        yield f'<text x="{legend_x + 12}" y="{legend_y}">{escape(_shortened(name))}</text>'
    if len(largest) > _SERIES_MAX:
        yield f'<text x="{left}" y="{top + height + 66}">and {len(largest) - _SERIES_MAX} more</text>'
    if not lines:
        yield f'<text x="{left + 8}" y="{top + height / 2}">nothing</text>'


def _shortened(name: str) -> str:
    return name if len(name) <= 26 else name[:25] + "…"


def axis_label(value: float, unit: str) -> str:
    """With a prefix where it is large, in no more than five characters or so."""
    suffix = {"ms": " ms", "percentunit": "", "percent": " %"}.get(unit, "")
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if prefix == 'k' else size):.0f}{prefix}{suffix}"
    return f"{value:.0f}{suffix}" if value >= 10 else f"{value:.2g}{suffix}"
