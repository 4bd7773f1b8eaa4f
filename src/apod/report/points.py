"""The report's pictures of people: the map of whom was asked, and Figure 1 with its boundaries."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from apod.report.result import Result
from apod.report.svg import SHAPES, WIDTH, Scale, drawing, line, marker, padded, shorten, tag, tip, words
from apod.report.words import defined, percent, points

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class AskedPoint:
    """One person asked about, where they lie in a picture."""

    x: float
    y: float
    group: str | None  # as answered; None = the annotator could not tell
    label: int  # 0 or 1
    round: int
    row: int | None = None  # in the file, for the tooltip


@dataclass(frozen=True, eq=False)
class Map:
    """A sample of the pool and everyone asked, in two dimensions made from the embeddings."""

    method: str  # what made the two dimensions: "PCA", "t-SNE"
    x: FloatArray  # (n,)
    y: FloatArray  # (n,)
    label: IntArray  # (n,) 0 or 1; no group: nobody has been asked about these people
    asked: Sequence[AskedPoint]


@dataclass(frozen=True, eq=False)
class Surface:
    """What one classifier says over the plane, and whom its training asked about."""

    positive: FloatArray  # (len(grid_y), len(grid_x)) P(y = 1)
    asked: Sequence[AskedPoint] = ()
    accuracy: float | None = None  # on the test part, for the panel's title
    gap: float | None = None


@dataclass(frozen=True, eq=False)
class Plane:
    """Data with exactly two numeric features, drawn as they are: the paper's Figure 1."""

    feature_names: tuple[str, str]  # of x and y
    x: FloatArray  # (n,) a sample of the test part
    y: FloatArray  # (n,)
    label: IntArray  # (n,) 0 or 1
    group: IntArray  # (n,) codes into the result's group_names, -1 = not recorded
    grid_x: FloatArray  # ascending, evenly spaced
    grid_y: FloatArray  # ascending, evenly spaced
    vanilla: Surface
    selected: Surface
    random: Surface | None = None  # the same budget spent on random people, where that was run too


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures a report gets besides its result."""

    map: Map | None = None
    plane: Plane | None = None
    thumbnails: Mapping[int, bytes] = field(
        default_factory=dict
    )  # row in the file -> JPEG; only where the user said so

    def encoded_thumbnails(self, rows: Sequence[int]) -> list[tuple[int, str]]:
        """Rows and their small pictures in base64, in this order, without rows that have none."""
        known = [row for row in rows if row in self.thumbnails]
        return [(row, base64.b64encode(self.thumbnails[row]).decode()) for row in known]


MOST_PEOPLE = 700
"""People drawn per panel of Figure 1; more hide each other."""

SIDE = WIDTH - 20
THRESHOLD = 0.5


def shape_of(result: Result, group: str | None) -> str | None:
    """The marker of a group: its name where that is a shape, else by place; None where nobody could tell."""
    names = list(result["group_names"])
    if group not in names:
        return None
    return group if set(names) <= set(SHAPES) else SHAPES[names.index(group) % len(SHAPES)]


def swatch(shape: str | None, label: int | None, asked: bool = False) -> Markup:
    """A marker as it stands in a legend."""
    class_ = "ink" if label is None else f"label{label}"
    parts: list[str] = [tag("path", d=marker("circle", 8, 8, 6.5), class_="asked")] if asked else []
    parts.append(_glyph(shape, 8, 8, 3.6, class_))
    return tag("svg", *parts, viewBox="0 0 16 16", aria_hidden="true", class_="swatch")


def map_chart(result: Result, picture: Map) -> Markup:
    """A sample of the pool by label, everyone asked on top, in the two dimensions of the picture."""
    everyone_x = [*picture.x.tolist(), *(p.x for p in picture.asked)]
    everyone_y = [*picture.y.tolist(), *(p.y for p in picture.asked)]
    if not everyone_x:
        return Markup("")
    x, y = _square(padded(everyone_x), padded(everyone_y))
    parts: list[str] = [_border()]
    for label in (0, 1):
        here = picture.label == label
        dots = _markers("circle", x, y, picture.x[here], picture.y[here], 1.4)
        parts.append(tag("path", d=dots, class_=f"people solid label{label}"))
    parts += [_asked(result, point, x, y) for point in picture.asked]
    alt = (
        f"{picture.method} of {len(picture.x)} people of the pool, coloured by label; "
        f"{len(picture.asked)} people asked about are ringed."
    )
    return drawing(WIDTH, alt, *parts)


def plane_charts(result: Result, picture: Plane) -> list[tuple[str, str, Markup]]:
    """Figure 1 as panels (title, what it achieves, picture): without mitigation, random answers, with mitigation."""
    vanilla, selected = result["vanilla"], result["selected"]
    panels = [("Without mitigation", picture.vanilla, vanilla["accuracy"], vanilla["gap"])]
    if picture.random is not None:
        panels.append(("Random people asked", picture.random, picture.random.accuracy, picture.random.gap))
    panels.append(("With mitigation", picture.selected, selected["accuracy"], selected["gap"]))
    return [
        (f"({letter}) {title}", _achieved(accuracy, gap), _panel(result, picture, surface, title))
        for letter, (title, surface, accuracy, gap) in zip("abc", panels, strict=False)
    ]


def _achieved(accuracy: float | None, gap: float | None) -> str:
    known = [f"accuracy {percent(accuracy)}"] if defined(accuracy) else []
    return ", ".join([*known, f"gap {points(gap)}"] if defined(gap) else known)


def _panel(result: Result, picture: Plane, surface: Surface, title: str) -> Markup:
    grid_x, grid_y = picture.grid_x.astype(float), picture.grid_y.astype(float)
    x, y = _square((grid_x[0], grid_x[-1]), (grid_y[0], grid_y[-1]))
    region, boundary = contour(surface.positive, THRESHOLD)
    to_x, to_y = [x(v) for v in grid_x], [y(v) for v in grid_y]
    across, up = (shorten(name, 40) for name in picture.feature_names)
    parts = [
        tag("path", d=_polygons(region, to_x, to_y), class_="region"),
        _border(),
        *_people(result, picture, x, y),
        tag("path", d=_segments(boundary, to_x, to_y), class_="boundary"),
        *(_asked(result, point, x, y) for point in surface.asked),
        words(WIDTH / 2, WIDTH - 2, f"{across} →", "middle", "title"),
        tag(
            "text",
            f"{up} →",
            text_anchor="middle",
            class_="title",
            transform=f"translate(12 {WIDTH / 2:.0f}) rotate(-90)",
        ),
    ]
    negative, positive = result["label_names"]
    alt = (
        f"{title}: people by {across} and {up}; the line is the decision boundary between {negative} and {positive}; "
        f"{len(surface.asked)} people asked about are ringed."
    )
    return drawing(WIDTH, alt, *parts)


def _people(result: Result, picture: Plane, x: Scale, y: Scale) -> Iterator[Markup]:
    """One path per group and label: colour = label, shape = recorded group."""
    inside = (picture.x >= x.domain[0]) & (picture.x <= x.domain[1])
    inside &= (picture.y >= y.domain[0]) & (picture.y <= y.domain[1])
    rows = np.flatnonzero(inside)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_PEOPLE)).astype(int)] if len(rows) else rows
    for code, name in (*enumerate(result["group_names"]), (-1, None)):
        for label in (0, 1):
            here = rows[(picture.group[rows] == code) & (picture.label[rows] == label)]
            if len(here):
                shape = shape_of(result, name) or "circle"
                drawn = _markers(shape, x, y, picture.x[here], picture.y[here], 1.8 if shape == "circle" else 2.8)
                yield tag("path", d=drawn, class_=f"people {_filled(shape)}label{label}")


def _square(x_domain: tuple[float, float], y_domain: tuple[float, float]) -> tuple[Scale, Scale]:
    return Scale(x_domain, (20, WIDTH)), Scale(y_domain, (SIDE, 0))


def _border() -> Markup:
    return Markup("").join([line(20, SIDE, WIDTH, SIDE, "axis"), line(20, 0, 20, SIDE, "axis")])


def _markers(shape: str, x: Scale, y: Scale, xs: FloatArray, ys: FloatArray, radius: float) -> str:
    return "".join(marker(shape, x(float(a)), y(float(b)), radius) for a, b in zip(xs, ys, strict=True))


def _asked(result: Result, point: AskedPoint, x: Scale, y: Scale) -> Markup:
    """A ringed marker: shape = answered group, colour = label."""
    at_x, at_y = x(point.x), y(point.y)
    row = "" if point.row is None else f"row {point.row}, "
    answer = point.group if point.group is not None else "could not tell"
    said = f"{row}round {point.round}: {answer}, {result['label_names'][point.label]}"
    ring = tag("path", tip(said), d=marker("circle", at_x, at_y, 7), class_="mark asked")
    return Markup("").join([ring, _glyph(shape_of(result, point.group), at_x, at_y, 3.6, f"label{point.label}")])


def _glyph(shape: str | None, x: float, y: float, radius: float, class_: str) -> Markup:
    if shape is None:
        return words(x, y + 4, "?", "middle", f"unknown {class_}")
    size = radius * 0.7 if shape == "circle" else radius
    return tag("path", d=marker(shape, x, y, size), class_=f"glyph {_filled(shape)}{class_}")


def _filled(shape: str) -> str:
    return "solid " if shape == "circle" else ""  # the others are told apart best by their outline


Point = tuple[float, float]


def contour(values: npt.NDArray[Any], level: float) -> tuple[list[list[Point]], list[tuple[Point, Point]]]:
    """Where a grid of values exceeds a level: polygons that fill it, segments that bound it, in grid units.

    Every cell of four neighbours is walked round; the crossing of an edge is interpolated. A cell that is above
    all over joins its neighbours of the same row into one rectangle.
    """
    above = values > level
    regions: list[list[Point]] = []
    borders: list[tuple[Point, Point]] = []
    for j in range(values.shape[0] - 1):
        full = above[j, :-1] & above[j, 1:] & above[j + 1, :-1] & above[j + 1, 1:]
        some = above[j, :-1] | above[j, 1:] | above[j + 1, :-1] | above[j + 1, 1:]
        regions += [[(a, j), (b, j), (b, j + 1), (a, j + 1)] for a, b in _runs(full)]
        for i in np.flatnonzero(some & ~full).tolist():
            polygon, crossings = _clip(values, level, i, j)
            regions.append(polygon)
            borders += list(zip(crossings[::2], crossings[1::2], strict=True))
    return regions, borders


def _runs(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _clip(values: npt.NDArray[Any], level: float, i: int, j: int) -> tuple[list[Point], list[Point]]:
    """The part of one cell above the level, and where its edges cross it (two points, or four at a saddle)."""
    corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
    polygon: list[Point] = []
    crossings: list[Point] = []
    for here, there in zip(corners, [*corners[1:], corners[0]], strict=True):
        a, b = float(values[here[1], here[0]]), float(values[there[1], there[0]])
        if a > level:
            polygon.append(here)
        if (a > level) != (b > level):
            t = (level - a) / (b - a)
            point = (here[0] + t * (there[0] - here[0]), here[1] + t * (there[1] - here[1]))
            polygon.append(point)
            crossings.append(point)
    if values[j, i] <= level:  # starts below: the first crossing leads in, and a border runs from a way out to a way in
        crossings = [*crossings[1:], *crossings[:1]]
    return polygon, crossings


def _at(point: Point, to_x: Sequence[float], to_y: Sequence[float]) -> str:
    steps = range(len(to_x)), range(len(to_y))
    return f"{np.interp(point[0], steps[0], to_x):.1f} {np.interp(point[1], steps[1], to_y):.1f}"


def _polygons(polygons: Sequence[Sequence[Point]], to_x: Sequence[float], to_y: Sequence[float]) -> str:
    return "".join("M" + "L".join(_at(p, to_x, to_y) for p in polygon) + "z" for polygon in polygons)


def _segments(segments: Sequence[tuple[Point, Point]], to_x: Sequence[float], to_y: Sequence[float]) -> str:
    return "".join(f"M{_at(a, to_x, to_y)}L{_at(b, to_x, to_y)}" for a, b in segments)
