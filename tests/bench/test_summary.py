from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from bench_results import World, metrics, rates, write_results
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from apod.bench.document import Document, Picture
from apod.bench.methods import METHODS
from apod.bench.results import MethodRuns, Results, TaskResults, read_results
from apod.bench.statistics import (
    choose,
    compare,
    dominated_area,
    majority_accuracy,
    mean_interval,
    share_closed,
)
from apod.bench.summary import build_summary
from apod.errors import CheckpointError, InputError

MEPS = World(
    tasks=("meps",),
    fail=frozenset({("meps", 1, "fal")}),
    error="RuntimeError: <script>alert(1)</script> a | b\nsecond line",
    bodies=False,
)
SEEDS = MEPS.seeds


@pytest.fixture(scope="module")
def meps(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_results(tmp_path_factory.mktemp("meps") / "results", MEPS))


@pytest.fixture(scope="module")
def summary(meps: Results) -> Document:
    return build_summary(meps, [], ["RQ9 was not drawn: nothing is there."])


def truth(method: str, value: float, column: str, world: World = MEPS) -> np.ndarray:
    """(seeds,) by the rates the folder was made of, not by what is read from it."""
    return np.array([metrics(world, rates(world, "meps", s, METHODS[method], value))[column] for s in world.seeds])


def tables(markdown: str) -> dict[str, list[list[str]]]:
    """Tables of a Markdown text by their title, as rows of cells."""
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in markdown.splitlines():
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found.setdefault(title, []).append([cell.strip().replace("\\", "") for cell in cells])
    return found


def row_of(table: list[list[str]], *start: str) -> dict[str, str]:
    row = next(row for row in table if tuple(row[: len(start)]) == start)
    return dict(zip(table[0], row, strict=True))


def runs_of(accuracy: list[list[float]], fairness: list[list[float]], annotation: str = "partial") -> MethodRuns:
    """A method by what the validation part says of it, (seeds, values)."""
    numbers = {"validation_accuracy": np.array(accuracy), "validation_fairness": np.array(fairness)}
    n_values = len(accuracy[0])
    present = ~np.isnan(numbers["validation_accuracy"])
    return MethodRuns("m", "M", annotation, "strength", tuple(range(n_values)), numbers, present)


NAN = float("nan")
VANILLA = runs_of([[0.85]], [[NAN]], "none")


# choosing a point


def test_the_fairest_value_that_keeps_the_accuracy_is_chosen() -> None:
    chosen = choose(runs_of([[0.85, 0.845, 0.84, 0.80]], [[0.5, 0.7, 0.9, 1.0]]), VANILLA)
    assert chosen.index.tolist() == [2]
    assert chosen.within.tolist() == [True]


def test_undefined_fairness_never_wins_and_a_tie_goes_to_the_smaller_value() -> None:
    assert choose(runs_of([[0.85, 0.85, 0.85]], [[NAN, 0.3, 0.3]]), VANILLA).index.tolist() == [1]


def test_without_any_fairness_the_most_accurate_value_is_chosen() -> None:
    assert choose(runs_of([[0.841, 0.849, 0.845]], [[NAN, NAN, NAN]], "none"), VANILLA).index.tolist() == [1]


def test_where_no_value_keeps_the_accuracy_the_most_accurate_counts_and_is_marked() -> None:
    chosen = choose(runs_of([[0.5, 0.7, 0.6]], [[0.9, 0.1, 1.0]]), VANILLA)
    assert chosen.index.tolist() == [1]
    assert chosen.within.tolist() == [False]


def test_a_seed_without_runs_has_no_point() -> None:
    chosen = choose(runs_of([[NAN, NAN]], [[NAN, NAN]]), VANILLA)
    assert chosen.index.tolist() == [-1]
    assert np.isnan(chosen.of(np.array([[1.0, 2.0]]))).all()


def test_the_test_part_chooses_nothing(tmp_path: Path) -> None:
    """Other test numbers, the same validation numbers: the same values are chosen."""
    world = World(tasks=("meps",), seeds=(0, 1), methods=("vanilla", "apod"), bodies=False)
    rng = np.random.default_rng(0)
    other = {
        ("meps", seed, "apod", value): {"accuracy": rng.random(), "gap": rng.random(), "eop": rng.random()}
        for seed in world.seeds
        for value in METHODS["apod"].values
    }
    folders = write_results(tmp_path / "a", world), write_results(tmp_path / "b", replace(world, overrides=other))
    picks = [compare(read_results(folder).tasks["meps"]).chosen["apod"].index.tolist() for folder in folders]
    assert picks[0] == picks[1]
    gaps = [read_results(folder).tasks["meps"].methods["apod"]["gap"] for folder in folders]
    assert not np.allclose(gaps[0], gaps[1])


# intervals, shares, areas


def test_paired_intervals_are_those_of_the_paired_t_test() -> None:
    a, b = np.random.default_rng(1).normal(size=(2, 7))
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert mean_interval(a - b) == pytest.approx(((a - b).mean(), expected.low, expected.high))


def test_one_seed_has_a_mean_and_no_interval() -> None:
    middle, low, high = mean_interval([0.3, NAN])
    assert middle == 0.3
    assert np.isnan([low, high]).all()


def test_the_share_closed_is_of_means_and_its_interval_that_of_all_resamples() -> None:
    rng = np.random.default_rng(2)
    vanilla, method, best = 0.2 + rng.normal(0, 0.02, 5), 0.12 + rng.normal(0, 0.03, 5), 0.05 + rng.normal(0, 0.02, 5)
    share, low, high = share_closed(vanilla, method, best)
    assert share == pytest.approx((vanilla.mean() - method.mean()) / (vanilla.mean() - best.mean()))
    draws = np.array(list(itertools.product(range(5), repeat=5)))  # the whole bootstrap distribution
    v, m, b = (values[draws].mean(axis=1) for values in (vanilla, method, best))
    expected = np.quantile((v - m) / (v - b), [0.025, 0.975])
    assert [low, high] == pytest.approx(expected, abs=0.02)


def test_a_share_needs_a_gap_that_knowing_all_groups_closes() -> None:
    same = np.full(5, 0.1)
    assert np.isnan(share_closed(same, same - 0.05, same)).all()
    doubtful = np.array([0.0, 0.3, 0.1, 0.2, -0.05])  # what all groups known closes, seed by seed
    share, low, _ = share_closed(same + doubtful, same, np.full(5, 0.19))
    assert not np.isnan(share)
    assert np.isnan(low)
    assert np.isnan(share_closed(np.array([0.2] * 4), np.array([0.1] * 4), np.array([0.05] * 4))[1])  # four seeds


def brute_area(points: list[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Cell by cell of the grid that all coordinates span."""
    xs = sorted({reference[0], *(max(a, reference[0]) for a, _ in points)})
    ys = sorted({reference[1], *(min(g, reference[1]) for _, g in points)})
    area = 0.0
    for left, right in itertools.pairwise(xs):
        for low, high in itertools.pairwise(ys):
            if any(a >= right and g <= low for a, g in points):
                area += (right - left) * (high - low)
    return area


POINTS = st.lists(st.tuples(st.floats(0.5, 1), st.floats(0, 0.5)), max_size=7)


@given(points=POINTS)
def test_the_dominated_area_is_that_of_the_union_of_rectangles(points: list[tuple[float, float]]) -> None:
    reference = (0.7, 0.3)
    area = dominated_area([a for a, _ in points], [g for _, g in points], reference)
    assert area == pytest.approx(brute_area(points, reference), abs=1e-12)


def test_one_label_for_everybody_and_undefined_points_add_no_area() -> None:
    alone = dominated_area([0.85], [0.1], (0.8, 0.3))
    assert alone == pytest.approx(0.05 * 0.2)
    assert dominated_area([0.85, 0.8, NAN], [0.1, 0.0, 0.0], (0.8, 0.3)) == alone


def test_the_commoner_label_is_found_from_rates_alone(meps: Results) -> None:
    share = sum(MEPS.positives) / sum(MEPS.people)
    assert majority_accuracy(meps.tasks["meps"]) == pytest.approx(max(share, 1 - share), abs=1e-12)


# the numbers in the summary


@pytest.mark.parametrize(("method", "value"), [("apod", 0.5), ("group-dro", 0.03), ("vanilla", 0.0)])
@pytest.mark.parametrize(
    ("head", "column"),
    [("accuracy", "accuracy"), ("balanced accuracy", "balanced_accuracy"), ("EOP, mean of runs", "eop"),
     ("Δ-EO, signed", "delta_eo"), ("gap", "gap"), ("TPR non-White", "tpr_0"), ("FPR White", "fpr_1")],
)  # fmt: skip
def test_every_point_has_its_mean_and_deviation(
    summary: Document, method: str, value: float, head: str, column: str
) -> None:
    cell = row_of(tables(summary.markdown())["MEPS: all points"], METHODS[method].title, f"{value:g}")[head]
    values = truth(method, value, column)
    mean, deviation = (float(part.replace("−", "-")) for part in cell.split(" ± "))
    assert mean == pytest.approx(values.mean(), abs=5.1e-4)
    assert deviation == pytest.approx(values.std(ddof=1), abs=5.1e-4)


def test_ratio_of_averages_hides_what_the_mean_of_runs_and_the_gap_show(tmp_path: Path) -> None:
    """Two seeds unfair to opposite sides: averaged first, they look fair."""
    sides = {0: (0.2, 0.6), 1: (0.6, 0.2)}
    overrides = {
        ("meps", seed, "vanilla", 0.0): {"tpr_0": a, "tpr_1": b, "eop": a / b, "gap": abs(a - b), "delta_eo": a - b}
        for seed, (a, b) in sides.items()
    }
    world = World(tasks=("meps",), seeds=(0, 1), methods=("vanilla",), bodies=False, overrides=overrides)
    text = build_summary(read_results(write_results(tmp_path / "r", world)), [], []).markdown()
    row = row_of(tables(text)["MEPS: all points"], "Vanilla")
    assert row["EOP, ratio of averages"] == "1.000"
    assert row["EOP, mean of runs"].startswith("1.667")
    assert row["gap"].startswith("0.400")
    assert row["Δ-EO, signed"].startswith("0.000")


def test_differences_to_apod_are_paired_over_seeds(summary: Document, meps: Results) -> None:
    comparison = compare(meps.tasks["meps"])
    mine, apod = (
        np.array([truth(name, METHODS[name].values[k], "gap")[s] for s, k in enumerate(comparison.chosen[name].index)])
        for name in ("pod-rs", "apod")
    )
    expected = stats.ttest_rel(mine, apod).confidence_interval(0.95)
    cell = row_of(tables(summary.markdown())["MEPS: differences to APOD at the chosen points"], "POD+RS")["gap"]
    numbers = [float(part) for part in re.findall(r"-?\d+\.\d+", cell.replace("−", "-"))]
    assert numbers == pytest.approx([(mine - apod).mean(), expected.low, expected.high], abs=5.1e-4)


def test_differences_at_matched_values_are_of_the_same_place_in_the_range(summary: Document) -> None:
    table = tables(summary.markdown())["MEPS: differences of gap to APOD at matched values"]
    place = METHODS["group-dro"].values.index(0.03)
    difference = truth("group-dro", 0.03, "gap") - truth("apod", METHODS["apod"].values[place], "gap")
    cell = row_of(table, "Group DRO")[f"{place + 1} ({METHODS['apod'].values[place]:g})"]
    assert float(cell.split()[0].replace("−", "-")) == pytest.approx(difference.mean(), abs=5.1e-4)
    assert "Vanilla" not in {row[0] for row in table}  # one value: nothing to match


def test_collapsed_methods_are_named_with_value_and_seeds(summary: Document) -> None:
    table = tables(summary.markdown())["MEPS: collapsed runs"]
    assert {row[0] for row in table[2:]} == {"LfF", "POD+AL"}
    uncertain = row_of(table, "POD+AL")
    assert "0.5 (5 of 5)" in uncertain["value (seeds)"]
    assert "0.05" not in uncertain["value (seeds)"]
    assert uncertain["runs that predict (nearly) nobody positive"] == "20"  # four values, five seeds
    everybody = row_of(table, "LfF")
    assert everybody["(nearly) everybody positive"] == "40"
    assert everybody["runs that predict (nearly) nobody positive"] == "0"


@pytest.mark.parametrize(
    ("selected", "balanced", "flag"),
    [((0.004, 0.012), 0.6, 1), ((0.999, 0.985), 0.6, 1), ((0.2, 0.3), 0.515, 1), ((0.2, 0.3), 0.525, 0)],
)
def test_each_sign_of_collapse_suffices(
    tmp_path: Path, selected: tuple[float, float], balanced: float, flag: int
) -> None:
    """Groups of 2000 and 3000 people: the share selected is weighted by their sizes."""
    numbers = {"selection_rate_0": selected[0], "selection_rate_1": selected[1], "balanced_accuracy": balanced}
    world = World(tasks=("meps",), seeds=(0,), methods=("vanilla",), bodies=False)
    world = replace(world, overrides={("meps", 0, "vanilla", 0.0): numbers})
    vanilla = read_results(write_results(tmp_path / "r", world)).tasks["meps"].methods["vanilla"]
    assert vanilla["selection_rate"][0, 0] == pytest.approx((2 * selected[0] + 3 * selected[1]) / 5)
    assert vanilla["collapsed"][0, 0] == flag


def test_a_point_that_collapsed_or_lost_its_accuracy_is_marked_wherever_it_is_shown(summary: Document) -> None:
    found = tables(summary.markdown())
    for title in ("Gap at the chosen points (lower is better)", "Share of the gap closed"):
        assert "†5 ‡5" in row_of(found[title], "LfF")["MEPS"]
        assert "†" not in row_of(found[title], "APOD")["MEPS"]
    assert row_of(found["MEPS: points chosen on the validation part"], "LfF")["seeds within the rule"] == "0 of 5"


def test_published_figures_stand_beside_ours_on_meps_only(summary: Document, tmp_path: Path) -> None:
    table = tables(summary.markdown())["MEPS: the authors' published figures beside ours"]
    row = row_of(table, "Vanilla")
    assert row["accuracy, published"] == "0.848"
    assert row["EOP as ratio of averages, published"] == "0.774"
    ours = truth("vanilla", 0.0, "accuracy")
    assert row["accuracy, ours at the chosen points"] == f"{ours.mean():.3f} ± {ours.std(ddof=1):.3f}"
    world = World(tasks=("adult",), seeds=(0,), methods=("vanilla", "apod"), bodies=False)
    other = build_summary(read_results(write_results(tmp_path / "r", world)), [], []).markdown()
    assert "published figures beside" not in other


# what is missing, what failed


def test_failed_runs_are_listed_with_their_errors_and_are_in_no_mean(summary: Document) -> None:
    found = tables(summary.markdown())
    assert len(found["Failed runs"]) == 2 + len(METHODS["fal"].values)
    assert found["Failed runs"][2][:4] == ["meps", "1", "fal", "0.5"]
    assert "second line" in found["Failed runs"][2][4]
    assert row_of(found["MEPS: all points"], "FAL", "0.5")["seeds"] == "4"
    assert "fal on meps (8)" in summary.markdown()


def test_what_could_not_be_drawn_or_was_not_run_is_said(summary: Document) -> None:
    text = summary.markdown()
    assert "RQ9 was not drawn: nothing is there." in text
    assert "No finished runs on: Adult, Loan default" in text
    assert "FAL (32 of 40)" in text


@pytest.mark.parametrize("methods", [("apod",), ("vanilla",), ("vanilla", "lff"), ("apod", "pod-all")])
@pytest.mark.parametrize("seeds", [(3,), (0, 1)])
def test_any_subset_of_methods_and_seeds_has_a_summary(
    tmp_path: Path, methods: tuple[str, ...], seeds: tuple[int, ...]
) -> None:
    world = World(tasks=("meps", "celeba-young"), seeds=seeds, methods=methods, bodies=False, rounds=1)
    document = build_summary(read_results(write_results(tmp_path / "r", world)), [], [])
    text = document.markdown()
    assert document.html()
    assert ("without Vanilla" in text) == ("vanilla" not in methods)
    assert ("nothing follows from it" in text) == (len(seeds) == 1)
    assert "nan" not in text.lower()


def test_a_folder_of_nothing_but_failures_still_says_which(tmp_path: Path) -> None:
    world = World(tasks=("meps",), seeds=(0,), methods=("apod",), fail=frozenset({("meps", 0, "apod")}), bodies=False)
    document = build_summary(read_results(write_results(tmp_path / "r", world)), [], [])
    assert "0 finished runs, 8 failed" in document.markdown()


# reading


def test_an_empty_or_foreign_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no results"):
        read_results(tmp_path)
    with pytest.raises(InputError, match="holds no finished runs"):
        read_results(write_results(tmp_path / "r", World(tasks=())))


@pytest.mark.parametrize("marker", ['{"format": 99}', "[]", "not json"])
def test_results_of_another_version_are_refused(tmp_path: Path, marker: str) -> None:
    (tmp_path / "bench.json").write_text(marker)
    with pytest.raises(CheckpointError, match="this version reads"):
        read_results(tmp_path)


def test_runs_of_two_settings_are_not_averaged(tmp_path: Path) -> None:
    world = World(tasks=("meps",), seeds=(0,), methods=("vanilla",), bodies=False)
    folder = write_results(tmp_path / "r", world)
    write_results(folder, replace(world, setting="other"))
    with pytest.raises(InputError, match="several settings, for example vanilla at 0 on meps, seed 0"):
        read_results(folder)


def test_reading_leaves_a_bench_at_work_alone(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "r", World(tasks=("meps",), seeds=(0,), methods=("vanilla",), bodies=False))
    (folder / "parts" / "meps-1-pod-0.partial").mkdir()
    before = {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}
    read_results(folder)
    assert {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))} == before


def test_the_fairness_metric_of_each_task_is_the_papers(tmp_path: Path) -> None:
    names = ("adult", "meps", "celeba-hair")
    world = World(tasks=names, seeds=(0,), methods=("vanilla",), bodies=False)
    read = read_results(write_results(tmp_path / "r", world))
    assert {name: task.metric for name, task in read.tasks.items()} == {
        "adult": "delta_eo", "meps": "eop", "celeba-hair": "delta_eo",
    }  # fmt: skip
    assert read.tasks["celeba-hair"].group_names == ("male", "female")
    assert read.tasks["adult"].group_names == ("Female", "Male")


# the two pages


class Page(HTMLParser):
    """Elements with their attributes, and whether they close as they open."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_no_other_file_and_runs_nothing(meps: Results) -> None:
    picture = Picture("rq1-meps", "meps", "RQ1", "A <b>caption</b>.", b"<svg/>")
    page = Page(build_summary(meps, [picture], []).html())
    assert not page.open
    assert "script" not in {tag for tag, _ in page.elements}
    sources = [attributes["src"] for _, attributes in page.elements if "src" in attributes]
    assert sources == ["data:image/svg+xml;base64,PHN2Zy8+"]
    anchors = {attributes.get("id") for _, attributes in page.elements}
    links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
    assert links
    assert all(link.startswith("#") and link[1:] in anchors for link in links)
    assert "<script>alert(1)</script> a | b" in page.text
    assert "A <b>caption</b>." in page.text


def test_markdown_tables_are_rectangular_whatever_an_error_says(summary: Document) -> None:
    for title, rows in tables(summary.markdown()).items():
        assert len({len(row) for row in rows}) == 1, title
        assert all(set(cell) == {"-"} for cell in rows[1]), title


def test_both_pages_hold_the_same_cells(summary: Document) -> None:
    text = Page(summary.html()).text
    for rows in tables(summary.markdown()).values():
        assert all(cell.split("\n")[0] in text for row in rows[2:] for cell in row if "second line" not in cell)


def test_a_tasks_pictures_stand_in_its_section(meps: Results) -> None:
    pictures = [Picture("overview", None, "All", "c", b""), Picture("rq1-meps", "meps", "RQ1", "c", b"")]
    text = build_summary(meps, pictures, []).markdown()
    glance, section = text.index("## At a glance"), text.index("## MEPS")
    assert glance < text.index("![All](overview.png)") < section < text.index("![RQ1](rq1-meps.png)")


def test_a_task_has_its_seeds_and_methods_in_order(meps: Results) -> None:
    task: TaskResults = meps.tasks["meps"]
    assert task.seeds == SEEDS
    assert list(task.methods) == list(METHODS)
