from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.report.points import contour
from apod.report.svg import Scale, log_ticks, spread, straight_ticks


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6), st.integers(3, 8))
def test_ticks_are_round_ascending_and_inside(low: float, width: float, most: int) -> None:
    ticks = straight_ticks((low, low + width), most)
    slack = width * 1e-6
    assert 1 <= len(ticks) <= most + 1
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
    assert all(b > a for a, b in pairwise(ticks))


@given(st.floats(1e-6, 1e6), st.floats(1.5, 1e8))
def test_log_ticks_are_inside_and_at_most_a_few(low: float, times: float) -> None:
    ticks = log_ticks((low, low * times), 5)
    assert len(ticks) <= 8
    assert all(low * 0.99 <= tick <= low * times * 1.01 for tick in ticks)


def test_a_log_scale_puts_the_geometric_mean_in_the_middle() -> None:
    scale = Scale((0.01, 100.0), (0.0, 200.0), log=True)
    assert scale(1.0) == pytest.approx(100.0)
    assert [scale(v) for v in scale.ticks()] == pytest.approx([0, 50, 100, 150, 200])


@given(st.lists(st.floats(0, 200), min_size=1, max_size=12))
def test_labels_are_pushed_apart_in_order_and_stay_inside(wanted: list[float]) -> None:
    placed = spread(wanted, 14.0, 0.0, 200.0)
    ordered = sorted(placed)
    assert all(b - a >= 14 - 1e-9 for a, b in pairwise(ordered))
    assert ordered[0] >= -1e-9
    assert ordered[-1] <= 200 + 1e-9
    assert [placed[i] for i in np.argsort(wanted, kind="stable")] == ordered


@settings(deadline=None)
@given(st.floats(0, 2 * np.pi), st.floats(-4, 4), st.integers(2, 9), st.integers(2, 9))
def test_a_straight_boundary_is_drawn_exactly(angle: float, offset: float, columns: int, rows: int) -> None:
    def height(x: Any, y: Any) -> Any:
        return np.cos(angle) * (x - (columns - 1) / 2) + np.sin(angle) * (y - (rows - 1) / 2) - offset

    across, up = np.meshgrid(np.arange(columns), np.arange(rows))
    regions, borders = contour(height(across, up), 0.0)
    for x, y in (point for border in borders for point in border):
        assert height(x, y) == pytest.approx(0, abs=1e-9)
    fine_x, fine_y = np.meshgrid(np.linspace(0, columns - 1, 301), np.linspace(0, rows - 1, 301))
    share = float((height(fine_x, fine_y) > 0).mean())
    area = sum(abs(shoelace(region)) for region in regions)
    assert area / ((columns - 1) * (rows - 1)) == pytest.approx(share, abs=0.01)


def shoelace(polygon: list[tuple[float, float]]) -> float:
    turned = [*polygon[1:], polygon[0]]
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(polygon, turned, strict=True)) / 2


def test_a_saddle_keeps_its_two_low_corners_apart_from_the_region() -> None:
    regions, borders = contour(np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5)
    edges = {frozenset(edge) for edge in zip(regions[0], [*regions[0][1:], regions[0][0]], strict=True)}
    assert {frozenset(border) for border in borders} <= edges  # borders are edges of what is filled
    assert len(borders) == 2


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_can_be_read_on_their_background(mode: str) -> None:
    css = (Path(__file__).resolve().parents[2] / "src" / "apod" / "report" / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", blocks[0 if mode == "light" else 1]))
    for name in ("ink", "soft"):
        assert min(contrast(colours[name], colours[ground]) for ground in ("paper", "card")) >= 4.5, name
    assert contrast(colours["ink"], colours["warn"]) >= 4.5
    assert contrast(colours["blue"], colours["paper"]) >= 4.5  # links
    for name in ("vermillion", "green", "orange", "purple", "grey"):
        assert contrast(colours[name], colours["paper"]) >= 3, name  # WCAG 2.1 for graphics


def contrast(one: str, other: str) -> float:
    """WCAG's contrast ratio of two colours."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)
