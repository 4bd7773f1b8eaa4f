"""An audit: rates per group, differences, the change between two models, proxies, draws and the plan."""

from __future__ import annotations

import csv
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from apod.audit import allocate, audit, draw_people
from apod.audit.sampling import cells_of, check_people
from apod.audit.shares import components, cross_fitted, fit_logistic
from apod.audit.table import AuditColumns, read_audit
from apod.cli import build_app
from apod.cli.audit import plan_text
from apod.errors import ApodError, BudgetError, InputError
from apod.fairness.metrics import evaluate
from apod.fairness.notions import NOTIONS

NAMES = ("a", "b")


def population(n: int = 6000, seed: int = 0) -> dict[str, np.ndarray]:
    """People whose group shows a little in x, and a model that is harder on group 0."""
    rng = np.random.default_rng(seed)
    groups = (rng.random(n) < 0.65).astype(int)
    x = rng.normal(size=(n, 6)) + groups[:, None] * np.array([1.0, 0.5, 0, 0, 0, 0])
    labels = (rng.random(n) < 0.3 + 0.1 * groups).astype(int)
    before = (rng.random(n) < np.where(labels == 1, 0.55 + 0.2 * groups, 0.1 + 0.1 * groups)).astype(int)
    after = np.where(rng.random(n) < 0.05, 1 - before, before)
    return {"groups": groups, "x": x, "labels": labels, "before": before, "after": after}


def answers_of(people: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    told = np.full(len(people["groups"]), -1)
    told[rows] = people["groups"][rows]
    return told


def test_when_everybody_answers_the_audit_is_the_metric() -> None:
    people = population(800)
    found = audit(people["labels"], {"model": people["before"]}, people["groups"], NAMES)
    exact = evaluate(people["labels"], people["before"], people["groups"], NAMES)
    view = found.views["model"]
    for name in NAMES:
        assert view.groups[name]["tpr"].value == pytest.approx(exact.groups[name].tpr, abs=1e-3)
        assert view.groups[name]["fpr"].value == pytest.approx(exact.groups[name].fpr, abs=1e-3)
    assert view.gap.value == pytest.approx(exact.gap, abs=2e-3)
    assert view.differences["tpr"].width is not None
    assert view.differences["tpr"].width < 0.01


@pytest.mark.parametrize("name", NOTIONS)
def test_the_gap_of_an_audit_is_that_of_its_notion(name: str) -> None:
    people = population(800)
    found = audit(
        people["labels"], {"m": people["before"], "n": people["after"]}, people["groups"], NAMES, notion=NOTIONS[name]
    )
    exact = [
        evaluate(people["labels"], people[when], people["groups"], NAMES, NOTIONS[name]).gap
        for when in ("before", "after")
    ]
    assert [view.gap.value for view in found.views.values()] == pytest.approx(exact, abs=2e-3)
    assert found.change is not None
    assert found.change.gap.value == pytest.approx(exact[1] - exact[0], abs=4e-3)
    assert found.precision.half_widths(0).shape == (1, len(NOTIONS[name].rates))
    assert found.to_dict()["notion"] == name


def test_people_known_for_certain_count_for_themselves_alone() -> None:
    """All of group 0 were asked because they are of group 0: that must not make the others look like them."""
    people = population(3000)
    biased = np.flatnonzero(people["groups"] == 0)[:300]
    rest = np.setdiff1d(np.arange(3000), biased)
    drawn = np.random.default_rng(1).choice(rest, 600, replace=False)
    chance = np.full(3000, np.nan)
    chance[drawn] = 600 / len(rest)
    told = answers_of(people, np.concatenate([biased, drawn]))
    found = audit(people["labels"], {"model": people["before"]}, told, NAMES, probability=chance)
    exact = evaluate(people["labels"], people["before"], people["groups"], NAMES)
    for name in NAMES:
        rate = found.views["model"].groups[name]["tpr"]
        assert rate.low is not None
        assert rate.high is not None
        assert rate.low <= exact.groups[name].tpr <= rate.high
    assert (found.drawn, found.known) == (600, 300)


@pytest.mark.parametrize("features", [False, True], ids=["answers alone", "cross-fitted"])
def test_intervals_of_differences_and_of_the_change_cover_the_truth(features: bool) -> None:
    people = population()
    exact = [evaluate(people["labels"], people[name], people["groups"], NAMES) for name in ("before", "after")]
    tpr = [one.groups["a"].tpr - one.groups["b"].tpr for one in exact]
    hits = {"before": 0, "change": 0, "gap": 0}
    rng, audits = np.random.default_rng(0), 60
    for number in range(audits):
        rows = rng.choice(len(people["groups"]), 150, replace=False)
        found = audit(
            people["labels"],
            {"before": people["before"], "after": people["after"]},
            answers_of(people, rows),
            NAMES,
            features=people["x"] if features else None,
            seed=number,
        )
        view, change = found.views["before"], found.change
        assert change is not None
        hits["before"] += view.differences["tpr"].low <= tpr[0] <= view.differences["tpr"].high
        hits["change"] += change.differences["tpr"].low <= tpr[1] - tpr[0] <= change.differences["tpr"].high
        hits["gap"] += view.gap.low <= exact[0].gap <= view.gap.high
    assert min(hits.values()) >= 0.86 * audits  # 95 % less three standard errors


def test_the_change_of_the_gap_is_the_gap_after_minus_the_gap_before() -> None:
    people = population(1500)
    for number in range(20):
        rows = np.random.default_rng(number).choice(1500, 60, replace=False)
        decided = {"before": people["before"], "after": people["after"]}
        found = audit(people["labels"], decided, answers_of(people, rows), NAMES, seed=number)
        assert found.change is not None
        gap, before, after = found.change.gap, found.views["before"].gap, found.views["after"].gap
        assert None not in (gap.value, gap.low, gap.high, before.value, after.value)
        assert gap.value == pytest.approx(after.value - before.value)  # type: ignore[operator]
        assert gap.low <= gap.value <= gap.high  # type: ignore[operator]


def test_the_change_is_known_far_better_than_either_gap() -> None:
    people = population()
    rows = np.random.default_rng(0).choice(6000, 200, replace=False)
    found = audit(
        people["labels"], {"before": people["before"], "after": people["after"]}, answers_of(people, rows), NAMES
    )
    assert found.change is not None
    assert found.change.differences["tpr"].width < 0.5 * found.views["before"].differences["tpr"].width


def test_proxies_make_intervals_narrower_and_nobody_else_s_group_is_read() -> None:
    people = population()
    rows = np.random.default_rng(3).choice(6000, 300, replace=False)
    told = answers_of(people, rows)
    plain = audit(people["labels"], {"m": people["before"]}, told, NAMES).views["m"]
    strong = np.where(people["groups"] == 1, 0.95, 0.05)
    helped = audit(
        people["labels"], {"m": people["before"]}, told, NAMES, proxies=np.stack([1 - strong, strong], axis=1)
    ).views["m"]
    assert helped.differences["tpr"].width < 0.6 * plain.differences["tpr"].width


def test_more_than_two_groups_have_a_spread_instead_of_a_sign() -> None:
    people = population(3000)
    groups = np.random.default_rng(0).integers(0, 3, 3000)
    found = audit(people["labels"], {"m": people["before"]}, groups, ("a", "b", "c"))
    exact = evaluate(people["labels"], people["before"], groups, ("a", "b", "c"))
    assert found.views["m"].gap.value == pytest.approx(exact.gap, abs=5e-3)
    assert not found.views["m"].classical


def test_the_logistic_fit_is_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = (rng.random(120) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    mine = fit_logistic(x[None], y[None], np.ones((1, 120)), ridge=30.0)[0]
    # scikit-learn leaves the intercept unpenalised; here half an answer's worth holds it
    theirs = LogisticRegression(C=1 / 30, tol=1e-8, max_iter=1000).fit(x, y)
    assert np.allclose(mine[:-1], theirs.coef_[0], atol=2e-3)
    assert mine[-1] == pytest.approx(theirs.intercept_[0], abs=0.02)


def test_nobody_s_proxy_depends_on_their_own_answer() -> None:
    people = population(500)
    rows = np.arange(60)
    targets = np.eye(2)[people["groups"][rows]]
    inputs = components(people["x"])
    base = cross_fitted(inputs, rows, targets, np.random.default_rng(0))
    for one in (0, 17, 59):
        turned = targets.copy()
        turned[one] = turned[one][::-1]
        changed = cross_fitted(inputs, rows, turned, np.random.default_rng(0))
        assert np.array_equal(changed[one], base[one])
        assert not np.allclose(changed[100:], base[100:])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=4, max_size=4), st.integers(0, 60), st.integers(0, 1000))
def test_an_allocation_spends_exactly_the_answers_within_the_room(room: list[int], n: int, seed: int) -> None:
    people = check_people([0, 0, 1, 1] * 50, {"m": [0, 1] * 100}, np.full(200, -1), NAMES)
    plan = cells_of(people, ["m"])
    shares = np.random.default_rng(seed).dirichlet([1, 1], 4)
    if n > sum(room):
        with pytest.raises(BudgetError, match="cannot be drawn"):
            allocate(shares, plan.views, n, np.array(room))
        return
    counts = allocate(shares, plan.views, n, np.array(room))
    assert counts.sum() == n
    assert (counts <= np.array(room)).all()


def test_everybody_is_drawn_with_the_stated_probability() -> None:
    cells, counts = np.repeat([0, 1, 2], [10, 20, 40]), np.array([5, 4, 2])
    rng, times = np.random.default_rng(0), np.zeros(70)
    stated = np.repeat(counts / np.array([10, 20, 40]), [10, 20, 40])
    for _ in range(4000):
        drawn = draw_people(cells, counts, np.arange(70), rng)
        assert np.array_equal(drawn.probability, stated[drawn.rows])
        times[drawn.rows] += 1
    assert np.abs(times / 4000 - stated).max() < 0.04


def test_the_plan_foretells_how_exact_more_answers_make_the_audit() -> None:
    people = population(20_000)
    rng = np.random.default_rng(0)
    rows = rng.choice(20_000, 150, replace=False)
    first = audit(people["labels"], {"m": people["before"]}, answers_of(people, rows), NAMES)
    more = first.precision.needed(0.08)
    assert more is not None
    assert more > 100
    table = _table(people, rows)
    drawn = table.draw(more)
    told = answers_of(people, drawn["row"].to_numpy())
    chance = np.full(20_000, np.nan)
    chance[drawn["row"]] = drawn["draw_probability"]
    then = audit(people["labels"], {"m": people["before"]}, told, NAMES, probability=chance).views["m"]
    assert 0.055 < max(then.differences["tpr"].width, then.differences["fpr"].width) / 2 < 0.105
    assert first.precision.needed(0.5) == 0
    assert first.precision.needed(0.04) > more


def _table(people: dict[str, np.ndarray], rows: np.ndarray):
    from apod.audit.table import AuditTable

    told = answers_of(people, rows)
    return AuditTable(people["labels"], {"m": people["before"]}, told, NAMES, None, None, None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    people = population(1500)
    frame = pd.DataFrame(people["x"], columns=[f"x{i}" for i in range(6)])
    frame["hired"] = np.where(people["labels"] == 1, "yes", "no")
    frame["old"], frame["new"] = people["before"], np.where(people["after"] == 1, 0.9, 0.2)
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_draw_ask_audit_and_draw_again_from_files(file: Path, tmp_path: Path) -> None:
    truth = population(1500)["groups"]
    said = AuditColumns("hired", ("old", "new"), group_names=NAMES)
    drawn = read_audit(file, said).draw(100)
    assert len(drawn) == drawn["row"].nunique() == 100
    drawn["group"] = np.array(NAMES)[truth[drawn["row"]]]
    drawn.to_csv(tmp_path / "asked.csv", index=False)
    table = read_audit(file, said, tmp_path / "asked.csv")
    found = table.audit()
    assert (found.drawn, found.known, found.silent) == (100, 0, 0)
    assert set(found.to_dict()["predictions"]) == {"old", "new"}
    again = table.draw(40)
    assert len(again) == again["row"].nunique() == 140
    assert set(drawn["row"]) < set(again["row"])
    assert (again["group"] == "").sum() == 40
    code = population(1500)["labels"] * 4 + population(1500)["before"] * 2 + population(1500)["after"]
    for row, chance in zip(again["row"], again["draw_probability"], strict=True):
        alike = code == code[row]
        assert chance == pytest.approx(alike[again["row"]].sum() / alike.sum())


def test_the_seed_decides_the_draw(file: Path) -> None:
    said = AuditColumns("hired", ("old",), group_names=NAMES)
    one, same, other = (read_audit(file, said, seed=seed).draw(30) for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "hire"}, "did you mean 'hired'"),
        ({"predictions": ("x0",)}, "neither 0/1 nor probabilities"),
        ({"predictions": ("old", "old")}, "two different ones"),
        ({"group_names": None}, "name the groups"),
        ({"proxies": {"a": "x0"}}, "between 0 and 1"),
        ({"proxies": {"z": "new"}}, "of two groups one will do"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_a_line(file: Path, changes: dict, message: str) -> None:
    said = AuditColumns(**({"label": "hired", "predictions": ("old",), "group_names": NAMES} | changes))
    with pytest.raises(ApodError, match=message):
        read_audit(file, said).audit()


def test_answers_of_a_strange_group_are_refused_without_naming_it(file: Path, tmp_path: Path) -> None:
    pd.DataFrame({"row": [3, 4], "group": ["a", "secret"]}).to_csv(tmp_path / "asked.csv", index=False)
    with pytest.raises(InputError, match="1 answers name none of the groups") as caught:
        read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES), tmp_path / "asked.csv")
    assert "secret" not in str(caught.value)


@pytest.fixture
def asked(file: Path, tmp_path: Path) -> Path:
    """People drawn and answered, in a file."""
    drawn = read_audit(file, AuditColumns("hired", ("old",), group_names=NAMES)).draw(20)
    drawn["group"] = np.array(NAMES)[population(1500)["groups"][drawn["row"]]]
    drawn.to_csv(tmp_path / "asked.csv", index=False)
    return tmp_path / "asked.csv"


def run_audit(file: Path, *more: object) -> Result:
    arguments = [file, "--label", "hired", "--prediction", "old", "--groups", ",".join(NAMES), *more]
    return CliRunner().invoke(build_app(), ["audit", *map(str, arguments)])


def test_groups_that_are_formulas_to_a_spreadsheet_are_written_as_text_and_read_back(
    file: Path, tmp_path: Path
) -> None:
    names = ("=1+1", "@b")
    said = AuditColumns("hired", ("old",), group_names=names)
    truth = np.array(names)[population(1500)["groups"]]
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    drawn = read_audit(file, said).draw(20)
    drawn.assign(group=truth[drawn["row"]]).to_csv(first, index=False)
    command = [file, "--label", "hired", "--prediction", "old", "--groups", ",".join(names), "--answers", first]
    written = CliRunner().invoke(build_app(), ["audit", *map(str, [*command, "--draw", 5, "--out", second])])
    assert written.exit_code == 0
    with second.open(newline="") as opened:
        cells = [cell for line in csv.reader(opened) for cell in line]
    assert not [cell for cell in cells if cell[:1] in "=@" and cell]
    assert {"'=1+1", "'@b"} <= set(cells)
    again = read_audit(file, said, second)
    rows = drawn["row"].to_numpy()
    assert [names[code] for code in again.groups[rows]] == truth[rows].tolist()
    assert (again.groups >= 0).sum() == 20


def test_a_draw_never_overwrites_answers(file: Path, asked: Path) -> None:
    before = asked.read_bytes()
    done = run_audit(file, "--draw", 10, "--out", asked)
    assert isinstance(done.exception, InputError)
    assert "pass it as --answers, or choose another --out" in str(done.exception)
    assert asked.read_bytes() == before
    assert run_audit(file, "--draw", 10, "--answers", asked, "--out", asked).exit_code == 0
    answers, after = pd.read_csv(BytesIO(before)), pd.read_csv(asked)
    assert len(after) == 30
    kept = answers.merge(after, on=["row", "group"])
    assert len(kept) == 20
    assert asked.stat().st_mode & 0o777 == 0o600


def test_a_draw_keeps_answers_of_people_who_were_not_drawn(file: Path, asked: Path) -> None:
    frame = pd.read_csv(asked)
    frame.loc[0, "draw_probability"] = np.nan  # known, but not by a draw: the next draw does not list them
    frame.to_csv(asked, index=False)
    before = asked.read_bytes()
    done = run_audit(file, "--draw", 10, "--answers", asked, "--out", asked)
    assert "1 answers that would be lost" in str(done.exception)
    assert asked.read_bytes() == before


def test_a_draw_overwrites_a_list_nobody_answered_and_no_other_file(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.csv"
    for _ in range(2):
        assert run_audit(file, "--draw", 10, "--out", out).exit_code == 0
    before = file.read_bytes()
    assert "no list of people to ask" in str(run_audit(file, "--draw", 10, "--out", file).exception)
    assert file.read_bytes() == before


@pytest.mark.parametrize("wrong", [("--draw", -5), ("--within", -1), ("--within", 0), ("--within", "nan")])
def test_numbers_that_mean_nothing_are_refused(file: Path, asked: Path, wrong: tuple, tmp_path: Path) -> None:
    done = run_audit(file, "--answers", asked, "--out", tmp_path / "more.csv", *wrong)
    assert isinstance(done.exception, ApodError)
    assert str(wrong[1]) in str(done.exception)
    assert done.stdout == ""
    assert not (tmp_path / "more.csv").exists()


def test_a_plan_never_asks_more_people_than_are_left() -> None:
    assert "about 300 more" in plan_text(295, 0.05, 400)
    assert "about 297 more" in plan_text(295, 0.05, 297)
