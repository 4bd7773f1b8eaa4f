from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from bench_results import World, metrics, rates, write_results
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from apod.bench.figures import annotated, draw_figures
from apod.bench.figures.ablation import draw_ablation
from apod.bench.figures.annotated import draw_annotated
from apod.bench.figures.curves import CORRECTED, RIVALRY, RQ1, RQ2, draw_curves, draw_overview
from apod.bench.figures.rounds import draw_rounds, snapshots
from apod.bench.figures.style import COLOURS, COLUMN, DPI, MARKERS, NothingToDraw, Sketch, paper_style, save
from apod.bench.methods import METHODS, PAPER
from apod.bench.results import Results, read_results
from apod.bench.unit import TableSource
from apod.data import make_example
from apod.errors import DataUnavailable, InputError
from apod.method.settings import PRESETS

pytestmark = pytest.mark.xdist_group("figures")  # they share the drawn figures

WORLD = World(
    tasks=("adult", "meps"),
    seeds=(0, 1),
    fail=frozenset({("adult", 1, "fal")}),
    drop=frozenset({("meps", 0, "ssbm")}),
)
FIGURES = {"overview", "overview-gap", "rq3-adult", "rq4-meps", "tsne-adult", "tsne-meps"} | {
    f"{question}-{task}{twin}"
    for question in ("rq1", "rq2", "rivals", "corrections")
    for task in ("adult", "meps")
    for twin in ("", "-gap")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("figures") / "results", WORLD)


@pytest.fixture(scope="module")
def results(folder: Path) -> Results:
    return read_results(folder)


@pytest.fixture(scope="module")
def drawn(folder: Path) -> list[Path]:
    return draw_figures(folder, folder.parent / "out" / "figures")


@pytest.fixture
def style() -> Iterator[None]:
    with paper_style():
        yield


def truth(task: str, method: str, value: float, column: str) -> np.ndarray:
    """(seeds,) by the rates the folder was made of."""
    return np.array([metrics(WORLD, rates(WORLD, task, s, METHODS[method], value))[column] for s in WORLD.seeds])


@pytest.fixture(scope="module")
def sketches(results: Results) -> dict[str, Sketch]:
    adult, meps = results.tasks["adult"], results.tasks["meps"]
    with paper_style():
        drawn = {
            "rq1": draw_curves(replace(meps, title="CelebA wavy hair"), RQ1, "eop"),  # the longest of all titles
            "rq2": draw_curves(adult, RQ2, "gap"),
            "rivals": draw_curves(adult, RIVALRY, "gap"),
            "rq3": draw_rounds(results, replace(adult, title="Loan default")),
            "rq4": draw_ablation(meps),
            "tsne": draw_annotated(results, meps, None),
            "overview": draw_overview([adult, meps], None),
        }
        for sketch in drawn.values():
            sketch.figure.draw_without_rendering()
    return drawn


# files


def test_every_figure_is_written_as_svg_and_png_beside_the_summary(drawn: list[Path]) -> None:
    expected = {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")} | {"summary.md", "summary.html"}
    assert {path.name for path in drawn} == expected
    assert {path.name for path in drawn[0].parent.iterdir()} == expected


def test_pictures_fit_a_papers_column_at_200_dpi(drawn: list[Path]) -> None:
    for path in drawn:
        if path.suffix == ".png":
            width, height = struct.unpack(">II", path.read_bytes()[16:24])
            assert width == (round(COLUMN * DPI) if "overview" not in path.name else round((2 * COLUMN + 0.3) * DPI))
            assert 300 < height < 1400


def test_svg_files_are_well_formed_and_tell_no_date(drawn: list[Path]) -> None:
    for path in drawn:
        if path.suffix == ".svg":
            assert ET.fromstring(path.read_text()).tag.endswith("svg")
            assert "<dc:date>" not in path.read_text()


def test_the_summary_shows_every_figure(drawn: list[Path]) -> None:
    text = next(path for path in drawn if path.name == "summary.md").read_text()
    assert all(f"]({name}.png)" in text for name in FIGURES)
    page = next(path for path in drawn if path.name == "summary.html").read_text()
    assert page.count("<img") == len(FIGURES)


def test_the_same_results_give_the_same_bytes_whatever_the_user_has_set(
    results: Results, drawn: list[Path], tmp_path: Path
) -> None:
    with mpl.rc_context({"font.size": 20, "svg.fonttype": "none"}):
        with paper_style():
            save(draw_curves(results.tasks["meps"], RQ1, "eop").figure, tmp_path / "rq1-meps")
            save(draw_annotated(results, results.tasks["meps"], None).figure, tmp_path / "tsne-meps")
        assert mpl.rcParams["font.size"] == 20
    for name in ("rq1-meps.svg", "tsne-meps.svg"):
        assert (tmp_path / name).read_bytes() == (drawn[0].parent / name).read_bytes()


# readable


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


@pytest.mark.usefixtures("style")
def test_no_text_is_cut_off_or_too_small(sketches: dict[str, Sketch]) -> None:
    for name, sketch in sketches.items():
        figure = sketch.figure
        canvas = figure.bbox
        for text in texts(figure):
            box = text.get_window_extent()
            where = f"{name}: {text.get_text()!r}"
            assert text.get_fontsize() >= 6, where
            if not _off_axis_tick(text, figure):
                assert box.x0 >= canvas.x0 - 1, where
                assert box.x1 <= canvas.x1 + 1, where
                assert box.y0 >= canvas.y0 - 1, where
                assert box.y1 <= canvas.y1 + 1, where


def _off_axis_tick(text: Text, figure: Figure) -> bool:
    """Tick labels beyond an axis' limits exist and are not drawn."""
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks():
                if text in (tick.label1, tick.label2):
                    return not low <= tick.get_loc() <= high
    return False


def test_axes_say_which_direction_is_better(sketches: dict[str, Sketch]) -> None:
    for name, sketch in sketches.items():
        if name == "tsne":
            continue
        words = " ".join(text.get_text() for text in texts(sketch.figure))
        for axes in sketch.figure.axes:
            titles = axes.get_xlabel() + axes.get_ylabel()
            assert "better" in titles or "fair" in titles, name
        assert "seed" in words, name


def test_colour_and_marker_together_name_a_method() -> None:
    for together in (PAPER, RIVALRY, CORRECTED):
        assert len({(COLOURS[name], MARKERS[METHODS[name].annotation]) for name in together}) == len(together)
    for shown in (RQ1, RQ2, ("pod-rs", "pod-al", "apod", "vanilla", "pod-all"), ("apod", "pod-group", "pod-ca")):
        assert len({COLOURS[name] for name in shown}) == len(shown)


# what is drawn


def points(figure: Figure, method: str) -> dict[str, list[tuple[float, float, str]]]:
    """Marks of a method: x, y and face colour by marker."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for line in figure.axes[0].lines:
        marker, colour = str(line.get_marker()), line.get_color()
        if marker not in ("None", "none", "") and colour == COLOURS[method]:
            face = to_hex(line.get_markerfacecolor())
            at = zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
            found.setdefault(marker, []).extend((float(x), float(y), face) for x, y in at)
    return found


@pytest.mark.usefixtures("style")
@pytest.mark.parametrize("metric", ["eop", "gap"])
def test_points_are_means_over_seeds(results: Results, metric: str) -> None:
    figure = draw_curves(results.tasks["meps"], RQ1, metric).figure
    marks = points(figure, "apod")["o"]
    expected = [
        (truth("meps", "apod", value, metric).mean(), truth("meps", "apod", value, "accuracy").mean())
        for value in METHODS["apod"].values
    ]
    assert np.array(sorted((x, y) for x, y, _ in marks)) == pytest.approx(np.array(sorted(expected)))


@pytest.mark.usefixtures("style")
def test_a_collapsed_method_far_off_is_a_hollow_triangle_at_the_edge(results: Results) -> None:
    """LfF predicts everybody positive: an accuracy of .26 must neither vanish nor flatten the others."""
    sketch = draw_curves(results.tasks["meps"], RQ1, "gap")
    low, high = sketch.figure.axes[0].get_ylim()
    marks = points(sketch.figure, "lff")["v"]
    assert {(y, face) for _, y, face in marks} == {(low, "#ffffff")}
    assert high - low < 0.15
    assert "8 points beyond the axes" in sketch.caption
    assert "Hollow: collapsed" in sketch.caption


@pytest.mark.usefixtures("style")
def test_an_undefined_metric_is_not_drawn_and_is_named(results: Results) -> None:
    sketch = draw_curves(results.tasks["meps"], RQ2, "eop")
    assert len(points(sketch.figure, "pod-al")["o"]) == 4
    assert "POD+AL at 4 of its values" in sketch.caption
    by_gap = draw_curves(results.tasks["meps"], RQ2, "gap")
    assert sum(len(marks) for marks in points(by_gap.figure, "pod-al").values()) == 8


def test_snapshots_are_of_answers_every_seed_has(results: Results) -> None:
    """Seed 0 begins with four answers and seed 1 with five: five is the first number both have."""
    answered, gaps = snapshots(results, "adult", "apod", 0.5, "gap")
    assert answered.tolist() == [5, 6, 7]
    second = metrics(WORLD, rates(WORLD, "adult", 0, METHODS["apod"], 0.5, 1 / 3))["gap"]
    first = metrics(WORLD, rates(WORLD, "adult", 1, METHODS["apod"], 0.5, 0.0))["gap"]
    assert gaps[:, 0] == pytest.approx([second, first])


@pytest.mark.usefixtures("style")
def test_bars_of_individual_selection_are_those_of_the_core_set_rule(results: Results) -> None:
    figure = draw_ablation(results.tasks["meps"]).figure
    assert "POD+Individual selection" in [text.get_text() for text in texts(figure)]
    blue = [bar.get_height() for bar in figure.axes[1].patches if to_hex(bar.get_facecolor()) == "#56b4e9"]
    expected = [truth("meps", "pod-ca", value, "gap").mean() for value in METHODS["pod-ca"].values]
    assert blue == pytest.approx(expected)


@pytest.mark.usefixtures("style")
def test_the_map_shows_every_answer_once_and_positives_below(results: Results) -> None:
    figure = draw_annotated(results, results.tasks["meps"], None).figure
    answers = results.answers
    chosen = answers[(answers["dataset"] == "meps") & (answers["seed"] == 0) & (answers["value"] == 0.5)]
    for column, method in enumerate(("pod-rs", "apod")):
        labels = chosen.loc[chosen["method"] == method, "label"]
        for row, expected in enumerate((len(labels), int(labels.sum()))):
            axes = figure.axes[2 * row + column]
            assert sum(len(marks.get_offsets()) for marks in axes.collections[1:]) == expected


# what is missing


def test_what_the_results_lack_is_left_out_with_a_note(tmp_path: Path) -> None:
    world = World(tasks=("adult",), seeds=(0,), methods=("vanilla", "lff"), bodies=False)
    heard: list[tuple[int, int, str]] = []
    folder = write_results(tmp_path / "r", world)
    files = draw_figures(folder, tmp_path / "out", progress=lambda *news: heard.append(news))
    assert [done for done, _, _ in heard] == list(range(len(heard)))  # said before each, and at the end
    assert {total for _, total, _ in heard} == {len(heard) - 1}
    names = {path.stem for path in files if path.suffix == ".svg"}
    assert "rq1-adult" in names
    assert not {"rq3-adult", "tsne-adult"} & names
    text = (tmp_path / "out" / "summary.md").read_text()
    assert "RQ3 on Adult was not drawn: no rounds of pod-rs, pod-al, apod at strength 0.5." in text
    assert "Annotated people of Adult was not drawn" in text


def test_a_missing_or_damaged_body_is_said(results: Results, tmp_path: Path) -> None:
    task, moved = results.tasks["adult"], replace(results, folder=tmp_path)
    with pytest.raises(NothingToDraw, match="not in the results folder"):
        draw_annotated(moved, task, None)
    (tmp_path / "bodies").mkdir()
    (tmp_path / "bodies" / "adult-0-ab.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.raises(NothingToDraw, match=r"adult-0-ab\.npy cannot be read"):
        draw_annotated(moved, task, None)
    np.save(tmp_path / "bodies" / "adult-0-ab.npy", np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(NothingToDraw, match="has 3 rows"):
        draw_annotated(moved, task, None)


def test_of_several_bodies_the_one_of_the_data_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_example(60, seed=0)
    fingerprint = TableSource(data).fingerprint(PRESETS["paper"])
    (tmp_path / "bodies").mkdir()
    for name, value in (("0000", 0.0), (fingerprint, 1.0)):
        np.save(tmp_path / "bodies" / f"adult-0-{name}.npy", np.full((60, 2), value, dtype=np.float32))
    monkeypatch.setattr(annotated, "load_dataset", lambda name, data_dir: data)
    assert (annotated.embeddings_of(tmp_path, "adult", 0, None) == 1).all()

    def absent(name: str, data_dir: Path | None) -> None:
        raise DataUnavailable("not here")

    monkeypatch.setattr(annotated, "load_dataset", absent)
    with pytest.raises(NothingToDraw, match="2 bodies of one seed"):
        annotated.embeddings_of(tmp_path, "adult", 0, None)


def test_no_results_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no results"):
        draw_figures(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_figures_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match="name a folder"):
        draw_figures(folder, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
