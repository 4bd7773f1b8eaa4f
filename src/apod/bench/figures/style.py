"""One look for all figures: a paper's column width, colours that most colour-blind readers tell apart, fixed bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from apod.bench.results import ANNOTATION, TaskResults

COLUMN = 3.3
"""Width of a paper's column in inches; the overview takes two."""

DPI = 200

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
OLIVE, BLUE, VERMILLION, PURPLE = "#999933", "#0072B2", "#D55E00", "#CC79A7"
WINE = "#882255"
GREY, LIGHT = "#767676", "#D5D5D5"

COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "vanilla": BLACK,
        "group-dro": BLUE,
        "lff": GREEN,
        "fal": PURPLE,
        "ssbm": GREEN,  # with another marker than LfF, and never in one figure with it
        "pod-rs": BLUE,  # likewise Group DRO
        "pod-al": ORANGE,
        "pod-ca": SKY,
        "pod-group": OLIVE,
        "apod": VERMILLION,
        "pod-all": GREY,
        "cgl": BLUE,  # the rivals have a figure of their own
        "fairdsr": ORANGE,
        "ssa": PURPLE,
        "dfr": SKY,
        "jtt": GREEN,
        "exponentiated-gradient": OLIVE,
        "threshold-optimizer": WINE,
        "base": BLACK,  # and corrections, with the paper's ends of the range
        "corrected": WINE,
        "corrected-rs": BLUE,
        "corrected-al": ORANGE,
        "corrected-ca": SKY,
        "corrected-group": OLIVE,
        "corrected-apod": GREEN,
        "corrected-all": PURPLE,
    }
)
"""Okabe and Ito's colours; for their yellow, too pale on white, Tol's olive and wine. No two of a figure share one."""

MARKERS: Mapping[str, str] = MappingProxyType({"none": "s", "partial": "o", "all": "D"})
"""By how much group annotation a method uses."""

_SIGNS = MappingProxyType({"none": "■", "partial": "●", "all": "◆"})

FAIR: Mapping[str, float] = MappingProxyType({"eop": 1.0, "delta_eo": 0.0, "gap": 0.0})
"""Where a metric says that both groups are treated alike."""

AXIS_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "eop": "EOP = TPR$_0$ / TPR$_1$ (closer to 1 is better)",
        "delta_eo": "Δ-EO, signed (closer to 0 is better)",
        "gap": "gap |ΔTPR| + |ΔFPR| (← lower is better)",
        "accuracy": "accuracy (higher is better →)",
    }
)
PANEL_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "eop": "EOP\n(1 is fair)",
        "delta_eo": "Δ-EO, signed\n(0 is fair)",
        "gap": "gap\n(← lower is better)",
        "balanced_accuracy": "balanced acc.\n(higher is better →)",
    }
)
"""The same for panels that are stacked, where there is less room."""

_RC: Mapping[str, Any] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 7,
        "axes.titlesize": 7.5,
        "axes.labelsize": 7,
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "legend.fontsize": 6.5,
        "legend.frameon": False,
        "legend.handlelength": 1.8,
        "legend.columnspacing": 1.2,
        "legend.handletextpad": 0.5,
        "legend.borderaxespad": 0.2,
        "legend.labelspacing": 0.35,
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.formatter.useoffset": False,
        "axes.unicode_minus": True,
        "grid.color": "#EBEBEB",
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "lines.linewidth": 1.1,
        "lines.markersize": 3.6,
        "hatch.linewidth": 0.5,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.fonttype": "path",  # the same look whatever fonts the reader has
        "svg.hashsalt": "apod",  # ids, and so bytes, do not change from run to run
    }
)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A finished figure and the sentence that belongs under it."""

    figure: Figure
    caption: str


class NothingToDraw(Exception):
    """The results do not hold what a figure needs; the message says what is missing."""


@contextmanager
def paper_style() -> Iterator[None]:
    """Matplotlib's settings for all figures, within the block; whatever the user has set is left as it was."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)  # type: ignore[arg-type]  # its keys are literals, not str
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this many inches whose parts find their own room."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03)  # type: ignore[union-attr, call-arg]
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.svg and stem.png."""
    svg, png = stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")
    figure.draw_without_rendering()  # find the layout once, for both files
    figure.set_layout_engine("none")
    figure.savefig(svg, format="svg", metadata={"Date": None})
    figure.savefig(png, format="png", dpi=DPI)
    return [svg, png]


def method_line(name: str, title: str, annotation: str, line: bool = True) -> Line2D:
    """A method's entry in a legend."""
    colour = COLOURS.get(name, GREY)
    return Line2D(
        [], [], color=colour, label=title, marker=MARKERS.get(annotation, "o"),
        linestyle=line_style(name) if line else "none", markeredgecolor=colour,
    )  # fmt: skip


def line_style(name: str) -> Literal["-", "--"]:
    """The upper bound is dashed: nobody could draw it with a budget."""
    return "--" if name == "pod-all" else "-"


def marker_key(annotations: Sequence[str], hollow: bool, beyond: bool) -> str:
    """What the markers mean, in one line: how much annotation a method uses, where it collapsed, what lies outside."""
    parts = [f"{_SIGNS[kind]} {ANNOTATION[kind]}" for kind in MARKERS if kind in annotations]
    parts += ["○ collapsed"] * hollow + ["▷ off the axes"] * beyond
    return f"groups known: {'  '.join(parts)}"


def legend_below(figure: Figure, columns: int, entries: Sequence[Artist], key: str | None = None) -> None:
    """The legend, outside of all axes, row by row; the key to the markers above it."""
    rows = [[*entries[k : k + columns]] for k in range(0, len(entries), columns)]
    width = max(len(row) for row in rows)
    blank = Line2D([], [], linestyle="none", label=" ")
    by_column = [row[k] if k < len(row) else blank for k in range(width) for row in rows]
    figure.legend(handles=by_column, loc="outside lower center", ncols=width, title=key, title_fontsize=6.2)


def seeds_shown(task: TaskResults, what: str) -> str:
    """For a title: how many seeds, and what the bars or bands are."""
    n = len(task.seeds)
    return f"{n} seeds, {what} ± 1 sd" if n > 1 else "1 seed"


def tidy(axes: Axes, x: str, y: str) -> None:
    """Axis titles, and few enough ticks for a narrow column."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.locator_params(axis="both", nbins=5)
