"""Plots as SVG, readable on light and dark pages: bars, lines and curves."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH = 760
_LABEL_WIDTH = 330
_ROW_HEIGHT = 44
_TOP = 48
_MARGIN = 56
_BAR_HEIGHT = 16
_LINE_COLOURS = ("#2a9d5c", "#c98a1b")


@dataclass(slots=True, frozen=True)
class Bar:
    label: str
    low: float
    median: float
    high: float


def bar_plot(title: str, bars: list[Bar]) -> str:
    """Horizontal bars of medians with their spread as a line, and a mark at 1."""
    scale_max = max([1.0, *(bar.high for bar in bars)]) * 1.05
    height = _TOP + _ROW_HEIGHT * len(bars) + 28

    def x(value: float) -> float:
        return _LABEL_WIDTH + (_WIDTH - _LABEL_WIDTH - _MARGIN) * value / scale_max

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13">',
        "<style>text{fill:#222}.line{stroke:#222}@media(prefers-color-scheme:dark)"
        "{text{fill:#ddd}.line{stroke:#ddd}}</style>",
        f'<text x="0" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        middle = _TOP + _ROW_HEIGHT * number + _ROW_HEIGHT / 2
        colour = "#2a9d5c" if bar.median >= 1 else "#c98a1b"
        parts += [
            f'<text x="0" y="{middle + 4:.1f}">{escape(bar.label)}</text>',
            f'<rect x="{x(0):.1f}" y="{middle - _BAR_HEIGHT / 2:.1f}" width="{x(bar.median) - x(0):.1f}" '
            f'height="{_BAR_HEIGHT}" fill="{colour}"/>',
            f'<line class="line" x1="{x(bar.low):.1f}" x2="{x(bar.high):.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
            f'stroke-width="2"/>',
            f'<text x="{x(bar.high) + 6:.1f}" y="{middle + 4:.1f}">{bar.median:.2f}×</text>',
        ]
    bottom = height - 24
    parts += [
        f'<line class="line" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP - 8}" y2="{bottom}" stroke-dasharray="4 3"/>',
        f'<text x="{x(1):.1f}" y="{bottom + 16}" text-anchor="middle">1× (equal)</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def line_plot(title: str, series: dict[str, list[tuple[int, float]]], unit: str) -> str:
    """Lines over a logarithmic axis of powers of ten; points by name, (x, y)."""
    xs = sorted({x for points in series.values() for x, _ in points})
    y_max = max(y for points in series.values() for _, y in points) * 1.15
    left, top, width, height = 64, 48, _WIDTH - 220, 260

    def place(x: int, y: float) -> tuple[float, float]:
        span = log10(xs[-1] / xs[0]) or 1.0
        return left + width * log10(x / xs[0]) / span, top + height * (1 - y / y_max)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + height + 40}" width="{_WIDTH}" '
        f'height="{top + height + 40}" font-family="sans-serif" font-size="13">',
        "<style>text{fill:#222}.line{stroke:#222}@media(prefers-color-scheme:dark)"
        "{text{fill:#ddd}.line{stroke:#ddd}}</style>",
        f'<text x="0" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<line class="line" x1="{left}" x2="{left + width}" y1="{top + height}" y2="{top + height}"/>',
        f'<line class="line" x1="{left}" x2="{left}" y1="{top}" y2="{top + height}"/>',
    ]
    for x in xs:
        parts.append(f'<text x="{place(x, 0)[0]:.1f}" y="{top + height + 20}" text-anchor="middle">{x:,}</text>')
    for step in range(1, 4):
        value = y_max * step / 4
        at = place(xs[0], value)[1]
        parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,.0f} {unit}</text>')
    for number, (name, points) in enumerate(series.items()):
        colour = _LINE_COLOURS[number % len(_LINE_COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in points:
            x_of_point, y_of_point = place(*point)
            parts.append(f'<circle cx="{x_of_point:.1f}" cy="{y_of_point:.1f}" r="3" fill="{colour}"/>')
        end_x, end_y = place(*points[-1])
        parts.append(f'<text x="{end_x + 10:.1f}" y="{end_y + 4:.1f}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(slots=True, frozen=True)
class Curve:
    label: str
    points: list[tuple[float, float]]
    """Of positive numbers, from left to right."""
    colour: int
    """Curves of one side have one colour."""
    is_dashed: bool = False


def curve_plot(title: str, x_title: str, y_title: str, curves: list[Curve]) -> str:
    """Curves over two logarithmic axes, which are marked at 1, 2 and 5 of each decade."""
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    left, top, width, height = 72, 48, _WIDTH - 240, 340
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys) / 1.2, max(ys) * 1.2

    def place(x: float, y: float) -> tuple[float, float]:
        x_span = log10(x_high / x_low) or 1.0
        return left + width * log10(x / x_low) / x_span, top + height * (1 - log10(y / y_low) / log10(y_high / y_low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + height + 56}" width="{_WIDTH}" '
        f'height="{top + height + 56}" font-family="sans-serif" font-size="13">',
        "<style>text{fill:#222}.line{stroke:#222}.grid{stroke:#ccc}@media(prefers-color-scheme:dark)"
        "{text{fill:#ddd}.line{stroke:#ddd}.grid{stroke:#444}}</style>",
        f'<text x="0" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{left}" y="{top - 10}">{escape(y_title)}</text>',
        f'<text x="{left + width / 2}" y="{top + height + 46}" text-anchor="middle">{escape(x_title)}</text>',
    ]
    for x in _marks(x_low, x_high):
        at, _ = place(x, y_low)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{top + height}"/>')
        parts.append(f'<text x="{at:.1f}" y="{top + height + 20}" text-anchor="middle">{x:,.4g}</text>')
    for y in _marks(y_low, y_high):
        _, at = place(x_low, y)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{y:,.4g}</text>')
    for number, curve in enumerate(curves):
        colour = _LINE_COLOURS[curve.colour % len(_LINE_COLOURS)]
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in curve.points)
        dashes = ' stroke-dasharray="5 4"' if curve.is_dashed else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for point in curve.points:
            x_of_point, y_of_point = place(*point)
            parts.append(f'<circle cx="{x_of_point:.1f}" cy="{y_of_point:.1f}" r="3" fill="{colour}"/>')
        at = top + 16 + 20 * number
        parts.append(
            f'<line x1="{left + width + 16}" x2="{left + width + 44}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" '
            f'stroke-width="2"{dashes}/>'
        )
        parts.append(f'<text x="{left + width + 50}" y="{at}">{escape(curve.label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _marks(low: float, high: float) -> list[float]:
    marks = [digit * 10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1) for digit in (1, 2, 5)]
    return [mark for mark in marks if low <= mark <= high]
