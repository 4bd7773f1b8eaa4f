"""Just enough SVG for the report's charts: escaped elements, scales, axes, markers, labels that do not collide.

Colours are classes, so that one picture serves light, dark and print (style.css). A `tip` becomes a <title>: the
browser's own tooltip without scripts, a quicker one with tips.js.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 420
"""Every chart's width: fills a phone, and two stand side by side on a desk."""

CHARACTER = 6.6
"""Rough width of a character at the charts' 12 px."""

Attribute = str | float | int | None


def tag(name: str, *children: str, **attributes: Attribute) -> Markup:
    """An element, everything in it escaped unless it is Markup; class_ is class, stroke_width is stroke-width."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(escape(child) for child in children)}</{name}>")


def _text(value: Attribute) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def tip(text: str) -> Markup:
    """What a mark says when pointed at."""
    return tag("title", text)


def shorten(text: str, most: int) -> str:
    """A name that fits; the whole one belongs into a tip or table."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def words(x: float, y: float, text: str, anchor: str = "start", class_: str | None = None) -> Markup:
    """A line of text."""
    return tag("text", text, x=float(x), y=float(y), text_anchor=anchor if anchor != "start" else None, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def drawing(height: float, alt: str, *parts: str, width: float = WIDTH) -> Markup:
    """The whole picture; `alt` says in words what it shows."""
    return tag("svg", *parts, viewBox=f"0 0 {_text(width)} {_text(height)}", role="img", aria_label=alt, class_="chart")


@dataclass(frozen=True)
class Scale:
    """From values to pixels, straight or logarithmic."""

    domain: tuple[float, float]
    pixels: tuple[float, float]
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = (math.log10(v) if self.log else v for v in (*self.domain, value))
        return self.pixels[0] + (at - low) / (high - low) * (self.pixels[1] - self.pixels[0])

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the domain, about `most` of them."""
        return log_ticks(self.domain, most) if self.log else straight_ticks(self.domain, most)


def straight_ticks(domain: tuple[float, float], most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    low, high = domain
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def log_ticks(domain: tuple[float, float], most: int) -> list[float]:
    """Powers of ten, every second or third where there are many; with 2 and 5 between where there are few."""
    low, high = math.ceil(math.log10(domain[0]) - 1e-9), math.floor(math.log10(domain[1]) + 1e-9)
    if high - low < 2:
        between = [factor * 10.0**power for power in range(low - 1, high + 1) for factor in (1, 2, 5)]
        return [value for value in between if domain[0] * 0.999 <= value <= domain[1] * 1.001]
    step = max(1, math.ceil((high - low) / most))
    return [10.0**power for power in range(low, high + 1, step)]


def padded(values: Iterable[float], floor: float | None = None, least: float = 1e-3) -> tuple[float, float]:
    """A domain around the values with some air; equal values get a width of at least `least`."""
    known = list(values)
    low, high = min(known), max(known)
    air = max((high - low) * 0.1, least / 2)
    low, high = low - air, high + air
    return (low if floor is None else max(low, floor), high)


@dataclass(frozen=True)
class Frame:
    """The axes of a chart."""

    x: Scale
    y: Scale
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    x_title: str
    y_title: str

    def draw(self, x_ticks: Sequence[float] | None = None) -> Markup:
        """Light grid, ticks, and titles: y above the axis, x below."""
        (left, right), (bottom, top) = self.x.pixels, self.y.pixels
        parts = []
        for value in self.y.ticks():
            at = self.y(value)
            parts += [
                line(left, at, right, at, "grid"),
                words(left - 6, at + 4, self.y_text(value), "end", "tick"),
            ]
        for value in self.x.ticks() if x_ticks is None else x_ticks:
            at = self.x(value)
            parts += [
                line(at, bottom, at, bottom + 4, "axis"),
                words(at, bottom + 17, self.x_text(value), "middle", "tick"),
            ]
        parts += [
            line(left, bottom, right, bottom, "axis"),
            words(2, top - 12, self.y_title, class_="title"),
            words(WIDTH - 2, bottom + 36, self.x_title, "end", "title"),
        ]
        return Markup("").join(parts)


def polyline(points: Sequence[tuple[float, float] | None], class_: str, step: bool = False) -> Markup:
    """A line through the points, broken where a point is None; with `step`, flat until the next value."""
    written, pen_down = [], False
    for point in points:
        if point is None:
            pen_down = False
            continue
        x, y = (_text(float(value)) for value in point)
        written.append(f"M{x} {y}" if not pen_down else f"H{x}V{y}" if step else f"L{x} {y}")
        pen_down = True
    return tag("path", d="".join(written), class_=f"line {class_}") if written else Markup("")


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, at least `gap` apart, inside [low, high] where they fit, in the same order."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    floor = low
    for i in order:
        placed[i] = max(placed[i], floor)
        floor = placed[i] + gap
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - gap
    return placed


def end_labels(ends: Sequence[tuple[float, float, str, str]], x: float, low: float, high: float) -> Markup:
    """Line names beside their last points: (x, y, class, name) each, pushed apart, joined to the line by a hair."""
    parts = []
    gap = min(14.0, (high - low) / max(1, len(ends) - 1))
    for (from_x, from_y, class_, name), y in zip(ends, spread([e[1] for e in ends], gap, low, high), strict=True):
        most = int((WIDTH - x - 8) / CHARACTER)
        parts += [line(from_x + 4, from_y, x + 3, y, f"leader {class_}")]
        parts += [tag("text", shorten(name, most), tip(name), x=x + 6, y=y + 4, class_="label")]
    return Markup("").join(parts)


STROKES = {"plus": "m{a} 0h{b}m{a} {a}v{b}", "cross": "m{a} {a}l{b} {b}m0 {n}l{n} {b}"}
CORNERS = {  # how many, and how far out every second one lies
    "triangle": (3, 1.0),
    "square": (4, 1.0),
    "diamond": (4, 1.0),
    "pentagon": (5, 1.0),
    "hexagon": (6, 1.0),
    "star": (10, 0.45),
}
SHAPES = ("plus", "circle", "cross", "triangle", "square", "diamond", "pentagon", "hexagon", "star")
"""Markers by name. The paper's Figure 1 has plus and circle."""


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """Path data of one marker; many of one class go into one path."""
    r, start = radius, f"M{_text(float(x))} {_text(float(y))}"
    size = {"r": _text(r), "a": _text(-r), "b": _text(2 * r), "n": _text(-2 * r)}
    if shape == "circle":
        return start + "m{a} 0a{r} {r} 0 1 0 {b} 0a{r} {r} 0 1 0 {n} 0".format(**size)
    if shape in STROKES:
        return start + STROKES[shape].format(**size)
    corners, inner = CORNERS[shape]
    turn = math.pi / 4 if shape == "square" else 0.0
    points = []
    for k in range(corners):
        angle, reach = turn + 2 * math.pi * k / corners, 1.2 * r * (inner if k % 2 else 1.0)
        points.append(f"{x + reach * math.sin(angle):.1f} {y - reach * math.cos(angle):.1f}")
    return f"M{'L'.join(points)}z"
