"""Curves over the backlog on a logarithmic axis of milliseconds, as SVG, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

_COLOURS = ("#2a9d5c", "#c0392b", "#c98a1b", "#5b6abf")
_WIDTH, _LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 760, 72, 48, 440, 280


def backlog_plot(title: str, series: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """One curve a name; its points are (backlog in percent, milliseconds)."""
    backlogs = sorted({backlog for points in series.values() for backlog, _ in points})
    values = [value for points in series.values() for _, value in points]
    decades = range(floor(log10(min(values))), ceil(log10(max(values))) + 1)

    def x(backlog: int) -> float:
        return _LEFT + _PLOT_WIDTH * backlog / max(1, backlogs[-1])

    def y(value: float) -> float:
        return _TOP + _PLOT_HEIGHT * (decades[-1] - log10(value)) / max(1, decades[-1] - decades[0])

    bottom = _TOP + _PLOT_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 48}" width="{_WIDTH}" '
        f'height="{bottom + 48}" font-family="sans-serif" font-size="13">',
        "<style>text{fill:#222}.line{stroke:#222}.grid{stroke:#8886}@media(prefers-color-scheme:dark)"
        "{text{fill:#ddd}.line{stroke:#ddd}}</style>",
        f'<text x="0" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<line class="line" x1="{_LEFT}" x2="{_LEFT + _PLOT_WIDTH}" y1="{bottom}" y2="{bottom}"/>',
        f'<text x="{_LEFT + _PLOT_WIDTH / 2}" y="{bottom + 42}" text-anchor="middle">'
        "data requests offered, in percent of the request channel</text>",
    ]
    for backlog in backlogs:
        parts.append(f'<text x="{x(backlog):.1f}" y="{bottom + 20}" text-anchor="middle">{backlog}</text>')
    for decade in decades:
        at = y(10.0**decade)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _PLOT_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**decade:g} ms</text>')
    label_y = float(_TOP)
    for number, (name, points) in sorted(enumerate(series.items()), key=lambda item: -item[1][1][-1][1]):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(f"{x(backlog):.1f},{y(value):.1f}" for backlog, value in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for at, value in points]
        # Labels keep the order of the curves' ends, and clear of each other.
        label_y = max(label_y + 18, y(points[-1][1]) + 4)
        parts.append(
            f'<text x="{x(points[-1][0]) + 10:.1f}" y="{label_y:.1f}" fill="{colour}" style="fill:{colour}">'
            f"{escape(name)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
