"""A bar plot as SVG, readable on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

_WIDTH = 760
_LABEL_WIDTH = 330
_ROW_HEIGHT = 44
_TOP = 48
_MARGIN = 56
_BAR_HEIGHT = 16


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
