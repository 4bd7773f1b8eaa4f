"""The engine of several attributes: one correction, one question, what is kept of it, and what the audit says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apod.campaign import Campaign, GroupAnswer
from apod.campaign.attributes_engine import AttributesEngine
from apod.campaign.outcomes import _audited
from apod.errors import InputError
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign
from apod.web.owner_routes import dashboard_body

GROUPS = {"sex": ["f", "m"], "race": ["a", "b", "c"]}
ROWS = 400


def people() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two attributes that go with columns, and a score that is unfair to both."""
    rng = np.random.default_rng(0)
    sex, race = rng.integers(0, 2, ROWS), rng.integers(0, 3, ROWS)
    features = np.column_stack([sex * 2 + rng.normal(0, 0.5, ROWS), race * 2 + rng.normal(0, 0.5, ROWS)])
    features = np.column_stack([features, rng.normal(size=ROWS)])
    labels = (features[:, 2] + rng.normal(0, 1, ROWS) > 0).astype(int)
    logit = 2 * features[:, 2] + 1.2 * (sex - 0.5) + 0.8 * (race - 1)
    return features, labels, 1 / (1 + np.exp(-logit)), np.column_stack([sex, race])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    features, labels, score, _ = people()
    folder = tmp_path_factory.mktemp("several")
    found = Campaign.create(
        folder / "x.db", features, labels, groups=GROUPS, budget=60, score=score, audit_share=0.2, refit="demand"
    )
    answer(found, folder, 24, 20)
    yield found
    found.close()


def answer(campaign: Campaign, folder: Path, training: int, audit: int) -> None:
    """Answers as records would bring them; race is told of five in six."""
    truth, materials = people()[3], campaign.materials
    lines = ["row,annotator,purpose,sex,race"]
    for purpose, rows in (("training", materials.training_rows()[:training]), ("audit", materials.held_out()[:audit])):
        for row in rows.tolist():
            race = "cannot_tell" if row % 6 == 5 else GROUPS["race"][truth[row, 1]]
            lines.append(f"{row},a,{purpose},{GROUPS['sex'][truth[row, 0]]},{race}")
    (folder / "answers.csv").write_text("\n".join(lines))
    campaign.owner.import_(folder / "answers.csv")


def test_a_refit_serves_every_attribute(campaign: Campaign) -> None:
    assert campaign.owner.refit() or campaign.status().model_answers
    status = campaign.status()
    assert status.refit_failure is None
    assert status.model_answers > 8
    outcome = campaign.owner.results.history(1)[-1].outcome
    assert set(outcome["estimate"]["attributes"]) == {"sex", "race"}
    first = outcome["estimate"]["attributes"]["sex"]
    assert outcome["estimate"]["base"] == first["base"]
    assert outcome["curve"][0]["attributes"]["race"] == outcome["estimate"]["attributes"]["race"]["base"]
    point = campaign.owner.results.operating_point()
    assert point is not None
    assert point.estimate is not None
    assert set(point.estimate["attributes"]) == {"sex", "race"}


def test_the_model_survives_being_kept_and_proposes_the_same(campaign: Campaign) -> None:
    engine = campaign.engine()
    assert isinstance(engine, AttributesEngine)
    answers = campaign.owner.answers()
    model = engine.fit(answers, None)
    assert model is not None
    again = engine.load(model.state())
    unavailable = {answer.row for answer in answers}
    first, second = (engine.propose(one, answers, unavailable, 6) for one in (model, again))
    assert [one.row for one in first] == [one.row for one in second]
    assert not {one.row for one in first} & (unavailable | set(campaign.materials.held_out().tolist()))
    held_out = campaign.materials.held_out()
    for strength in (0.0, 1.0):
        same = [engine.decisions_at(one, held_out, strength) for one in (model, again)]
        assert all((same[0][name] == same[1][name]).all() for name in same[0])


def test_answers_about_one_attribute_alone_teach_that_one(campaign: Campaign) -> None:
    engine = campaign.engine()
    assert isinstance(engine, AttributesEngine)
    truth, rows = people()[3], campaign.materials.training_rows()[:40].tolist()
    both = [GroupAnswer(row, int(truth[row, at]), 1.0, at) for row in rows for at in (0, 1)]
    alone = [one for one in both if one.attribute == 0]
    held_out = campaign.materials.held_out()
    race = truth[held_out, 1]
    with_race, without = (engine.fit(given, None) for given in (both, alone))
    known, even = (engine.proxies_of(1, one, held_out) for one in (with_race, without))
    assert (known.argmax(axis=1) == race).mean() > 0.55
    assert np.abs(even.mean(axis=0) - 1 / 3).max() < 0.1
    assert (engine.proxies_of(0, without, held_out).argmax(axis=1) == truth[held_out, 0]).mean() > 0.8


def test_the_classifier_is_the_model_that_was_measured(campaign: Campaign) -> None:
    classifier = campaign.classifier()
    features, _, score, _ = people()
    point = campaign.owner.results.operating_point()
    assert point is not None
    assert classifier.selected_strength_ == point.strength
    held_out = campaign.materials.held_out()
    engine = campaign.engine()
    assert isinstance(engine, AttributesEngine)
    model = campaign.refitter.load(campaign.refitter.snapshot())
    decided = engine.decisions_at(model, held_out, None)
    table = pd.DataFrame(np.column_stack([features, score])[held_out], columns=["x0", "x1", "x2", "score"])
    mine = (classifier.predict(table) == classifier.positive_).astype(int)
    assert (mine == decided.get("after", decided["before"])).all()


def test_every_attribute_is_audited_by_its_own_answers(campaign: Campaign) -> None:
    campaign.owner.refit()
    for name, groups in GROUPS.items():
        audit = campaign.owner.audit(attribute=name)
        assert audit is not None
        assert set(audit.to_dict()["predictions"]["before"]["groups"]) == set(groups)
    told = campaign.owner.results.history(1)[-1].outcome["audit"]
    assert told is not None
    drawn = {name: own["answers"] for name, own in told["attributes"].items() if own is not None}
    held_out = campaign.materials.held_out()[:20]
    assert drawn == {"sex": 20, "race": int((held_out % 6 != 5).sum())}
    assert sum(sum(one.values()) for one in told["attributes"]["race"]["told"].values()) == drawn["race"]


def test_an_attribute_nobody_audited_could_tell_leaves_the_audits_of_the_others(campaign: Campaign) -> None:
    found = campaign.refitter.snapshot()
    engine, materials = campaign.numerics()
    model, collected = campaign.refitter.load(found), found.collected
    assert model is not None
    untold = replace(collected, known=tuple(one for one in collected.known if one.purpose != "audit"))
    told, whole = (_audited(materials, engine, model, one, 0.0) for one in (untold, collected))
    assert told is not None
    assert whole is not None
    assert told["attributes"] == {"sex": None, "race": whole["attributes"]["race"]}
    assert (told["answers"], "before" in told) == (0, False)
    nobody = replace(untold, further=(replace(untold.further[0], known=()),))
    assert _audited(materials, engine, model, nobody, 0.0) is None


def test_report_and_dashboard_show_every_attribute(campaign: Campaign) -> None:
    facts = campaign_facts(campaign)
    assert facts["estimate"] is not None
    assert set(facts["estimate"]["attributes"]) == {"sex", "race"}
    page = render_campaign(facts)
    start = page.index('<section id="attributes">')
    section = page[start : page.index("</section>", start)]
    assert "a, b, c" in section
    assert section.count("<tr>") == 3  # titles, sex and race
    body = dashboard_body(campaign.owner.results.dashboard())
    assert [one["name"] for one in body["campaign"]["attributes"]] == ["sex", "race"]  # type: ignore[index]


def test_intersections_count_where_they_are_asked_for(tmp_path: Path) -> None:
    features, labels, score, _ = people()
    options = {"over_groups": "intersections"}
    with Campaign.create(
        tmp_path / "x.db", features, labels, groups=GROUPS, budget=60, score=score, engine_options=options,
        audit_share=0.2, refit="demand",
    ) as campaign:  # fmt: skip
        answer(campaign, tmp_path, 30, 10)
        assert campaign.owner.refit()
        outcome = campaign.owner.results.history(1)[-1].outcome
        assert set(outcome["estimate"]["attributes"]) == {"sex", "race", "intersections"}
        engine, held_out = campaign.engine(), campaign.materials.held_out()
        assert isinstance(engine, AttributesEngine)
        model = engine.fit(campaign.owner.answers(), None)
        assert model is not None
        kept = engine.load(model.state())
        assert (
            engine.decisions_at(kept, held_out, 1.0)["after"] == engine.decisions_at(model, held_out, 1.0)["after"]
        ).all()
    many = {f"a{place}": ["x", "y", "z"] for place in range(4)}
    with pytest.raises(InputError, match="81 intersections"):
        Campaign.create(tmp_path / "y.db", features, labels, groups=many, budget=20, engine_options=options)


def test_what_is_for_one_attribute_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    features, labels, _, _ = people()
    for wrong, said in (
        ({"engine_options": {"selector": "coreset"}}, "asks about one attribute"),
        ({"engine_options": {"group_share": "f=.5"}}, "told of one attribute"),
        ({"verify_share": 0.2}, "not verified yet"),
    ):
        with pytest.raises(InputError, match=said):
            Campaign.create(tmp_path / "x.db", features, labels, groups=GROUPS, budget=20, **wrong)
    assert not (tmp_path / "x.db").exists()
