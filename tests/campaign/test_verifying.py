"""A campaign tries its correction on fresh answers: frozen before, sealed, told to no annotator, asked afresh later."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from apod.campaign import Campaign, asking
from apod.campaign.asking import Leased
from apod.campaign.verifying import verification_progress
from apod.data import make_example
from apod.errors import InputError
from apod.method.verification import LEVEL, VERIFYING_RULE, needed_count
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign

PEOPLE = make_example(900, seed=2)
NAMES = list(PEOPLE.group_names)
BOLD = {"caution": 0.0, "max_accuracy_loss": 0.05, "max_balanced_loss": 0.05, "selector": "stratified"}


@cache
def scores() -> np.ndarray:
    """Of a model that lives elsewhere: quicker than one that every campaign fits."""
    numbers = pd.get_dummies(PEOPLE.features).to_numpy(dtype=np.float64)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    return cross_val_predict(model, numbers, PEOPLE.labels, method="predict_proba")[:, 1]


def truth(row: int) -> str:
    return NAMES[PEOPLE.groups[row]]


def created(folder: Path, budget: int = 60, share: float = 0.3, **more: Any) -> Campaign:
    return Campaign.create(
        folder / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=budget, refit="demand",
        verify_share=share, engine_options=BOLD, score=scores(), **more,
    )  # fmt: skip


def ask(campaign: Campaign, annotator: str) -> Leased | None:
    """A question without the refit that `Campaign.ask` makes on demand: what is frozen is fitted anew anyway."""
    for _ in range(3):
        found = campaign.journal.submit(partial(asking.ask, annotator=annotator))
        if not isinstance(found, asking.Starved):
            return found if isinstance(found, Leased) else None
        if not campaign.refitter.supply(found.queue):
            return None
    return None


def answer_all(
    campaign: Campaign, tell: Callable[[int], str] = truth, most: int = 10_000, annotators: Sequence[str] = ("maria",)
) -> list[int]:
    rows: list[int] = []
    while len(rows) < most:
        held = [(name, found) for name in annotators if (found := ask(campaign, name)) is not None]
        for name, one in held:
            rows.append(one.row)
            campaign.annotator(name).tell(one.id, tell(one.row))
        if not held:
            break
    campaign.owner.refit()
    return rows


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that verified its correction; tests work on copies."""
    folder = tmp_path_factory.mktemp("verified") / "campaign"
    folder.mkdir()
    with created(folder) as campaign:
        answer_all(campaign)
    return folder


@pytest.fixture
def verified(spent: Path, tmp_path: Path) -> Campaign:
    return Campaign.open(shutil.copytree(spent, tmp_path / "copy") / "people.db", refit="demand")


def frozen(campaign: Campaign) -> dict[str, Any]:
    trial = campaign.trial()
    assert trial is not None
    return dict(trial.candidate)


def verifying_rows(campaign: Campaign) -> list[int]:
    return [entry["row"] for entry in campaign.owner.log() if entry.get("purpose") == "verification"]


def test_the_share_of_the_budget_is_asked_about_people_the_frozen_correction_changes(verified: Campaign) -> None:
    log = verified.owner.log()
    asked, (event,) = [e for e in log if e["what"] == "asked"], [e for e in log if e["what"] == "frozen"]
    before = [entry for entry in asked if entry["event"] < event["event"]]
    after = [entry for entry in asked if entry["event"] > event["event"]]
    assert (len(before), len(after)) == (42, 18)
    assert {entry["purpose"] for entry in before} == {"training"}
    assert {(entry["purpose"], entry["rule"]) for entry in after} == {("verification", VERIFYING_RULE)}
    assert event["candidate_hash"] == frozen(verified)["fingerprint"]
    assert event["answers"] == 42
    engine: Any = verified.engine()
    plan = engine._verification(frozen(verified))
    found = engine.mitigated(verified.owner.answers()[:42])
    assert found.fitted.changed()[plan.changes.rows].all()
    np.testing.assert_array_equal(plan.frozen.weights, found.fitted.weights)
    assert sorted(entry["row"] for entry in after) == plan.changes.rows.tolist()
    assert all(0 < entry["probability"] < 1 for entry in after)
    assert verified.status().by_purpose == {"training": 42, "verification": 18}
    assert verified.owner.verify_log().ok


def test_the_verdict_is_that_of_the_exact_test_and_is_said_alike_everywhere(verified: Campaign) -> None:
    found = verified.owner.results.verification()
    assert found is not None
    people = frozen(verified)["people"]
    favourable = sum(one["favoured"][PEOPLE.groups[one["row"]]] for one in people)
    needed = needed_count(np.array([one["chance"] for one in people]), LEVEL)
    assert (found["asked"], found["favourable"], found["needed"]) == (18, favourable, needed)
    assert (found["verdict"] == "passed") == (needed is not None and favourable >= needed)
    point = verified.owner.results.operating_point()
    assert point is not None
    assert point.verification == found
    facts = campaign_facts(verified)
    assert facts["verification"] == found
    assert "Put to the test on fresh answers" in render_campaign(facts)
    classifier = verified.classifier()
    assert classifier.selection_.verification == found["verdict"]
    assert classifier.selected_strength_ == point.strength
    model = verified.owner.canonical_model()
    assert model is not None
    latest = verified.refitter.load(verified.refitter.snapshot())
    assert latest is not None
    np.testing.assert_array_equal(model.state().arrays["weights"], latest.state().arrays["weights"])


def test_what_a_question_is_for_is_sealed_and_no_annotator_learns_it(verified: Campaign, tmp_path: Path) -> None:
    with verified.store.reading() as connection:
        bodies = connection.exec_driver_sql("SELECT body FROM apod_events WHERE kind IN ('asked', 'frozen')").scalars()
        open_text = "".join(bodies)
    assert "verif" not in open_text.lower()
    assert VERIFYING_RULE not in open_text
    rows = verifying_rows(verified)
    asked = [json.loads(e) for e in open_text.replace("}{", "}\n{").splitlines() if '"row"' in e]
    open_parts = {tuple(str(e[name]) for name in ("purpose", "rule", "probability")) for e in asked}
    assert open_parts == {("training", "None", "None")}
    question = verified.annotator("maria").question(next(e["id"] for e in verified.owner.log() if e.get("row") in rows))
    assert "verif" not in json.dumps(question.to_json()).lower()
    verified.owner.export(tmp_path / "tasks.json", "label-studio")
    assert "verif" not in (tmp_path / "tasks.json").read_text().lower()
    verified.owner.export(tmp_path / "answers.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert Counter(line["purpose"] for line in lines) == {"training": 42, "verification": 18}


def test_answers_that_contradict_the_correction_leave_the_model_as_it_is(tmp_path: Path) -> None:
    with created(tmp_path) as campaign:
        answer_all(campaign, most=42)
        answer_all(campaign, lambda row: NAMES[1 - PEOPLE.groups[row]])
        found = campaign.owner.results.verification()
        assert found is not None
        assert found["verdict"] == "failed"
        assert "The base model is kept." in found["words"]
        classifier = campaign.classifier()
        assert classifier.selected_strength_ == 0
        assert "did not pass" in classifier.selected_because_


def test_nothing_is_said_of_the_answers_before_the_last_of_them(tmp_path: Path) -> None:
    with created(tmp_path) as campaign:
        answer_all(campaign, most=50)
        found = campaign.owner.results.verification()
        assert found is not None
        assert (found["verdict"], found["asked"], found["favourable"], found["needed"]) == ("not verified", 8, 0, None)
        assert found["words"] == "Not verified yet: 8 of 18 fresh answers are there."
        campaign.owner.finish()
        campaign.owner.refit()
        ended = campaign.owner.results.verification()
        assert ended is not None
        assert ended["asked"] == 8
        assert ended["needed"] is not None


def kept_base(campaign: Campaign, because: str) -> bool:
    """Whether operating point and classifier leave the model as it is, for this reason."""
    point, classifier = campaign.owner.results.operating_point(), campaign.classifier()
    assert point is not None
    said = {point.because, classifier.selected_because_}
    return (point.strength, classifier.selected_strength_) == (0, 0) and all(because in str(one) for one in said)


def test_nothing_is_applied_before_a_verdict_passes_it(tmp_path: Path) -> None:
    with created(tmp_path) as campaign:
        answer_all(campaign, most=30)
        engine: Any = campaign.engine()
        assert engine.mitigated(campaign.owner.answers()).fitted.strength > 0  # it would be
        assert kept_base(campaign, "not verified yet")
        answer_all(campaign, most=20)
        assert campaign.trial() is not None
        assert kept_base(campaign, "not verified yet")
        own = campaign.owner.results.strengths()[1]
        campaign.owner.choose(own)
        assert campaign.classifier().selected_strength_ == own > 0  # the owner's own choice stays the owner's
        campaign.owner.choose(None)
        answer_all(campaign, lambda row: NAMES[1 - PEOPLE.groups[row]])
        campaign.owner.extend(100)
        campaign.owner.refit()
        assert campaign.trial() is None
        assert kept_base(campaign, "The base model is kept")


def test_the_correction_is_frozen_once_all_other_answers_are_there(tmp_path: Path) -> None:
    with created(tmp_path) as campaign:
        answer_all(campaign, most=41)
        held = campaign.ask("maria")
        assert held is not None
        turn = campaign.annotator("rosa").turn()
        assert (turn.question, turn.why, turn.with_others) == (None, "wait", 1)
        assert campaign.trial() is None
        campaign.tell(held, truth(held.row))
        fresh = campaign.ask("rosa")
        assert fresh is not None
        assert held.row not in {one["row"] for one in frozen(campaign)["people"]}
        assert fresh.row in {one["row"] for one in frozen(campaign)["people"]}


def test_an_extended_campaign_trains_then_freezes_another_candidate_and_asks_afresh(verified: Campaign) -> None:
    first, earlier = frozen(verified), set(verifying_rows(verified))
    verified.owner.extend(100)
    assert verified.trial() is None
    answer_all(verified)
    second, rows = frozen(verified), set(verifying_rows(verified))
    assert second["fingerprint"] != first["fingerprint"]
    assert len(second["people"]) == 12  # .3 of 100, less the 18 of the first candidate
    assert {one["row"] for one in second["people"]} == rows - earlier
    assert verified.status().by_purpose == {"training": 70, "verification": 30}
    assert verified.status().answered == 100


def test_erasing_an_answer_erases_the_correction_that_was_frozen_with_it(verified: Campaign) -> None:
    training = [entry["row"] for entry in verified.owner.log() if entry.get("purpose") == "training"]
    fingerprint = frozen(verified)["fingerprint"]
    verified.owner.erase(row=training[0])
    assert verified.trial() is None
    with verified.store.reading() as connection:
        left = "".join(connection.exec_driver_sql("SELECT value FROM apod_reasons").scalars())
    assert fingerprint not in left
    assert verified.owner.verify_log().ok
    verified.owner.refit()
    found = verified.owner.results.verification()
    assert found is not None
    assert found["verdict"] == "not verified"
    assert kept_base(verified, "The base model is kept")


def test_without_a_correction_to_verify_the_budget_trains(tmp_path: Path) -> None:
    with Campaign.create(
        tmp_path / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=16, refit="demand",
        verify_share=0.33, engine_options={"caution": 50.0}, score=scores(),
    ) as campaign:  # fmt: skip
        assert len(answer_all(campaign)) == 16
        assert campaign.status().by_purpose == {"training": 16}
        found = campaign.owner.results.verification()
        assert found is not None
        assert found["verdict"] == "not verified"


def test_audit_verification_and_overlap_share_the_budget(tmp_path: Path) -> None:
    with created(tmp_path, budget=80, share=0.2, audit_share=0.2, overlap=2) as campaign:
        answer_all(campaign, annotators=("maria", "rosa"))
        assert campaign.status().by_purpose == {"training": 48, "verification": 16, "audit": 16}
        held_out = set(campaign.materials.held_out().tolist())
        assert not held_out & set(verifying_rows(campaign))


def test_opinions_below_nine_in_ten_do_not_count(tmp_path: Path) -> None:
    with created(tmp_path, budget=120, overlap=2) as campaign:
        seen: set[int] = set()

        def of_two_minds(row: int) -> str:
            """The second opinion contradicts the first about every other person who verifies."""
            split = campaign.trial() is not None and row % 2 == 0 and row in seen
            seen.add(row)
            return NAMES[1 - PEOPLE.groups[row] if split else PEOPLE.groups[row]]

        answer_all(campaign, of_two_minds, annotators=("maria", "rosa"))
        found, rows = campaign.owner.results.verification(), verifying_rows(campaign)
        assert found is not None
        weights = {answer.row: answer.weight for answer in campaign.owner.answers()}
        assert any(row % 2 == 0 for row in rows)
        best = {row: max(weights[row], 1 - weights[row]) for row in set(rows)}
        assert found["asked"] == sum(one >= 0.9 for one in best.values()) < len(best)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"share": 0.5}, "from 0 to 0.33"),
        ({"share": -0.1}, "from 0 to 0.33"),
        ({"share": 0.3, "audit_share": 0.7}, "Nothing is left to train on"),
    ],
)
def test_a_share_that_cannot_be_is_one_line(tmp_path: Path, more: dict[str, float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        created(tmp_path, **more)
    assert not list(tmp_path.iterdir())


def test_heads_are_not_verified(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the correction of a model"):
        Campaign.create(
            tmp_path / "people.db", PEOPLE.features, PEOPLE.labels, groups=NAMES, budget=20, verify_share=0.2,
            engine_options={"preset": "heads"},
        )  # fmt: skip


def test_a_campaign_without_a_share_has_no_verification(tmp_path: Path) -> None:
    with created(tmp_path, share=0.0) as campaign:
        assert campaign.owner.results.verification() is None
        assert campaign.journal.view(lambda c, state, at: verification_progress(c, 1, state, at)) is None
