"""The audit's share of a campaign: held out at random, asked about in between, never trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apod.campaign import Campaign, Materials, Proposal
from apod.campaign.audit_sample import RULE, Progress, audit_order, mix, planned
from apod.data import make_example
from apod.errors import BudgetError, InputError
from apod.fairness.metrics import evaluate
from apod.testing.engines import Workshop, answer_all

QUICK = {"preset": "heads", "strengths": [0.2, 1.0], "body_epochs": 1, "epochs": 1}
PEOPLE = make_example(600, seed=2)


def new_campaign(folder: Path, budget: int = 20, share: float = 0.25, **settings: object) -> Campaign:
    return Campaign.create(
        folder / "people.db", PEOPLE.features, PEOPLE.labels, groups=list(PEOPLE.group_names), budget=budget,
        refit="demand", engine_options=QUICK, audit_share=share, **settings,
    )  # fmt: skip


def run(campaign: Campaign, most: int = 10_000) -> list[int]:
    asked = []
    while len(asked) < most and (question := campaign.ask("maria")) is not None:
        asked.append(question.row)
        campaign.tell(question, PEOPLE.group_names[PEOPLE.groups[question.row]])
    return asked


def purposes(campaign: Campaign) -> list[str]:
    return [entry["purpose"] for entry in campaign.owner.log() if entry["what"] == "asked"]


def test_a_share_of_the_questions_is_about_people_held_out_and_no_other_is(tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path)
    asked = run(campaign)
    held_out = set(campaign.materials.held_out().tolist())
    assert purposes(campaign) == (["training"] * 3 + ["audit"]) * 5
    for row, purpose in zip(asked, purposes(campaign), strict=True):
        assert (row in held_out) == (purpose == "audit")
    assert len(held_out) == 120
    assert campaign.status().by_purpose == {"training": 15, "audit": 5}


def test_audit_answers_change_no_training_question_and_no_model(tmp_path: Path) -> None:
    models, questions = [], []
    for turned in (False, True):
        folder = tmp_path / str(turned)
        folder.mkdir()
        campaign = new_campaign(folder)
        held_out = set(campaign.materials.held_out().tolist())
        rows = []
        while (question := campaign.ask("maria")) is not None:
            group = int(PEOPLE.groups[question.row])
            campaign.tell(question, PEOPLE.group_names[1 - group if turned and question.row in held_out else group])
            rows.append(question.row)
        model = campaign.owner.canonical_model()
        assert model is not None
        models.append(model.state().arrays)
        questions.append(rows)
    assert questions[0] == questions[1]
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[0])


def test_labels_of_people_held_out_reach_neither_the_questions_nor_the_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, predicted = [], []
    for name in ("plain", "turned"):
        (tmp_path / name).mkdir()
        campaign = new_campaign(tmp_path / name, budget=12, seed=3)
        if name == "turned":  # the same people are held out, with the other label
            labels = PEOPLE.labels.copy()
            labels[campaign.materials.held_out()] ^= 1
            monkeypatch.setattr(Materials, "labels", lambda self, turned=labels: turned)
        rows = run(campaign)
        asked.append([row for row in rows if row not in campaign.materials.held_out()])
        predicted.append(campaign.classifier().predict_proba(PEOPLE.features))
    assert asked[0] == asked[1]
    assert np.array_equal(*predicted)


def test_those_asked_so_far_are_a_random_sample_of_every_cell(tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path, budget=60, share=0.5)
    run(campaign, most=30)
    found = audit_order(campaign.materials, campaign.engine())
    order, cells = found.rows, found.cells
    assert sorted(order.tolist()) == campaign.materials.held_out().tolist()
    labels = PEOPLE.labels[order]
    assert np.array_equal(cells // 2, labels)
    counts = np.bincount(cells[:12])  # cells take turns
    assert counts.max() - counts.min() <= 1 or len(counts) < 4
    stored = campaign.owner.probabilities("audit")
    size, taken = np.bincount(cells), np.bincount(cells[:30], minlength=cells.max() + 1)
    for row, chance in stored.items():
        cell = cells[order.tolist().index(row)]
        assert chance == pytest.approx(taken[cell] / size[cell])  # of being among the 30 that the budget allows


def test_the_audit_of_a_campaign_covers_what_everybody_s_groups_would_say(tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path, budget=160, share=0.5)
    assert campaign.owner.audit() is None
    run(campaign)
    kept, classifier = campaign.classifier().at(0.0), campaign.classifier().at(QUICK["strengths"][-1])
    rows = campaign.materials.held_out()
    for audited, views in ((None, {"before"}), (kept, {"before"}), (classifier, {"before", "after"})):
        one = campaign.owner.audit(audited)
        assert one is not None
        assert one.drawn == 80
        assert one.people == len(rows)
        assert set(one.views) == views
        assert (one.change is None) == (len(views) == 1)  # nothing is compared with itself
    predicted = (classifier.predict(PEOPLE.features.iloc[rows]) == classifier.classes_[1]).astype(int)
    exact = evaluate(PEOPLE.labels[rows], predicted, PEOPLE.groups[rows], PEOPLE.group_names)
    for name, rates in one.views["after"].groups.items():
        assert rates["tpr"].low - 0.05 <= exact.groups[name].tpr <= rates["tpr"].high + 0.05


def test_an_engine_of_ones_own_is_audited_in_cells_of_the_label_alone(workshop: Workshop) -> None:
    campaign = workshop.create(audit_share=0.2, budget=10)
    rows = answer_all(campaign)
    assert len(rows) == len(set(rows)) == 10
    assert campaign.status().by_purpose == {"training": 8, "audit": 2}
    with pytest.raises(InputError, match="makes no decisions to audit"):
        campaign.owner.audit()
    rules = [
        entry["rule"] for entry in campaign.owner.log() if entry["what"] == "asked" and entry["purpose"] == "audit"
    ]
    assert rules == [RULE] * 2


def test_without_an_audit_nothing_is_held_out(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    assert len(campaign.materials.held_out()) == 0
    assert len(campaign.materials.training_rows()) == 200
    assert campaign.owner.audit() is None


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan"), True])
def test_a_share_that_makes_no_sense_is_refused(on_sqlite: Workshop, share: float) -> None:
    with pytest.raises(InputError, match="audit share"):
        on_sqlite.create(audit_share=share)


def test_an_audit_larger_than_those_held_out_is_refused(on_sqlite: Workshop) -> None:
    with pytest.raises(BudgetError, match="held out"):
        on_sqlite.create(audit_share=0.9, budget=60)


def test_overlap_halves_the_people_an_audit_asks_about() -> None:
    assert planned(0.2, 40, 1) == 8
    assert planned(0.2, 40, 2) == 4


def test_the_audit_catches_up_and_the_queue_never_stalls() -> None:
    training, audit = [Proposal(row) for row in range(10)], [Proposal(100 + row, purpose="audit") for row in range(3)]
    behind = mix(training, audit, Progress(8, 0, 3), 0.25, 5)
    assert [item.purpose for item in behind] == ["audit", "audit", "training", "audit", "training"]
    assert [item.row for item in mix([], audit, Progress(0, 0, 3), 0.1, 9)] == [100, 101, 102]
    assert [item.row for item in mix(training, [], Progress(0, 0, 0), 0.5, 3)] == [0, 1, 2]
