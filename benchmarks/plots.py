"""Plots on logarithmic axes as SVG, and the slopes of their series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

Points = Sequence[Sequence[float]]

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 34, 96
COLOURS = ("#1b6ca8", "#c0392b", "#1e8449", "#8e44ad", "#b9770e", "#34495e")


def slope(points: Points) -> float:
    """Of the line of least squares through the logarithms: 0 is constant, 1 proportional."""
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread


def svg(plot: dict[str, Any]) -> str:
    """Points joined by lines, powers of ten as grid, the slope of each series in the legend."""
    points = [point for series in plot["series"].values() for point in series]
    lows = [math.floor(math.log10(min(p[axis] for p in points)) + 1e-9) for axis in (0, 1)]
    highs = [math.ceil(math.log10(max(p[axis] for p in points)) - 1e-9) for axis in (0, 1)]
    highs = [max(high, low + 1) for low, high in zip(lows, highs, strict=True)]

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - lows[0]) / (highs[0] - lows[0])
        up = (math.log10(y) - lows[1]) / (highs[1] - lows[1])
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 1),
            round(HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM), 1),
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(WIDTH / 2, 18, plot["title"], "middle", size=13),
    ]
    for power in range(lows[0], highs[0] + 1):
        x, y = place(10.0**power, 10.0 ** lows[1])
        out += [line(x, TOP, x, y), text(x, y + 15, f"{10.0**power:g}", "middle")]
    for power in range(lows[1], highs[1] + 1):
        x, y = place(10.0 ** lows[0], 10.0**power)
        out += [line(x, y, WIDTH - RIGHT, y), text(x - 6, y + 4, f"{10.0**power:g}", "end")]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, plot["x"], "middle"))
    out.append(
        f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(plot["y"])}</text>'
    )
    for number, (label, series) in enumerate(plot["series"].items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(*point) for point in series]
        joined = " ".join(f"{x},{y}" for x, y in places)
        out.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        out += [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in places]
        x, y = LEFT + 240 * (number % 2), HEIGHT - BOTTOM + 52 + 15 * (number // 2)
        out.append(f'<rect x="{x}" y="{y - 8}" width="10" height="8" fill="{colour}"/>')
        out.append(text(x + 15, y, f"{label}: slope {slope(series):.2f}", "start"))
    return "\n".join([*out, "</svg>"]) + "\n"


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#ddd"/>'


def text(x: float, y: float, words: str, anchor: str, size: int = 11) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
