"""A run about several attributes: what it asks, reports and refuses; its classifier; resuming."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from apod import APODClassifier
from apod.classifier.groups import SeveralAttributesWarning
from apod.data.dataset import UNKNOWN, Dataset, Grouping
from apod.errors import ApodError, InputError
from apod.evidence.sources import Stated, evidence_of_run
from apod.method.settings import settings_from
from apod.report.attributes import attribute_sections
from apod.report.run_page import render_report
from apod.run import run_experiment
from apod.run.attributes import about, crossed, left_out
from apod.run.experiment import Outcome
from apod.run.files import write_outcome

SETTINGS = settings_from({"questions_per_round": 6})
CROSSED = replace(SETTINGS, over_groups="intersections")


def _people(n: int = 1500) -> Dataset:
    rng = np.random.default_rng(0)
    sex, race = rng.integers(0, 2, n), (rng.random(n) < 0.4).astype(np.int64) + (rng.random(n) < 0.05)
    labels = (rng.random(n) < 0.3 + 0.2 * sex).astype(np.int64)
    features = pd.DataFrame(
        {
            "merit": 1.2 * labels + rng.standard_normal(n),
            "street": 1.5 * sex + rng.standard_normal(n),
            "school": 1.5 * race + rng.standard_normal(n),
        }
    )
    return Dataset(
        name="people",
        features=features,
        labels=labels,
        groups=sex,
        group_names=("f", "m"),
        rows=np.arange(n),
        attribute="sex",
        further=(Grouping("race", ("x", "y", "z"), race),),
        own=True,
    )


@pytest.fixture(scope="module")
def people() -> Dataset:
    return _people()


@pytest.fixture(scope="module")
def outcome(people: Dataset) -> Outcome:
    return run_experiment(people, CROSSED, budget=20, seed=0)


def test_the_published_schema_accepts_several_attributes(outcome: Outcome) -> None:
    schema = json.loads((Path(__file__).resolve().parents[2] / "docs" / "result.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(outcome.result)))


def test_one_visit_tells_all_attributes_and_the_budget_counts_visits(outcome: Outcome, people: Dataset) -> None:
    result = outcome.result
    assert len(result["answers"]) == 20
    assert result["values_told"] == 40
    for answer in result["answers"]:
        row = answer["row"]
        expected = {"sex": people.group_names[people.groups[row]], "race": "xyz"[people.further[0].codes[row]]}
        assert answer["groups"] == expected
        assert answer["group"] == expected["sex"]


def test_every_attribute_and_the_intersections_are_estimated_and_measured(outcome: Outcome) -> None:
    result, estimate = outcome.result, outcome.result["estimate"]
    assert [one["name"] for one in result["attributes"]] == ["sex", "race"]
    assert estimate is not None
    assert set(estimate["attributes"]) == set(result["by_attribute"]) == {"sex", "race"}
    assert estimate["attributes"]["sex"] == {"base": estimate["base"], "selected": estimate["selected"]}
    assert estimate["intersections"] is not None
    assert result["by_attribute"]["sex"]["vanilla"]["gap"] == result["vanilla"]["gap"]
    assert next(iter(result["intersections"]["groups"])) == "f, x"


def test_gaps_on_record_are_those_of_a_count_over_the_groups_with_enough_people(
    outcome: Outcome, people: Dataset
) -> None:
    test, race = outcome.approach.split.test, people.further[0]
    labels, codes, decided = people.labels[test], race.codes[test], outcome.finished.decided[0]
    enough = [g for g in range(3) if min(((codes == g) & (labels == y)).sum() for y in (0, 1)) >= 50]
    assert enough == [0, 1]
    rates = [[decided[(codes == g) & (labels == y)].mean() for g in enough] for y in (0, 1)]
    expected = sum(max(own) - min(own) for own in rates)
    found = outcome.result["by_attribute"]["race"]
    assert found["vanilla"]["gap"] == pytest.approx(expected)
    assert found["left_out"] == ["z"]
    assert any("gap of race" in note and note.endswith("z.") for note in outcome.result["notes"])


def test_the_report_shows_all_attributes_and_says_where_people_are_too_few(outcome: Outcome) -> None:
    sections = attribute_sections(outcome.result)
    assert [one.title for one in sections] == ["sex", "race", "Intersections"]
    cells = {row[0].text: [cell.text for cell in row] for row in sections[1].table.rows}
    assert set(cells["z"][3:]) == {"too few people"}
    page = render_report(outcome.result)
    assert "Every attribute, and their intersections" in page
    assert "too few people" in page


def test_the_classifier_is_saved_and_decides_as_it_did(outcome: Outcome, people: Dataset, tmp_path: Path) -> None:
    write_outcome(outcome, tmp_path)
    loaded = APODClassifier.load(tmp_path / "classifier.apod")
    own = outcome.approach.classifier()
    rows = people.features.iloc[:200]
    np.testing.assert_array_equal(loaded.at(0.4).predict(rows), own.at(0.4).predict(rows))
    np.testing.assert_array_equal(loaded.predict_proba(rows), own.predict_proba(rows))
    assert loaded.attributes_ == {"sex": ("f", "m"), "race": ("x", "y", "z")}
    assert json.loads((tmp_path / "result.json").read_text())["attributes"][1]["name"] == "race"


def test_columns_that_explain_a_push_do_so_to_first_order(outcome: Outcome, people: Dataset) -> None:
    state = outcome.approach.classifier()._state
    own = state.people(people.features.iloc[:40])
    groups, correction = state.model.groups, state.model.correction
    members = groups.members(own.inputs)
    worth = np.einsum("nkg,kg->ng", correction.scores.of(own.eta, np.ones_like(members)), correction.direction)
    found = groups.slopes(members, worth)
    for place in range(found.shape[1]):
        weights = groups.weights.copy()
        weights[place, -1] += 1e-6
        moved = replace(groups, weights=weights).members(own.inputs)
        np.testing.assert_allclose(((moved - members) * worth).sum(axis=1) / 1e-6, found[:, place], atol=1e-4)
    explained = outcome.approach.classifier().at(0.4).explain(people.features.iloc[:40])
    assert {"push", "stands", "column_1"} <= set(explained.columns)


def test_an_interrupted_run_goes_on_as_if_nothing_had_been(people: Dataset, outcome: Outcome, tmp_path: Path) -> None:
    asked: list[int] = []

    def answer(row: int) -> list[str | None]:
        if len(asked) == 13:
            raise KeyboardInterrupt
        asked.append(row)
        return [people.group_names[people.groups[row]], "xyz"[people.further[0].codes[row]]]

    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, CROSSED, budget=20, annotator=answer, checkpoint=tmp_path)
    resumed = run_experiment(people, CROSSED, budget=20, checkpoint=tmp_path, resume=True)
    assert resumed.result["answers"] == outcome.result["answers"]
    assert resumed.result["selected"]["gap"] == outcome.result["selected"]["gap"]


def test_what_cannot_be_told_of_one_attribute_is_missing_in_it_alone(people: Dataset) -> None:
    known = people.further[0].codes.copy()
    known[::2] = UNKNOWN
    blank = replace(people, further=(replace(people.further[0], codes=known),))
    result = run_experiment(blank, SETTINGS, budget=12).result
    untold = sum(answer["groups"]["race"] is None for answer in result["answers"])
    assert untold > 0
    assert any(note.startswith(f"{untold} of 12 answers about race") for note in result["notes"])
    assert all(answer["groups"]["sex"] is not None for answer in result["answers"])


def test_a_verified_correction_names_the_groups_that_it_was_judged_by(people: Dataset) -> None:
    race = people.further[0]
    turned = replace(
        people,
        groups=race.codes,
        group_names=race.names,
        attribute=race.name,
        further=(Grouping("sex", people.group_names, people.groups),),
    )
    told = run_experiment(turned, SETTINGS, budget=120, verify_share=0.33).result["verification"]
    assert told is not None
    assert 0 < told["asked"] <= 39
    assert re.search(r"(is|are) [fm]\b", told["words"])  # the correction is for the sexes, who come second


@pytest.mark.parametrize(
    ("settings", "more", "match"),
    [
        ({"preset": "heads"}, {}, "mitigate one attribute"),
        ({"group_share": "f=.5"}, {}, "--group-share is for one attribute"),
        ({"selector": "coreset"}, {}, "asks about one attribute"),
        ({}, {"audit_share": 0.3}, "--audit-share is for one attribute"),
        ({"least_gain": 0.01}, {}, "--least-gain is for one attribute"),
    ],
)
def test_what_is_for_one_attribute_is_refused_in_a_line(
    people: Dataset, settings: dict[str, str], more: dict[str, float], match: str
) -> None:
    with pytest.raises(ApodError, match=match):
        run_experiment(people, settings_from(settings), budget=30, **more)  # type: ignore[arg-type]


def test_more_intersections_than_can_be_compared_are_refused_or_not_reported(people: Dataset) -> None:
    many = Grouping("town", tuple(f"t{i}" for i in range(20)), np.arange(len(people)) % 20)
    wide = replace(people, further=(many,))
    with pytest.raises(InputError, match="40 intersections"):
        run_experiment(wide, CROSSED, budget=30)
    assert crossed(wide.groupings) is None


def test_groups_are_left_out_while_two_remain() -> None:
    labels = np.tile([0, 1], 200)
    codes = np.repeat([0, 1, 2, 2], 100)
    codes[:10] = 1
    assert left_out(labels, codes, 3).tolist() == [0]
    assert left_out(labels[:40], codes[:40], 3).tolist() == []
    data = replace(_people(400), labels=labels)
    seen = about(data, Grouping("own", ("a", "b", "c"), codes), np.array([0]))
    assert seen.group_names == ("b", "c")
    assert set(seen.groups[codes == 0]) == {UNKNOWN}


def test_a_fit_takes_a_column_per_attribute(people: Dataset) -> None:
    s = pd.DataFrame({"sex": [None] * len(people), "race": [None] * len(people)}, dtype=object)
    rows = np.random.default_rng(1).choice(len(people), 60, replace=False)
    s.loc[rows, "sex"] = [people.group_names[people.groups[row]] for row in rows]
    s.loc[rows[:40], "race"] = ["xyz"[people.further[0].codes[row]] for row in rows[:40]]
    classifier = APODClassifier(random_state=0, over_groups="intersections")
    with pytest.warns(SeveralAttributesWarning):
        classifier.fit(people.features, people.labels, sensitive_features=s)
    assert classifier.attributes_["sex"] == ("f", "m")
    assert set(classifier.query(3)).isdisjoint(rows)
    assert classifier.predict(people.features).shape == (len(people),)
    assert "sum of the gaps" in classifier.selection_.reason or "allowed" in classifier.selection_.reason


def test_the_notes_say_what_became_of_every_gap(outcome: Outcome) -> None:
    result = outcome.result
    for name, one in {**result["by_attribute"], "intersections": result["intersections"]}.items():
        before, after = 100 * one["vanilla"]["gap"], 100 * one["selected"]["gap"]
        assert f"the gap of {name} goes from {before:.1f} to {after:.1f} points" in " ".join(result["notes"])


def test_evidence_of_several_attributes_is_refused_rather_than_cut(outcome: Outcome) -> None:
    with pytest.raises(InputError, match="Evidence speaks of one attribute, and this is about 2"):
        evidence_of_run(dict(outcome.result), Stated(), {})
