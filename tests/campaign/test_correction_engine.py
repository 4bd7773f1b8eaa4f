"""The engine that keeps a model and corrects it: the published contract, one model everywhere, honest intervals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from apod import APODClassifier
from apod.campaign import Campaign, EngineFactory, GroupAnswer, Materials, create
from apod.campaign.correction_engine import CorrectionEngine, CorrectionModel
from apod.campaign.operating_point import BY_OWNER
from apod.campaign.settings import CampaignSettings
from apod.data import Dataset, blocks, make_example
from apod.errors import InputError
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign
from apod.testing import EngineContract
from apod.web.downloads import build


def corrects(materials: Materials) -> CorrectionEngine:
    return CorrectionEngine(replace(materials, settings=replace(materials.settings, engine={"body": None})))


class TestCorrectionEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> EngineFactory:
        return corrects


def answered(folder: Path, rows: int = 300, budget: int = 16, **more: Any) -> Campaign:
    people = make_example(rows, seed=2)
    campaign = Campaign.create(
        folder / "people.db", people.features, people.labels,
        groups=list(people.group_names), budget=budget, refit="demand", **more,
    )  # fmt: skip
    while (question := campaign.ask("maria")) is not None:
        campaign.tell(question, people.group_names[people.groups[question.row]])
    campaign.owner.refit()
    return campaign


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that is answered; tests work on copies."""
    folder = tmp_path_factory.mktemp("audited") / "campaign"
    folder.mkdir()
    answered(folder, audit_share=0.25, budget=40).close()
    return folder


def copied(folder: Path, to: Path) -> Campaign:
    return Campaign.open(shutil.copytree(folder, to / "copy") / "people.db", refit="demand")


def test_the_same_answers_in_any_order_give_the_same_model(tmp_path: Path) -> None:
    campaign = answered(tmp_path)
    answers, engine = list(campaign.owner.answers()), CorrectionEngine(campaign.materials)
    published = campaign.refitter.load(campaign.refitter.snapshot())
    warm = engine.fit(answers[:9], None)
    for again in (engine.fit(answers[::-1], warm), campaign.owner.canonical_model(), published):
        assert isinstance(again, CorrectionModel)
        first = engine.fit(answers, None)
        assert first is not None
        assert again.outcome == first.outcome
        for name, array in first.arrays.items():
            assert np.array_equal(array, again.arrays[name])


@pytest.mark.xdist_group("audited")
def test_dashboard_status_classifier_and_report_are_one_model(audited: Path, tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    campaign = copied(audited, tmp_path)
    point, classifier, facts = campaign.owner.results.operating_point(), campaign.classifier(), campaign_facts(campaign)
    assert point is not None
    shown = campaign.owner.results.dashboard().operating
    assert shown is not None
    assert shown["strength"] == classifier.selected_strength_ == facts["strength"] == point.strength
    assert shown["because"] == classifier.selected_because_ == facts["selected_because"] == point.because
    curve = campaign.owner.results.history()[-1].outcome["curve"]
    assert [one["strength"] for one in curve] == classifier.tradeoff_["strength"].tolist()
    assert [one["gap"] for one in curve] == pytest.approx(classifier.tradeoff_["gap"].tolist(), abs=1e-6)
    held_out, engine = campaign.materials.held_out(), CorrectionEngine(campaign.materials)
    model = campaign.refitter.load(campaign.refitter.snapshot())
    for strength in (0.0, curve[7]["strength"], curve[-1]["strength"]):
        decided = engine.decisions_at(model, held_out, strength)  # type: ignore[arg-type]
        own = classifier.at(strength).predict(people.features.iloc[held_out])
        assert np.array_equal(decided.get("after", decided["before"]), own)


@pytest.mark.xdist_group("audited")
def test_the_owner_picks_another_place_on_the_path_and_everything_follows(audited: Path, tmp_path: Path) -> None:
    campaign = copied(audited, tmp_path)
    wanted = campaign.owner.results.strengths()[12]
    with pytest.raises(InputError, match=r"There is no strength -1\.0: choose one of"):
        campaign.owner.choose(-1.0)
    campaign.owner.choose(wanted)
    campaign.owner.refit()
    point, classifier, facts = campaign.owner.results.operating_point(), campaign.classifier(), campaign_facts(campaign)
    assert point is not None
    assert point.audit is not None
    assert point.strength == classifier.selected_strength_ == facts["strength"] == wanted
    assert point.because == classifier.selected_because_ == facts["selected_because"] == BY_OWNER
    assert point.audit["after"]["low"] == facts["audit"]["predictions"]["after"]["gap"]["low"]


def test_a_campaign_keeps_the_method_it_was_created_with(tmp_path: Path) -> None:
    stored = json.loads('{"name": "old", "groups": ["a", "b"], "budget": 30, "engine": {"strengths": [0.2, 1.0]}}')
    old = CampaignSettings.from_json(stored)
    assert (old.preset, old.selector) == ("heads", "typical")
    new = answered(tmp_path, budget=8).settings
    assert new.engine["body"] is None
    assert (new.preset, new.selector) == ("default", "gap")


def test_a_models_scores_are_corrected_never_learnt_from_and_never_shown(tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    scores = LogisticRegression().fit(people.features, people.labels).predict_proba(people.features)[:, 1]
    frame = people.features.assign(model_score=scores)
    campaign = Campaign.create(
        tmp_path / "p.db", frame, people.labels, groups=list(people.group_names), budget=8, refit="demand",
        score="model_score", audit_share=0.2, engine_options={"threshold": 0.4},
    )  # fmt: skip
    question = campaign.ask("maria")
    assert question is not None
    assert "model_score" not in question.display
    assert "model_score" not in campaign.materials.features().columns
    while (question := campaign.ask("maria")) is not None:
        campaign.tell(question, people.group_names[people.groups[question.row]])
    campaign.owner.refit()
    assert campaign.status().model == "the given scores"
    classifier = campaign.classifier()
    assert np.array_equal(classifier.at(0.0).predict(frame), (scores > 0.4).astype(int))
    rows = campaign.materials.held_out()
    assert np.array_equal(CorrectionEngine(campaign.materials).decisions(None, rows)["before"], scores[rows] > 0.4)


@pytest.mark.parametrize(
    ("score", "said"),
    [([0.5] * 299, "299 scores for 300 rows"), ([1.5] * 300, "outside"), ("scroe", "no column 'scroe'")],
)
def test_scores_that_cannot_be_are_one_line_and_nothing_is_written(score: Any, said: str, tmp_path: Path) -> None:
    people = make_example(300, seed=2)
    with pytest.raises(InputError, match=said):
        Campaign.create(
            tmp_path / "p.db", people.features, people.labels, groups=list(people.group_names), budget=8, score=score
        )
    assert list(tmp_path.iterdir()) == []


def test_questions_are_random_first_and_then_tell_most_about_the_gap(tmp_path: Path) -> None:
    campaign = answered(tmp_path, budget=18)
    asked = [entry for entry in campaign.owner.log() if entry["what"] == "asked"]
    assert [entry["rule"] for entry in asked[:8]] == ["random person of a label"] * 8
    assert {entry["rule"] for entry in asked[8:]} == {
        "random person of a label",
        "person whose answer is expected to tell most about the gap",
    }
    assert all((entry["probability"] is None) == ("tell most" in entry["rule"]) for entry in asked)


def test_what_is_kept_of_a_model_is_one_weight_vector_and_nothing_per_person(tmp_path: Path) -> None:
    campaign = answered(tmp_path, budget=10)
    state = campaign.owner.canonical_model().state()  # type: ignore[union-attr]
    assert max(array.size for array in state.arrays.values()) < 64
    assert all(array.ndim == 2 and len(array) <= 2 for array in state.arrays.values())


def test_the_downloaded_classifier_is_the_campaigns_and_fits_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = make_example(300, seed=2)
    campaign = answered(tmp_path, budget=10)
    monkeypatch.setattr("apod.campaign.base_model.fit_standard", None)  # the model is remembered
    classifier = campaign.classifier()
    strength = campaign.owner.results.strengths()[-1]
    (tmp_path / "classifier.apod").write_bytes(build(campaign, "classifier"))
    loaded = APODClassifier.load(tmp_path / "classifier.apod")
    assert loaded.selected_strength_ == classifier.selected_strength_
    for at in (0.0, strength):
        assert np.array_equal(
            loaded.at(at).predict_proba(people.features), classifier.at(at).predict_proba(people.features)
        )


def test_the_intervals_shown_cover_the_recorded_gap_over_everybody(tmp_path: Path) -> None:
    covered = []
    for seed in range(6):
        people = make_example(400, seed=seed)
        scores = cross_val_predict(LogisticRegression(), people.features, people.labels, method="predict_proba")[:, 1]
        campaign = Campaign.create(
            tmp_path / f"{seed}.db", people.features, people.labels, groups=list(people.group_names), budget=30,
            score=scores, refit="demand", seed=seed,
        )  # fmt: skip
        engine = CorrectionEngine(campaign.materials)
        rows = np.random.default_rng(seed).permutation(400)[:30].tolist()
        model = engine.fit([GroupAnswer(row, int(people.groups[row])) for row in rows], None)
        assert model is not None
        seen = engine.base.pool.people
        for which, strength in (("base", 0.0), ("selected", model.strength)):
            gap = gap_on_record(people, engine.decided(model, seen, strength))
            low, high = model.outcome["estimate"][which]["interval"]
            covered.append(low <= gap <= high)
        campaign.close()
    assert np.mean(covered) >= 0.8


def gap_on_record(people: Dataset, decided: np.ndarray) -> float:
    """Differences of TPR and FPR between the two groups, counted."""
    gap = 0.0
    for label in (0, 1):
        rates = [decided[(people.labels == label) & (people.groups == group)].mean() for group in (0, 1)]
        gap += abs(rates[0] - rates[1])
    return gap


def test_a_campaign_pauses_where_the_rest_of_its_budget_is_expected_to_gain_less(tmp_path: Path) -> None:
    campaign = answered(tmp_path, budget=24, least_gain=1.0)
    status = campaign.status()
    assert (status.paused, status.paused_because) == (True, "least gain")
    assert status.answered < 24
    outlook = campaign.owner.results.outlook()
    assert isinstance(outlook, dict)
    assert outlook["answers"] == 24
    assert outlook["gain"] is not None
    assert 0 <= outlook["gain"] < 1.0
    assert outlook["smallest_gap"] is not None
    facts = campaign_facts(campaign)
    assert facts["outlook"] == outlook
    assert "random answers alone tell" in render_campaign(facts)
    campaign.owner.pause(False)
    while (question := campaign.ask("maria")) is not None:
        campaign.tell(question, str(campaign.settings.groups[0]))
    assert campaign.status().answered == 24  # whoever goes on wants the rest


@pytest.mark.parametrize("audit_share", [0.0, 0.2])
def test_of_a_large_pool_people_are_drawn_to_learn_from_and_to_ask_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audit_share: float
) -> None:
    monkeypatch.setattr(blocks, "LARGE", 300)
    monkeypatch.setattr(create, "DRAWN", 200)
    people = make_example(400, seed=2)
    known = [people.group_names[people.groups[row]] if row in (7, 301) else None for row in range(400)]
    campaign = Campaign.create(
        tmp_path / "people.db", people.features.to_numpy(dtype=float), people.labels, groups=list(people.group_names),
        budget=20, refit="demand", audit_share=audit_share, known_groups=known,
    )  # fmt: skip
    assert campaign.settings.method is not None
    assert campaign.settings.method.corrects
    rows, held_out = campaign.materials.training_rows(), campaign.materials.held_out()
    assert {7, 301} <= {*rows.tolist(), *held_out.tolist()}
    assert 200 <= len(rows) <= 202
    assert not np.isin(rows, held_out).any()
    asked = []
    while (question := campaign.ask("maria")) is not None:
        asked.append(question.row)
        campaign.tell(question, people.group_names[people.groups[question.row]])
    assert len(set(asked)) == 20
    assert set(asked) <= {*rows.tolist(), *held_out.tolist()}
    campaign.owner.refit()
    engine = campaign.engine()
    assert len(engine.population) == len(rows)  # type: ignore[attr-defined]
    assert campaign.classifier().predict(people.features.to_numpy(dtype=float)).shape == (400,)
    shown = campaign.owner.results.pool_map()
    assert shown is not None
    assert shown["shown"] == len(rows) + len(held_out)
    assert len(shown["asked"]["x"]) == 20
    assert campaign.owner.verify_log().ok
    campaign.close()
