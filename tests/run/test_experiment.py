"""`apod run` from Python: the whole of Algorithm 1, recorded, resumable, behind the oracle wall."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from apod import APODClassifier
from apod.data import UNKNOWN, Dataset, load_dataset, make_example
from apod.errors import AnnotatorError, BudgetError, CheckpointError, InputError
from apod.fairness.metrics import evaluate
from apod.method.annotators import RecordedGroups
from apod.method.prepare import prepare
from apod.method.settings import PRESETS, Settings
from apod.report import render_report
from apod.run import Listener, Outcome, run_experiment
from apod.run.approach import measured
from apod.run.files import write_outcome
from support.training import paper_settings

QUICK = paper_settings(strengths=(0.2, 1.0), body_epochs=2, epochs=2)
AHEAD = replace(PRESETS["heads"], strengths=(0.2, 1.0), body_epochs=2)
BUDGET = 12


@pytest.fixture(scope="module")
def people() -> Dataset:
    example = make_example(n=800, seed=3)
    return replace(example, task=replace(example.task, embedding=8, hidden=(8,)))


@pytest.fixture(scope="module")
def outcome(people: Dataset) -> Outcome:
    return run_experiment(people, QUICK, seed=1, budget=BUDGET)


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what a clock wrote into it."""
    rounds = [{k: v for k, v in entry.items() if k != "seconds"} for entry in result["rounds"]]
    return {k: v for k, v in result.items() if k not in ("timing", "made_at")} | {"rounds": rounds}


def test_spends_the_budget_exactly_and_trains_once_more_after_the_last_answer(outcome: Outcome) -> None:
    result = outcome.result
    first = sum(answer["reason"]["rule"].startswith("first") for answer in result["answers"])
    assert len(result["answers"]) == BUDGET
    assert len(result["rounds"]) == BUDGET - first + 1
    assert result["rounds"][-1]["answered"] == BUDGET
    assert len({answer["row"] for answer in result["answers"]}) == BUDGET


@pytest.mark.parametrize("preset", ["paper", "heads"])
def test_the_classifier_in_the_folder_decides_as_the_heads_did(
    outcome: Outcome, people: Dataset, tmp_path: Path, preset: str
) -> None:
    found = outcome if preset == "paper" else run_experiment(people, AHEAD, seed=1, budget=BUDGET)
    write_outcome(replace(found, result={**found.result}), tmp_path)
    assert json.loads((tmp_path / "result.json").read_text())["classifier"] == "classifier.apod"
    loaded = APODClassifier.load(tmp_path / "classifier.apod")
    rows = people.features.iloc[found.approach.split.test]
    assert loaded.selected_strength_ == found.result["selected"]["strength"]
    for head, strength in enumerate([0.0, 0.2, 1.0]):
        assert ((loaded.at(strength).predict(rows) == 1) == found.finished.decided[head]).all()
    assert loaded.tradeoff_["round"].tolist() == [found.result["vanilla"]["round"]] + [
        point["round"] for point in found.result["tradeoff"]
    ]


def test_every_number_of_the_result_follows_from_the_kept_heads_and_the_test_part(
    outcome: Outcome, people: Dataset
) -> None:
    rows = outcome.approach.prepared.split.test
    for head, entry in enumerate([outcome.result["vanilla"], *outcome.result["tradeoff"]]):
        predicted = (outcome.approach.kept.margins(outcome.approach.prepared.embeddings[rows], [head])[0] > 0).numpy()
        truth = evaluate(people.labels[rows], predicted, people.groups[rows], people.group_names).to_dict()
        assert {name: entry[name] for name in truth} == truth
    assert outcome.result["selected"] in outcome.result["tradeoff"]


def test_what_is_equalised_is_what_is_judged_and_reported(people: Dataset) -> None:
    """With demographic parity every gap of the result, expected and measured, is that of the selection rates."""
    settings = replace(AHEAD, notion="demographic_parity")
    outcome = run_experiment(people, settings, seed=1, budget=BUDGET)
    result, mitigation = outcome.result, outcome.approach.mitigation
    assert result["notion"] == "demographic_parity"
    for entry in (result["vanilla"], *result["tradeoff"]):
        rates = [group["selection_rate"] for group in entry["groups"].values()]
        assert entry["gap"] == pytest.approx(max(rates) - min(rates), abs=1e-12)
    draws = mitigation.proxy.draws(mitigation.pool.validation_seen)[:, 0].double().numpy()
    for head, expected in enumerate(mitigation.choose(outcome.approach.kept).gap):
        decided = (outcome.approach.kept.margins(mitigation.pool.validation, [head])[0] > 0).numpy()
        gaps = [abs(np.subtract(*(decided @ member / member.sum(axis=0)))) for member in draws]
        assert expected == pytest.approx(np.mean(gaps), abs=1e-9)
    before, after = result["vanilla"]["gap"], result["selected"]["gap"]
    low, high = result["differences"]["gap"]
    assert low - 1e-9 <= after - before <= high + 1e-9
    assert "selection rate" in render_report(result)


def test_changes_count_every_flipped_decision_once(outcome: Outcome, people: Dataset) -> None:
    test = outcome.approach.prepared.test
    before, after = (outcome.approach.kept.margins(test, [0, outcome.finished.selected]) > 0).numpy()
    changes = outcome.result["changes"]
    flips = sum(group["to_positive"] + group["to_negative"] for group in changes["groups"].values())
    assert changes["total"] == flips == int((before != after).sum())


def test_answers_name_rows_of_the_file_with_their_recorded_group(outcome: Outcome, people: Dataset) -> None:
    place = {int(row): index for index, row in enumerate(people.rows)}
    train = set(outcome.approach.prepared.split.train.tolist())
    for answer in outcome.result["answers"]:
        index = place[answer["row"]]
        assert index in train
        assert answer["group"] == people.group_names[people.groups[index]]
        assert 0 < answer["probability"] <= 1
        assert answer["purpose"] == "training"


def test_result_is_plain_json(outcome: Outcome) -> None:
    assert json.loads(json.dumps(outcome.result, allow_nan=False)) == outcome.result


def test_same_seed_gives_the_same_result_to_the_last_bit(outcome: Outcome, people: Dataset) -> None:
    again = run_experiment(people, QUICK, seed=1, budget=BUDGET)
    assert comparable(again.result) == comparable(outcome.result)
    assert again.approach.mitigation.heads.parameters.equal(outcome.approach.mitigation.heads.parameters)


def test_another_seed_gives_another_result(outcome: Outcome, people: Dataset) -> None:
    other = run_experiment(people, QUICK, seed=2, budget=BUDGET)
    assert [a["row"] for a in other.result["answers"]] != [a["row"] for a in outcome.result["answers"]]


@pytest.mark.parametrize(
    "settings", [QUICK, AHEAD, replace(PRESETS["paper"], strengths=(0.2, 1.0), body_epochs=2, epochs=2)]
)
def test_groups_nobody_asked_for_change_no_question_weight_selection_or_prediction(
    people: Dataset, settings: Settings
) -> None:
    first = run_experiment(people, settings, seed=1, budget=BUDGET)
    asked = {row for answers in first.approach.mitigation.answers for row in answers.rows}
    read = first.approach.prepared.split.train[sorted(asked)]
    scrambled = np.where(np.isin(np.arange(len(people)), read), people.groups, 1 - people.groups)
    second = run_experiment(replace(people, groups=scrambled), settings, seed=1, budget=BUDGET)
    assert second.approach.mitigation.answers == first.approach.mitigation.answers
    assert second.approach.mitigation.heads.parameters.equal(first.approach.mitigation.heads.parameters)
    assert second.approach.kept.parameters.equal(first.approach.kept.parameters)
    assert second.finished.selected == first.finished.selected
    assert second.result["vanilla"]["delta_eo"] == -first.result["vanilla"]["delta_eo"] != 0  # only the report notices


def test_no_more_groups_are_read_than_the_budget_allows(people: Dataset) -> None:
    recorded = RecordedGroups(people.groups, people.group_names)
    outcome = run_experiment(people, QUICK, seed=1, budget=BUDGET, annotator=recorded)
    assert len(recorded.read) == BUDGET
    assert {int(people.rows[row]) for row in recorded.read} == {a["row"] for a in outcome.result["answers"]}


def test_the_paper_preset_spends_a_budget_per_strength(people: Dataset) -> None:
    settings = replace(PRESETS["paper"], strengths=(0.2, 2.0), body_epochs=2, epochs=2)
    result = run_experiment(people, settings, seed=1, budget=BUDGET).result
    assert {name: len(answers) for name, answers in result["trajectories"].items()} == {"0.2": BUDGET, "2.0": BUDGET}
    assert result["answers"] == result["trajectories"][str(result["selected"]["strength"])]


class Interrupted(Listener):
    """Stops the run in the middle, as Ctrl-C would."""

    def __init__(self, after: int) -> None:
        self._after = after

    def round(self, entry: dict[str, Any], answers: list[dict[str, Any]], budget: int) -> None:
        if entry["round"] == self._after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("settings", [QUICK, replace(QUICK, trajectories="per strength"), AHEAD])
def test_an_interrupted_run_resumes_to_the_same_bits_and_asks_nothing_twice(
    people: Dataset, tmp_path: Path, after: int, settings: Settings
) -> None:
    whole = run_experiment(people, settings, seed=1, budget=BUDGET)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, settings, seed=1, budget=BUDGET, checkpoint=tmp_path, listener=Interrupted(after))
    before = len((tmp_path / "answers.jsonl").read_text().splitlines()) - 1
    resumed = run_experiment(people, settings, seed=1, budget=BUDGET, checkpoint=tmp_path, resume=True)
    assert comparable(resumed.result) == comparable(whole.result)
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert before > 0
    assert len(lines) == len(set(lines)) == 1 + sum(len(answers) for answers in whole.approach.mitigation.answers)


def test_an_answer_given_before_the_interruption_is_not_asked_again(people: Dataset, tmp_path: Path) -> None:
    recorded = RecordedGroups(people.groups, people.group_names)

    def dies(row: int) -> str | None:
        if len(recorded.read) == 7:
            raise KeyboardInterrupt
        return recorded(row)

    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, annotator=dies)
    later = RecordedGroups(people.groups, people.group_names)
    run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, resume=True, annotator=later)
    assert len(recorded.read) == 7
    assert len(later.read) == BUDGET - 7
    assert not recorded.read & later.read


def test_a_torn_last_line_costs_only_that_line(people: Dataset, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, listener=Interrupted(2))
    file = tmp_path / "answers.jsonl"
    file.write_text(file.read_text()[:-4])
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, resume=True, listener=Interrupted(4))
    resumed = run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, resume=True)
    assert comparable(resumed.result) == comparable(run_experiment(people, QUICK, seed=1, budget=BUDGET).result)


def test_two_features_and_nobody_recorded_still_give_a_report(people: Dataset, tmp_path: Path) -> None:
    recorded = RecordedGroups(people.groups, people.group_names)
    unrecorded = replace(people, groups=np.full_like(people.groups, UNKNOWN))
    outcome = run_experiment(unrecorded, QUICK, seed=1, budget=BUDGET, annotator=recorded)
    assert write_outcome(outcome, tmp_path).exists()
    assert json.loads((tmp_path / "result.json").read_text())["selected"]["gap"] is None


def test_resuming_refuses_another_run_and_a_folder_without_one(people: Dataset, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no run to resume"):
        run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, resume=True)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, QUICK, seed=1, budget=BUDGET, checkpoint=tmp_path, listener=Interrupted(1))
    with pytest.raises(CheckpointError, match="other data, settings, seed or budget"):
        run_experiment(people, QUICK, seed=2, budget=BUDGET, checkpoint=tmp_path, resume=True)


def test_answers_that_cannot_be_given_cost_budget_and_are_never_asked_again(people: Dataset) -> None:
    recorded = RecordedGroups(people.groups, people.group_names)
    outcome = run_experiment(
        people, QUICK, seed=1, budget=BUDGET, annotator=lambda row: None if row % 3 == 0 else recorded(row)
    )
    told = outcome.result["answers"]
    assert len(told) == len({answer["row"] for answer in told}) == BUDGET
    assert any(answer["group"] is None for answer in told)
    assert any("could not be given" in note for note in outcome.result["notes"])


def test_groups_that_are_not_on_record_are_left_out_and_counted(people: Dataset) -> None:
    groups = people.groups.copy()
    groups[::5] = UNKNOWN
    result = run_experiment(replace(people, groups=groups), QUICK, seed=1, budget=BUDGET).result
    test_rows = result["n_test"]
    counted = sum(group["n"] for group in result["selected"]["groups"].values())
    assert result["selected"]["excluded"] == test_rows - counted > 0


def test_three_groups_run_end_to_end() -> None:
    example = make_example(n=900, n_groups=3, seed=4)
    people = replace(example, task=replace(example.task, embedding=8, hidden=(8,)))
    result = run_experiment(people, QUICK, seed=0, budget=15).result
    assert result["selected"]["delta_eo"] is None
    assert set(result["selected"]["groups"]) == set(people.group_names)


def test_a_batch_of_questions_per_round_spends_the_same_budget(people: Dataset) -> None:
    result = run_experiment(people, replace(QUICK, questions_per_round=4), seed=1, budget=BUDGET).result
    assert [entry["answered"] for entry in result["rounds"]][-1] == BUDGET
    assert len(result["rounds"]) < BUDGET // 2


@pytest.mark.parametrize(
    ("budget", "message"),
    [(100000, "more than the"), (1, "less than one per group"), (0, "must be positive"), (2.5, "whole number")],
)
def test_impossible_budgets_are_refused(people: Dataset, budget: float, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        run_experiment(people, QUICK, budget=budget)


def test_a_budget_below_one_is_a_share_of_the_training_part(people: Dataset) -> None:
    result = run_experiment(people, QUICK, seed=1, budget=0.05).result
    assert result["budget"] == int(0.05 * result["n_train"]) == len(result["answers"])


def test_an_annotator_that_fails_or_invents_a_group_is_named_without_telling_what_it_said(people: Dataset) -> None:
    def fails(row: int) -> str:
        raise RuntimeError("secretgroup")

    with pytest.raises(AnnotatorError, match="RuntimeError on row") as failed:
        run_experiment(people, QUICK, budget=BUDGET, annotator=fails)
    with pytest.raises(AnnotatorError, match="none of the groups") as invented:
        run_experiment(people, QUICK, budget=BUDGET, annotator=lambda row: "secretgroup")
    assert "secretgroup" not in str(failed.value) + str(invented.value)


def test_one_group_only_is_refused(people: Dataset) -> None:
    alone = replace(people, groups=np.zeros_like(people.groups), group_names=("all",))
    with pytest.raises(InputError, match="only one group"):
        run_experiment(alone, QUICK, budget=BUDGET)


def test_without_recorded_groups_somebody_must_answer(people: Dataset) -> None:
    with pytest.raises(InputError, match="no recorded groups"):
        run_experiment(replace(people, groups=np.full_like(people.groups, UNKNOWN)), QUICK, budget=BUDGET)


def test_the_name_of_an_own_file_changes_nothing(people: Dataset, tmp_path: Path) -> None:
    results = []
    for name in ("people.csv", "renamed.csv"):
        frame = people.features.assign(hired=people.labels, group=[people.group_names[g] for g in people.groups])
        frame.to_csv(tmp_path / name, index=False)
        own = load_dataset(tmp_path / name, label="hired", sensitive="group")
        results.append(comparable(run_experiment(own, QUICK, seed=1, budget=BUDGET).result))
    assert results[0] | {"dataset": ""} == results[1] | {"dataset": ""}


def test_nobody_who_can_be_told_still_gives_a_result(people: Dataset, tmp_path: Path) -> None:
    outcome = run_experiment(people, QUICK, seed=1, budget=6, annotator=lambda row: None)
    assert write_outcome(outcome, tmp_path).exists()
    assert any("could not be given" in note for note in json.loads((tmp_path / "result.json").read_text())["notes"])


def test_equal_heads_have_equal_intervals(outcome: Outcome) -> None:
    first, second = measured(outcome.approach, 1).metrics(outcome.finished.decided[[1, 1]])
    assert first == second


def test_an_audit_share_asks_random_test_people_and_stands_beside_the_records(tmp_path: Path) -> None:
    people = make_example(800, seed=1)
    told = paper_settings(strengths=(0.1, 1.0), body_epochs=1, epochs=1, questions_per_round=3)
    outcome = run_experiment(people, told, budget=100, audit_share=0.8, checkpoint=tmp_path / "c")
    found = outcome.result["audit"]
    assert found["answers"]["drawn"] == 80
    assert len(outcome.result["answers"]) == 20
    for view, metrics in (("before", "vanilla"), ("after", "selected")):
        for name, rates in found["predictions"][view]["groups"].items():
            assert (
                rates["tpr"]["low"] - 0.03
                <= outcome.result[metrics]["groups"][name]["tpr"]
                <= rates["tpr"]["high"] + 0.03
            )
    again = run_experiment(people, told, budget=100, audit_share=0.8, checkpoint=tmp_path / "c", resume=True)
    assert again.result["audit"] == found
    assert "What can be said without records" in render_report(outcome.result)


def test_a_rate_of_0_or_1_has_an_interval_of_positive_width_and_so_has_the_gap() -> None:
    people = make_example(600, seed=1)
    told = Settings(
        body="contrastive", selector="typical", strengths=(0.1,), body_epochs=1, epochs=1, questions_per_round=3
    )
    prepared = prepare(people, told, 0)
    outcome = run_experiment(people, told, budget=9, prepared=prepared)
    test = prepared.split.test
    lone = np.full(len(people), 0)
    lone[test[np.flatnonzero(people.labels[test] == 1)[:3]]] = 1  # a group of three, all of label 1 ...
    lone[test[np.flatnonzero(people.labels[test] == 0)[:2]]] = 1  # ... and two of label 0
    few = replace(measured(outcome.approach, 0), dataset=replace(people, groups=lone))
    found = few.metrics(outcome.finished.decided)[0]
    group = people.group_names[1]
    for rate, size in (("tpr", 3), ("fpr", 2)):
        value, (low, high) = found["groups"][group][rate], found["intervals"]["groups"][group][rate]
        assert low <= value <= high
        if value in (0, 1):  # Jeffreys: Beta(x + 1/2, n - x + 1/2), one end at the value
            edge = stats.beta.ppf(0.975 if value == 0 else 0.025, size * value + 0.5, size * (1 - value) + 0.5)
            assert (high if value == 0 else low) == pytest.approx(edge)
            assert high - low > 0.5
    low, high = found["intervals"]["gap"]
    assert low <= found["gap"] <= high
    assert high - low > 0.4


def test_the_audit_changes_no_question_and_no_head(tmp_path: Path) -> None:
    people = make_example(800, seed=1)
    told = paper_settings(strengths=(0.1, 1.0), body_epochs=1, epochs=1, questions_per_round=3)
    plain = run_experiment(people, told, budget=12)
    audited = run_experiment(people, told, budget=24, audit_share=0.5)
    assert [a["row"] for a in plain.result["answers"]] == [a["row"] for a in audited.result["answers"]]
    assert torch.equal(plain.approach.kept.parameters, audited.approach.kept.parameters)
    with pytest.raises(InputError, match="audit share"):
        run_experiment(people, told, budget=12, audit_share=1.0)


def test_a_run_ends_where_the_rest_of_the_budget_is_not_worth_asking_for(people: Dataset, tmp_path: Path) -> None:
    outcome = run_experiment(people, AHEAD, seed=3, budget=30)
    whole, gains = outcome.result, [choice["outlook"]["gain"] for choice in outcome.approach.choices]
    most = max(gain for gain in gains if gain is not None)
    assert len(whole["answers"]) == 30
    least = most / 2
    first = next(place for place, gain in enumerate(gains) if gain is not None and 0 <= gain < least)
    assert 0 < first < len(gains) - 1
    settings = replace(AHEAD, least_gain=least)
    ended = run_experiment(people, settings, seed=3, budget=30, checkpoint=tmp_path).result
    assert len(ended["answers"]) == whole["rounds"][first]["answered"] < 30
    assert ended["answers"] == whole["answers"][: len(ended["answers"])]
    assert any(note.startswith(f"Asking ended after {len(ended['answers'])} of 30") for note in ended["notes"])
    again = run_experiment(people, settings, seed=3, budget=30, checkpoint=tmp_path, resume=True).result
    assert comparable(again) == comparable(ended)


def test_a_head_of_an_earlier_round_can_be_chosen_is_what_is_reported_and_survives_an_interruption(
    tmp_path: Path,
) -> None:
    people, settings = make_example(2500), replace(PRESETS["heads"], body_epochs=5)
    outcome = run_experiment(people, settings, seed=0, budget=20)
    result, last = outcome.result, len(outcome.result["rounds"]) - 1
    assert result["selected"]["round"] < last
    for entry in result["rounds"]:
        choice = entry["choice"]
        curve = result["rounds"][choice["round"]]["curve"]
        point = next(one for one in curve if one["strength"] == choice["strength"])
        assert choice["round"] <= entry["round"]
        assert choice["test"] == {name: point[name] for name in ("accuracy", "balanced_accuracy", "gap")}
    choice = result["rounds"][-1]["choice"]
    assert (choice["strength"], choice["round"]) == (result["selected"]["strength"], result["selected"]["round"])
    assert choice["test"]["gap"] == pytest.approx(result["selected"]["gap"])
    rows = outcome.approach.prepared.split.test
    predicted = (
        outcome.approach.kept.margins(outcome.approach.prepared.test, [outcome.finished.selected])[0] > 0
    ).numpy()
    own = evaluate(people.labels[rows], predicted, people.groups[rows], people.group_names)
    assert own.gap == pytest.approx(result["selected"]["gap"])
    with pytest.raises(KeyboardInterrupt):
        run_experiment(people, settings, seed=0, budget=20, checkpoint=tmp_path, listener=Interrupted(last - 1))
    resumed = run_experiment(people, settings, seed=0, budget=20, checkpoint=tmp_path, resume=True)
    assert comparable(resumed.result) == comparable(result)


def test_numbers_of_a_posterior_that_does_not_cover_stand_nowhere_in_result_report_and_terminal(
    people: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    from apod.cli.progress import TerminalListener

    with TerminalListener() as listener:
        outcome = run_experiment(people, AHEAD, seed=1, budget=BUDGET, listener=listener)
    result = outcome.result
    listener.summary(result, Path("report.html"))
    assert result["outlook"] is None
    assert result["outlook_withheld"].startswith("Withheld")
    for entry, raw in zip(result["rounds"], outcome.approach.choices, strict=True):
        shown = entry["choice"]
        assert entry["estimate"] is None
        assert shown["outlook"] is None
        assert shown["withheld"] == result["outlook_withheld"]
        assert all(head["gap"] is None and head["better"] is None for head in shown["heads"])
        assert all(head["interval"] == [None, None] for head in shown["heads"])
        assert {**shown, "heads": 0, "outlook": 0, "withheld": 0} == {**raw, "heads": 0, "outlook": 0, "withheld": 0}
        assert all(head["gap"] is not None for head in raw["heads"]) or entry is result["rounds"][0]
    said, page = capsys.readouterr().err, render_report(result)
    for text in (said, page, json.dumps(result)):
        assert "gap to expect is" not in text
        assert "credible" not in text
    assert "gap to expect" not in said
    assert result["outlook_withheld"] in page


def test_the_outlook_of_a_posterior_that_covers_begins_with_what_the_last_round_expects(
    people: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apod.method.proxy.LaplaceProxy.covers", True)
    result = run_experiment(people, AHEAD, seed=1, budget=BUDGET).result
    choice, now = result["rounds"][-1]["choice"], result["outlook"][0]
    head = next(one for one in choice["heads"] if one["strength"] == choice["strength"])
    assert now == {
        "answers": BUDGET, "gap": head["gap"], "interval": head["interval"], "strength": choice["strength"],
    }  # fmt: skip
    assert result["outlook_withheld"] is None
    assert "the gap to expect is" in render_report(result)
    result["outlook"] = None
    assert "What more answers would bring" not in render_report(result)


def test_a_least_gain_without_a_posterior_that_all_strengths_share_is_refused() -> None:
    for preset, changes in (("paper", {}), ("heads", {"proxy": "logistic"}), ("heads", {"head_choice": "score"})):
        with pytest.raises(InputError, match="Heads end early only by a posterior"):
            replace(PRESETS[preset], least_gain=0.01, **changes)
    with pytest.raises(InputError, match=r"like 0\.01"):
        replace(PRESETS["heads"], least_gain=-1)


@pytest.mark.parametrize(("body", "read"), [("contrastive", "inputs"), ("precomputed", "embeddings")])
def test_the_settings_on_record_say_what_f_a_reads(body: str, read: str) -> None:
    assert replace(PRESETS["heads"], body=body).to_dict()["proxy_reads"] == read
