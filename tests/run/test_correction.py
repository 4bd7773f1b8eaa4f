"""`apod run` by default: a model is kept and corrected, from answers alone, recorded, resumable, behind the wall."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from apod import APODClassifier
from apod.data import UNKNOWN, Dataset, blocks, make_example, split_rows
from apod.data.embeddings import load_embedded
from apod.data.own import FileColumns, load_file
from apod.errors import CheckpointError, InputError
from apod.evidence.sources import Stated, evidence_of_run
from apod.fairness.metrics import evaluate
from apod.method.algorithm1 import Question
from apod.method.selection import Choice
from apod.method.settings import Settings
from apod.report import render_report
from apod.run import Listener, Outcome, approach, run_experiment
from apod.run.checkpoint import Checkpoint, Sizes
from apod.run.correction import CorrectionOfModel
from apod.run.files import write_outcome
from apod.run.record import VERIFYING

BUDGET = 16
SETTINGS = Settings(caution=0.0, questions_per_round=4)  # without caution a correction is applied


@pytest.fixture(scope="module")
def people() -> Dataset:
    return make_example(n=900, seed=3)


@pytest.fixture(scope="module")
def outcome(people: Dataset) -> Outcome:
    return run_experiment(people, SETTINGS, seed=1, budget=BUDGET)


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what a clock wrote into it."""
    rounds = [{k: v for k, v in entry.items() if k != "seconds"} for entry in result["rounds"]]
    return {k: v for k, v in result.items() if k not in ("timing", "made_at")} | {"rounds": rounds}


class Interrupted(Listener):
    """Stops the run in the middle, as Ctrl-C would."""

    def round(self, entry: dict[str, Any], answers: list[dict[str, Any]], budget: int) -> None:
        if entry["round"] == 1:
            raise KeyboardInterrupt


def decisions(outcome: Outcome, strength: float) -> np.ndarray:
    """Decisions on the test part by the corrected model itself."""
    approach = outcome.approach
    rows = approach.dataset.features.iloc[approach.split.test]
    model = approach.corrected.at(strength)
    return model.decisions(model.score_people(rows))[0] == 1


def test_every_number_follows_from_the_corrected_model_and_the_test_part(outcome: Outcome, people: Dataset) -> None:
    rows = outcome.approach.split.test
    assert 5 <= len(outcome.result["tradeoff"]) <= 10
    for entry in (outcome.result["vanilla"], *outcome.result["tradeoff"]):
        predicted = decisions(outcome, entry["strength"])
        truth = evaluate(people.labels[rows], predicted, people.groups[rows], people.group_names).to_dict()
        assert {name: entry[name] for name in truth} == truth
    assert outcome.result["selected"] in outcome.result["tradeoff"]
    assert outcome.result["changes"]["total"] == int(
        (decisions(outcome, 0) != decisions(outcome, outcome.result["selected"]["strength"])).sum()
    )


def test_strength_0_is_the_base_model_by_name_accuracy_and_decision(outcome: Outcome, people: Dataset) -> None:
    model, rows = outcome.result["model"], outcome.approach.split.test
    assert model["name"] in model["cross_validated_accuracies"]
    own = outcome.approach.fitted.model.estimator.predict_proba(people.features.iloc[rows])[:, 1] > 0.5
    assert outcome.result["vanilla"]["accuracy"] == pytest.approx((own == people.labels[rows]).mean())
    assert model["threshold"] == 0.5


def test_what_the_answers_say_of_the_gap_has_one_form_at_the_end_and_in_every_round(outcome: Outcome) -> None:
    result = outcome.result
    assert result["rounds"][-1]["estimate"] == result["estimate"]
    for entry in result["rounds"]:
        for which in ("base", "selected"):
            low, high = entry["estimate"][which]["interval"]
            assert 0 <= low <= entry["estimate"][which]["gap"] <= high
    assert result["vanilla"]["expected"] == result["estimate"]["base"]
    selected = result["selected"]["expected"]
    assert {name: selected[name] for name in ("gap", "interval")} == result["estimate"]["selected"]
    assert result["correction"]["applied"]
    assert result["correction"]["fall"] == selected["fall"]
    assert result["rounds"][-1]["choice"]["strength"] == result["selected"]["strength"]
    assert result["bound"] is None


def test_groups_nobody_asked_for_change_nothing_but_the_measurement(outcome: Outcome, people: Dataset) -> None:
    asked = sorted(row for answers in outcome.approach.mitigation.answers for row in answers.rows)
    read = outcome.approach.split.train[asked]
    scrambled = np.where(np.isin(np.arange(len(people)), read), people.groups, 1 - people.groups)
    second = run_experiment(replace(people, groups=scrambled), SETTINGS, seed=1, budget=BUDGET)
    first, other = outcome.result, second.result
    for name in ("answers", "model", "correction", "estimate", "selected_because"):
        assert other[name] == first[name]
    assert (second.finished.decided == outcome.finished.decided).all()
    assert second.finished.selected == outcome.finished.selected
    assert [entry["strength"] for entry in other["tradeoff"]] == [entry["strength"] for entry in first["tradeoff"]]
    assert other["vanilla"]["delta_eo"] == -first["vanilla"]["delta_eo"] != 0  # only the report notices


def test_an_interrupted_run_resumes_to_the_same_bits_and_asks_nothing_twice(
    outcome: Outcome, people: Dataset, tmp_path: Path
) -> None:
    told = {"seed": 1, "budget": BUDGET, "checkpoint": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, SETTINGS, **told, listener=Interrupted())
    before = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]  # the answers are the state
    resumed = run_experiment(people, SETTINGS, **told, resume=True)
    assert comparable(resumed.result) == comparable(outcome.result)
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert lines[: len(before)] == before
    assert len(lines) == 1 + BUDGET


def test_a_run_of_another_version_is_refused_in_one_line(people: Dataset, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, SETTINGS, budget=BUDGET, checkpoint=tmp_path, listener=Interrupted())
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    begun = json.loads(lines[0])
    del begun["schema"]  # as version 1 wrote it
    (tmp_path / "answers.jsonl").write_text("\n".join([json.dumps(begun), *lines[1:]]) + "\n")
    with pytest.raises(CheckpointError, match=r"another version of apod.*without --resume") as refused:
        run_experiment(people, SETTINGS, budget=BUDGET, checkpoint=tmp_path, resume=True)
    assert "\n" not in str(refused.value)


def test_without_evidence_the_base_model_is_kept_and_the_result_says_why(people: Dataset) -> None:
    result = run_experiment(people, replace(SETTINGS, caution=50.0), seed=1, budget=BUDGET).result
    assert result["selected"] == result["vanilla"]
    assert result["changes"]["total"] == 0
    assert not result["correction"]["applied"]
    assert "base model is kept" in result["selected_because"]
    assert result["estimate"]["base"] == result["estimate"]["selected"]


def test_nobody_who_can_be_told_leaves_the_base_model(people: Dataset, tmp_path: Path) -> None:
    outcome = run_experiment(people, SETTINGS, seed=1, budget=8, annotator=lambda row: None)
    result = outcome.result
    assert result["estimate"] is None
    assert result["correction"] is None
    assert result["tradeoff"] == []
    assert "nobody's group is known" in result["selected_because"]
    assert write_outcome(outcome, tmp_path).exists()


def test_the_classifier_in_the_folder_decides_as_the_report_says(
    outcome: Outcome, people: Dataset, tmp_path: Path
) -> None:
    write_outcome(outcome, tmp_path)
    assert json.loads((tmp_path / "result.json").read_text())["classifier"] == "classifier.apod"
    file = tmp_path / "classifier.apod"
    assert file.stat().st_mode & 0o077 == 0
    loaded = APODClassifier.load(file)
    test = outcome.approach.split.test
    assert loaded.selected_strength_ == outcome.result["selected"]["strength"]
    decided = loaded.predict(people.features.iloc[test])
    assert (decided == outcome.finished.decided[outcome.finished.selected]).all()
    assert (loaded.at(0).predict(people.features.iloc[test]) == outcome.finished.decided[0]).all()


def with_score(people: Dataset, column: str = "model_score") -> Dataset:
    """The people with the scores of a model that was trained elsewhere."""
    train = split_rows(people.key, len(people), people.task.split, 1).train
    model = LogisticRegression().fit(people.features.iloc[train], people.labels[train])
    scores = model.predict_proba(people.features)[:, 1]
    return replace(people, features=people.features.assign(**{column: scores}))


def test_a_column_of_scores_is_the_model_and_nobody_else_reads_it(people: Dataset, tmp_path: Path) -> None:
    scored = with_score(people)
    outcome = run_experiment(scored, SETTINGS, seed=1, budget=BUDGET, score="model_score")
    result, test = outcome.result, outcome.approach.split.test
    own = scored.features["model_score"].to_numpy()[test] > 0.5
    assert result["vanilla"]["accuracy"] == pytest.approx((own == people.labels[test]).mean())
    assert result["model"]["kind"] == "scores"
    assert result["model"]["score"] == "model_score"
    assert "model_score" not in result["data"]["features"]
    reads = outcome.approach.pool.scored.encoder
    assert reads.transform(people.features).shape[1] == outcome.approach.pool.people.inputs.shape[1]
    assert "--score model_score" in write_outcome(outcome, tmp_path).read_text()
    loaded = APODClassifier.load(tmp_path / "classifier.apod")
    decided = loaded.predict(scored.features.iloc[test])
    assert (decided == outcome.finished.decided[outcome.finished.selected]).all()


def test_the_threshold_is_the_users(people: Dataset) -> None:
    settings = replace(SETTINGS, threshold=0.3)
    outcome = run_experiment(with_score(people), settings, seed=1, budget=BUDGET, score="model_score")
    test = outcome.approach.split.test
    own = with_score(people).features["model_score"].to_numpy()[test] > 0.3
    assert (outcome.finished.decided[0] == own).all()


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no such column": ({}, {"score": "modle"}, "no column 'modle'"),
    "outside": ({"model_score": 1.5}, {"score": "model_score"}, r"outside \[0, 1\], first in row 0"),
    "not a number": ({"model_score": np.nan}, {"score": "model_score"}, "no finite score in 900 row"),
    "text": ({"model_score": "high"}, {"score": "model_score"}, "not a number"),
    "heads": ({}, {"score": "model_score", "settings": Settings(body="contrastive", selector="typical")}, "leave"),
    "threshold": ({}, {"settings": Settings(threshold=1.5)}, "between 0 and 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_scores_and_thresholds_are_one_line_before_anything_is_written(
    people: Dataset, tmp_path: Path, case: str
) -> None:
    column, told, message = BAD[case]
    bad = replace(people, features=people.features.assign(**column))
    settings = told.get("settings", SETTINGS)
    with pytest.raises(InputError, match=message) as refused:
        run_experiment(bad, settings, budget=BUDGET, checkpoint=tmp_path / "c", score=told.get("score"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "c").exists()


def test_embeddings_are_read_by_logistic_regression(people: Dataset) -> None:
    embedded = replace(people, embedded=True)
    assert set(CorrectionOfModel(embedded, SETTINGS, 0).fitted.accuracies) == {"logistic regression"}


def test_missing_cells_and_missing_records_are_welcome(people: Dataset) -> None:
    features = people.features.copy()
    features.iloc[::7, 0] = np.nan
    groups = np.where(np.arange(len(people)) % 5 == 0, UNKNOWN, people.groups)
    result = run_experiment(replace(people, features=features, groups=groups), SETTINGS, budget=BUDGET).result
    assert any("no recorded group" in note for note in result["notes"])
    assert result["selected"]["excluded"] > 0


def test_three_groups_and_an_audit_share_run_end_to_end(tmp_path: Path) -> None:
    people = make_example(n=600, n_groups=3, seed=4)
    outcome = run_experiment(people, SETTINGS, budget=50, audit_share=0.8)
    assert outcome.result["audit"]["answers"]["drawn"] == 40
    assert set(outcome.result["selected"]["groups"]) == set(people.group_names)
    assert {entry["group"] for entry in outcome.result["correction"]["direction"]} == set(people.group_names)
    assert write_outcome(outcome, tmp_path).exists()


@pytest.mark.parametrize("selector", ["cell", "typical", "apod", "random"])
def test_every_way_of_asking_spends_the_budget(people: Dataset, selector: str) -> None:
    result = run_experiment(people, replace(SETTINGS, selector=selector), seed=1, budget=BUDGET).result
    assert len({answer["row"] for answer in result["answers"]}) == BUDGET
    assert all(isinstance(answer["reason"]["rule"], str) for answer in result["answers"])
    assert isinstance(pd.DataFrame(result["answers"])["probability"].max(), float)


def test_asking_ends_where_the_rest_of_the_budget_is_expected_to_gain_less(people: Dataset) -> None:
    settings = replace(SETTINGS, least_gain=1.0)
    result = run_experiment(people, settings, seed=1, budget=BUDGET).result
    assert len(result["answers"]) < BUDGET
    (note,) = [note for note in result["notes"] if note.startswith("Asking ended after")]
    assert f"of {BUDGET} answers" in note
    assert result["outlook"]["answers"] == BUDGET
    assert 0 <= result["outlook"]["gain"] < 1.0
    whole = run_experiment(people, replace(SETTINGS, least_gain=1e-12), seed=1, budget=BUDGET).result
    assert len(whole["answers"]) == BUDGET
    assert whole["outlook"]["gain"] == 0


def test_large_budgets_are_asked_for_in_batches(people: Dataset) -> None:
    result = run_experiment(people, replace(SETTINGS, questions_per_round=100), seed=1, budget=200).result
    assert len({answer["row"] for answer in result["answers"]}) == 200
    assert [entry["answered"] for entry in result["rounds"]] == [8, 108, 200]


def verified(people: Dataset, **told: Any) -> dict[str, Any]:
    settings = replace(SETTINGS, questions_per_round=10)
    return run_experiment(people, settings, seed=2, budget=120, verify_share=0.33, **told).result


def test_a_correction_is_tried_on_fresh_answers_about_people_it_changes(people: Dataset, tmp_path: Path) -> None:
    result = verified(people, checkpoint=tmp_path)
    found = result["verification"]
    fresh = [answer for answer in result["answers"] if answer["purpose"] == "verification"]
    assert 0 < found["asked"] == len(fresh) <= 39  # .33 of 120, or as many as are changed
    assert len({answer["row"] for answer in result["answers"]}) == len(result["answers"]) == 81 + len(fresh)
    split = split_rows(people.key, len(people), people.task.split, 2)
    assert {answer["row"] for answer in fresh} <= {*split.train.tolist(), *split.validation.tolist()}
    assert found["verdict"] == "passed"
    assert found["favourable"] >= found["needed"]
    assert result["selected"]["strength"] == found["strength"] > 0
    again = verified(people, checkpoint=tmp_path, resume=True)
    assert comparable(again) == comparable(result)
    assert found["words"] in html.unescape(render_report(result))


def test_the_frozen_correction_s_hash_stands_in_the_checkpoint_before_the_first_fresh_answer(tmp_path: Path) -> None:
    saved = Checkpoint(tmp_path, "key")
    saved.start()
    saved.freeze("a")
    saved.keep(Question(VERIFYING, 0, Choice(3, {}, 0.5), "verification"), 1)
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line.get("frozen") for line in lines] == [None, "a", None]
    resumed = Checkpoint(tmp_path, "key")
    assert resumed.heard(Sizes(1, 5, 2, 2, 2)) == {(VERIFYING, 3): 1}
    resumed.freeze("a")
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 3
    with pytest.raises(CheckpointError, match="not the one that was frozen"):
        resumed.freeze("b")


def test_a_correction_that_fresh_answers_contradict_is_not_applied(people: Dataset) -> None:
    asked: list[int] = []

    def turns_round(row: int) -> str:
        """Tells the truth while the correction is chosen, and the opposite when it is tried."""
        asked.append(row)
        group = int(people.groups[row])
        return people.group_names[group if len(asked) <= 81 else 1 - group]

    result = verified(people, annotator=turns_round)
    assert result["verification"]["verdict"] == "failed"
    assert result["selected"] == result["vanilla"]
    assert "did not pass" in result["selected_because"]


def test_without_a_correction_nothing_is_verified_and_the_answers_are_saved(people: Dataset) -> None:
    result = run_experiment(people, replace(SETTINGS, caution=50.0), seed=1, budget=24, verify_share=0.33).result
    assert result["verification"] is None
    assert len(result["answers"]) == 24 - 7
    assert any("7 answers were not asked for" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("settings", "share", "message"),
    [(SETTINGS, 0.5, "0 to 0.33"), (Settings(body="contrastive", selector="typical"), 0.2, "correction of a model")],
)
def test_a_share_to_verify_by_that_cannot_be_is_one_line(
    people: Dataset, settings: Settings, share: float, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run_experiment(people, settings, budget=BUDGET, verify_share=share)


@pytest.fixture
def large(people: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """The people as a matrix on disk, of which a run takes but a few."""
    monkeypatch.setattr(blocks, "LARGE", 500)
    monkeypatch.setattr(approach, "LARGE_PARTS", (120, 80, 100))
    np.save(tmp_path / "m.npy", people.features.to_numpy(dtype=np.float32))
    np.save(tmp_path / "y.npy", people.labels)
    np.save(tmp_path / "g.npy", np.array(people.group_names)[people.groups])
    beside = FileColumns(str(tmp_path / "y.npy"), sensitive=str(tmp_path / "g.npy"))
    return load_embedded(tmp_path / "m.npy", beside)


def test_of_a_large_matrix_on_disk_a_few_are_drawn_and_the_classifier_decides_about_all(
    large: Dataset, tmp_path: Path
) -> None:
    outcome = run_experiment(large, SETTINGS, seed=1, budget=BUDGET)
    result, whole = outcome.result, split_rows(large.key, len(large), large.task.split, 1)
    assert (result["n_train"], result["n_validation"], result["n_test"]) == (120, 80, 100)
    split = outcome.approach.split
    for part in ("train", "validation", "test"):
        assert np.isin(getattr(split, part), getattr(whole, part)).all()
    assert {answer["row"] for answer in result["answers"]} <= set(split.train.tolist())
    assert any("drawn at random to train on" in note for note in result["notes"])
    write_outcome(outcome, tmp_path / "out")
    loaded = APODClassifier.load(tmp_path / "out" / "classifier.apod")
    assert len(loaded.predict(np.load(tmp_path / "m.npy"))) == len(large)


def test_groups_that_are_handed_in_stay_in_the_training_part_of_a_large_pool(large: Dataset) -> None:
    train = split_rows(large.key, len(large), large.task.split, 1).train
    known = np.full(len(large), UNKNOWN)
    known[train[::3]] = large.groups[train[::3]]
    outcome = run_experiment(replace(large, known=known), SETTINGS, seed=1, budget=0)
    assert outcome.result["known_groups"] == len(train[::3])


def test_a_weighted_run_reports_the_rates_of_the_people_that_rows_stand_for(people: Dataset) -> None:
    weights = 0.5 + (np.arange(len(people)) % 5) * (1 + people.groups)
    weighted = replace(people, weights=weights, weight="w")
    found = run_experiment(weighted, SETTINGS, seed=1, budget=BUDGET)
    test, decided = found.approach.split.test, found.finished.decided[found.finished.selected]
    labels, groups, own = people.labels[test], people.groups[test], weights[test]
    for code, name in enumerate(people.group_names):
        inside = (groups == code) & (labels == 1)
        rate = float(np.average(decided[inside], weights=own[inside]))
        shown = found.result["selected"]["groups"][name]
        assert shown["tpr"] == pytest.approx(rate, abs=1e-12)
        assert shown["n"] == int((groups == code).sum())
    assert found.result["selected"]["accuracy"] == pytest.approx(np.average(decided == labels, weights=own))
    assert found.result["data"]["weight"] == "w"
    assert "weighted by &#39;w&#39;" in render_report(found.result)
    with pytest.raises(InputError, match="Evidence is recomputed from counts of people"):
        evidence_of_run(found.result, Stated(), {})
    with pytest.raises(InputError, match="Weights are for a corrected model"):
        run_experiment(weighted, replace(SETTINGS, body="contrastive", selector="typical"), seed=1, budget=BUDGET)


def test_a_column_of_weights_is_read_and_no_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(12), "hired": [0, 1] * 6, "g": ["a", "b", "b"] * 4, "w": ["1", "2,5", "0"] * 4})
    said = FileColumns("hired", "g", weight="w")
    frame.to_csv(tmp_path / "people.csv", index=False, sep=";")
    found = load_file(tmp_path / "people.csv", said)
    assert found.weights is not None
    assert found.weights[:3].tolist() == [1.0, 2.5, 0.0]
    assert list(found.features.columns) == ["x"]
    assert found.take(np.array([1])).weights == [2.5]
    for bad, message in (("-1", "4 negative weights"), ("", "4 missing or infinite weights"), ("much", "no number")):
        frame.assign(w=["1", bad, "2"] * 4).to_csv(tmp_path / "people.csv", index=False, sep=";")
        with pytest.raises(InputError, match=message):
            load_file(tmp_path / "people.csv", said)


def test_a_selection_rate_sets_the_threshold_and_the_correction_keeps_it(people: Dataset) -> None:
    found = run_experiment(people, replace(SETTINGS, selection_rate=0.25), seed=1, budget=BUDGET)
    curve = found.result["thresholds"]
    assert curve is not None
    assert curve["in_use"] == found.result["model"]["threshold"] != 0.5
    base, after = found.finished.decided[[0, found.finished.selected]]
    assert base.mean() == pytest.approx(0.25, abs=0.06)  # of people whom the threshold was not chosen on
    assert found.result["selected"]["strength"] > 0
    assert after.mean() == pytest.approx(base.mean(), abs=0.03)
    at = [next(p for p in curve[key] if p["threshold"] == curve["in_use"]) for key in ("base", "selected")]
    assert [p["gap"] for p in at] == [found.result["vanilla"]["gap"], found.result["selected"]["gap"]]
    assert [p["selection_rate"] for p in at] == pytest.approx([base.mean(), after.mean()])
    test = found.approach.split.test
    for point in curve["base"][::10]:
        decided = found.approach.pool.scored.model.margin(people.features.iloc[test]) > point["threshold"]
        exact = evaluate(people.labels[test], decided, people.groups[test], people.group_names, warn=False)
        assert point["gap"] == pytest.approx(exact.gap, nan_ok=True)
        assert point["accuracy"] == pytest.approx(exact.accuracy)
    assert "The gap at other thresholds" in render_report(found.result)


def test_a_number_to_invite_is_a_share_of_the_table(people: Dataset) -> None:
    share = CorrectionOfModel(people, replace(SETTINGS, selection_rate=0.2), 1)
    invited = CorrectionOfModel(people, replace(SETTINGS, selection_rate=180), 1)
    assert len(people) == 900
    assert share.fitted.model.threshold == invited.fitted.model.threshold
    with pytest.raises(InputError, match="select fewer than all"):
        CorrectionOfModel(people, replace(SETTINGS, selection_rate=900), 1)
