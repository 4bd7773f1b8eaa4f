"""The package's own engine in a campaign: the published contract, the rounds of `apod run`, the classifier."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from apod import APODClassifier
from apod.campaign import Campaign, EngineFactory, GroupAnswer, Materials, schema
from apod.campaign.heads_engine import MitigationEngine
from apod.campaign.settings import settings_of
from apod.data import TableEncoder, make_example
from apod.errors import InputError
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import Training
from apod.method.pool import first_choices
from apod.testing import EngineContract

QUICK = {"preset": "heads", "strengths": [0.2, 1.0], "body_epochs": 1, "epochs": 1}


def quick_engine(materials: Materials) -> MitigationEngine:
    return MitigationEngine(replace(materials, settings=replace(materials.settings, engine=QUICK)))


class TestMitigationEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> EngineFactory:
        return quick_engine


def run_campaign(folder: Path, budget: int = 10) -> tuple[Campaign, list[int]]:
    people = make_example(300, seed=2)
    campaign = Campaign.create(
        folder / "people.db", people.features, people.labels,
        groups=list(people.group_names), budget=budget, refit="demand", engine_options=QUICK,
    )  # fmt: skip
    asked = []
    while (question := campaign.ask("maria")) is not None:
        asked.append(question.row)
        campaign.tell(question, people.group_names[people.groups[question.row]])
    return campaign, asked


def test_a_campaign_asks_the_questions_of_the_very_same_rounds(tmp_path: Path) -> None:
    campaign, asked = run_campaign(tmp_path)
    engine = MitigationEngine(campaign.materials)
    groups = make_example(300, seed=2).groups
    settings = settings_of(QUICK)
    plain = Mitigation(engine.pool, Plan.from_settings(settings), Training.from_settings(settings, (32,)))
    first = [choice.row for choice in first_choices(plain.pool)]
    expected: list[int] = []
    while len(expected) < len(asked):
        if len(expected) < 4 or len(plain.answers[0].groups_seen()) < 2:
            row = first[len(expected)]
        else:
            plain.refit()
            row = plain.ask(1)[0].row
        plain.add_answer(0, row, int(groups[row]))
        expected.append(row)
    assert asked == expected


def test_the_canonical_model_is_that_of_the_rounds(tmp_path: Path) -> None:
    campaign, asked = run_campaign(tmp_path)
    model = campaign.owner.canonical_model()
    assert isinstance(campaign.engine(), MitigationEngine)
    groups = make_example(300, seed=2).groups
    engine = MitigationEngine(campaign.materials)
    again = engine.fit([GroupAnswer(row, int(groups[row])) for row in asked], None)
    assert model is not None
    assert again is not None
    for name, array in model.state().arrays.items():
        assert np.array_equal(array, again.arrays[name])


def test_many_answers_take_a_bounded_number_of_rounds_and_the_last_knows_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, asked = run_campaign(tmp_path)
    groups = make_example(300, seed=2).groups
    engine = MitigationEngine(campaign.materials)
    answers = [GroupAnswer(row, int(groups[row])) for row in asked]
    whole = engine.fit(answers, None)
    seen: list[int] = []
    refitted = engine._refitted
    monkeypatch.setattr(engine, "_refitted", lambda *told: (seen.append(len(told[1])), refitted(*told))[1])
    monkeypatch.setattr("apod.campaign.heads_engine.HASTY_ROUNDS", 3)
    hasty = engine.fit_in_haste(answers)
    assert hasty is not None
    assert whole is not None
    assert hasty.round == len(seen) == 3 < whole.round
    assert seen == sorted(set(seen))
    assert seen[-1] == len(asked)
    monkeypatch.setattr("apod.campaign.heads_engine.HASTY_ROUNDS", len(asked))  # room for all: the canonical fit
    for name, array in engine.fit_in_haste(answers).arrays.items():  # type: ignore[union-attr]
        assert np.array_equal(array, whole.arrays[name])


def test_the_classifier_knows_the_answers_and_speaks_in_the_campaigns_labels(tmp_path: Path) -> None:
    campaign, asked = run_campaign(tmp_path)
    people = make_example(300, seed=2)
    classifier = campaign.classifier()
    assert set(classifier.groups_) == set(people.group_names)
    assert int(classifier.tradeoff_["annotated"].max()) == len(asked)
    assert set(classifier.predict(people.features)) <= {0, 1}
    again = campaign.classifier()
    assert np.array_equal(classifier.predict_proba(people.features), again.predict_proba(people.features))


def test_too_few_answers_for_a_classifier_are_told(tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    campaign = Campaign.create(
        tmp_path / "p.db", people.features, people.labels, groups=list(people.group_names), budget=5, refit="demand",
        engine_options=QUICK,
    )  # fmt: skip
    with pytest.raises(InputError, match="fewer than two groups"):
        campaign.classifier()


def _answered(folder: Path, labels: npt.NDArray[np.generic], **more: Any) -> Campaign:
    people = make_example(300, seed=2)
    campaign = Campaign.create(
        folder / "p.db", people.features, labels, groups=list(people.group_names), budget=8, refit="demand",
        engine_options=QUICK, **more,
    )  # fmt: skip
    while (question := campaign.ask("maria")) is not None:
        campaign.tell(question, people.group_names[people.groups[question.row]])
    return campaign


@pytest.mark.parametrize("positive", ["bad", "good"])
def test_a_classifier_of_either_positive_label_is_saved_loaded_and_agrees_with_the_labels(
    positive: str, tmp_path: Path
) -> None:
    people = make_example(300, seed=2)
    labels = np.where(people.labels == 1, "bad", "good")
    classifier = _answered(tmp_path, labels, positive=positive).classifier()
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.positive_ == positive
    assert (classifier.predict(people.features) == labels).mean() > 0.6
    classifier.save(tmp_path / "model.safetensors")
    loaded = APODClassifier.load(tmp_path / "model.safetensors")
    assert loaded.positive_ == positive
    assert np.array_equal(loaded.predict_proba(people.features), classifier.predict_proba(people.features))
    assert (loaded.classes_[loaded.predict_proba(people.features).argmax(axis=1)] == labels).mean() > 0.6


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.bool_, np.str_])
def test_a_campaigns_classifier_predicts_labels_of_the_type_they_were_given_in(kind: Any, tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    labels = people.labels.astype(kind)
    classifier = _answered(tmp_path, labels).classifier()
    classifier.save(tmp_path / "model.safetensors")
    predicted = APODClassifier.load(tmp_path / "model.safetensors").predict(people.features)
    assert predicted.dtype.kind == labels.dtype.kind
    assert (predicted == labels).mean() > 0.6


def test_a_classifier_of_a_csv_file_predicts_the_numbers_that_pandas_reads(tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    people.features.assign(hired=people.labels).to_csv(tmp_path / "people.csv", index=False)
    campaign = Campaign.create_from_table(
        tmp_path / "p.db", tmp_path / "people.csv", label="hired", groups=list(people.group_names), budget=8,
        refit="demand", engine_options=QUICK,
    )  # fmt: skip
    while (question := campaign.ask("maria")) is not None:
        campaign.tell(question, people.group_names[people.groups[question.row]])
    read = pd.read_csv(tmp_path / "people.csv")
    assert (campaign.classifier().predict(people.features) == read["hired"]).mean() > 0.6


@pytest.mark.parametrize("options", [{"selector": "apdo"}, {"preset": "papr"}, {"strenths": [1]}])
def test_engine_options_are_checked_when_the_campaign_is_created(tmp_path: Path, options: dict[str, object]) -> None:
    people = make_example(100, seed=2)
    with pytest.raises(InputError, match="did you mean"):
        Campaign.create(
            tmp_path / "p.db", people.features, people.labels, groups=list(people.group_names), budget=5,
            engine_options=options,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_a_question_s_probability_is_that_of_its_own_draw_not_of_its_batch(tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    options = {**QUICK, "selector": "random"}
    campaign = Campaign.create(
        tmp_path / "p.db", people.features, people.labels, groups=list(people.group_names), budget=20,
        engine_options=options, refit="demand",
    )  # fmt: skip
    made = campaign.engine()
    answers = [GroupAnswer(row, int(people.groups[row])) for row in range(12)]
    found = made.propose(made.fit(answers, None), answers, set(range(12)), 5)
    assert [item.probability for item in found] == pytest.approx([1 / (288 - place) for place in range(5)])


def test_groups_are_guessed_from_the_inputs_of_those_held_out_as_well(tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    campaign = Campaign.create(
        tmp_path / "people.db", people.features, people.labels, groups=list(people.group_names), budget=12,
        refit="demand", engine_options=QUICK, audit_share=0.3,
    )  # fmt: skip
    engine = MitigationEngine(campaign.materials)
    held_out, rows = campaign.materials.held_out(), campaign.materials.training_rows()
    model = engine.fit([GroupAnswer(int(row), int(people.groups[row])) for row in rows[:20]], None)
    assert model is not None
    encoder = TableEncoder().fit(people.features.iloc[rows])
    inputs = StandardScaler().fit(encoder.transform(people.features.iloc[rows]).astype(np.float64))
    encoded = inputs.transform(encoder.transform(people.features).astype(np.float64))
    plain = LogisticRegression(C=3 / encoded.shape[1], max_iter=1000).fit(encoded[rows[:20]], people.groups[rows[:20]])
    np.testing.assert_allclose(engine.proxies(model, held_out), plain.predict_proba(encoded[held_out]), atol=1e-4)


def test_a_campaign_that_kept_no_inputs_goes_on_with_its_embeddings(tmp_path: Path) -> None:
    campaign, asked = run_campaign(tmp_path)
    people = make_example(300, seed=2)
    files = next(entry["files"] for entry in campaign.owner.log() if entry.get("name") == "embedding")
    assert files.pop("inputs")
    old = Campaign.create(
        tmp_path / "people.db", people.features, people.labels,
        groups=list(people.group_names), budget=10, name="old", refit="demand", engine_options=QUICK,
    )  # fmt: skip
    with old.store.writing() as connection:  # as an earlier version would have left it
        row = {"campaign": old.materials.campaign, "name": "embedding", "files": json.dumps(files)}
        connection.execute(schema.artifacts.insert(), row)
    engine = MitigationEngine(replace(old.materials, logged=False))
    assert engine.pool.inputs is None
    model = engine.fit([GroupAnswer(row, int(people.groups[row])) for row in asked], None)
    assert model is not None
    assert engine.propose(model, [], frozenset(), 1)
    campaign.close()
    old.close()


def test_after_the_budget_is_extended_the_engine_knows_the_new_one(tmp_path: Path) -> None:
    """Random answers may end where a third of the budget was spent on looking for all groups, and not before."""
    people = make_example(300, seed=2)
    options: dict[str, Any] = {"groups": list(people.group_names), "refit": "demand", "engine_options": QUICK}
    options["least_gain"] = 0.01  # looks ahead whatever it may show
    campaign = Campaign.create(tmp_path / "small.db", people.features, people.labels, budget=12, **options)
    large = Campaign.create(tmp_path / "large.db", people.features, people.labels, budget=60, **options)
    one_group = [GroupAnswer(int(row), 0) for row in np.flatnonzero(people.groups == 0)[:5]]
    assert campaign.engine().fit(one_group, None) is not None
    campaign.owner.extend(60)
    assert campaign.engine().fit(one_group, None) is None
    assert large.engine().fit(one_group, None) is None
    told = [GroupAnswer(row, int(people.groups[row])) for row in range(30)]
    steps = [[e["answers"] for e in measured(c, told)["outlook"]] for c in (campaign, large)]
    assert steps[0] == steps[1]
    campaign.close()
    large.close()


def measured(campaign: Campaign, told: list[GroupAnswer]) -> dict[str, Any]:
    engine = campaign.engine()
    assert isinstance(engine, MitigationEngine)
    model = engine.fit(told, None)
    assert model is not None
    return engine.measure(model, told)
