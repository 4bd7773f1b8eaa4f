"""What a refit measures: against counts by hand, and against what is known of principal components."""

from __future__ import annotations

import html

import numpy as np
import pytest
from sklearn.decomposition import PCA

from apod.campaign import Campaign
from apod.campaign import classifier as campaign_classifier
from apod.campaign.measuring import plane
from apod.campaign.outcomes import measured, thinned
from apod.errors import InputError
from apod.method.algorithm1 import Answers
from apod.method.choice import Gate
from apod.randomness import generator
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign
from apod.testing.engines import GROUPS, Place, Workshop, answer_all


@pytest.fixture
def real(tmp_path) -> Campaign:
    from apod.campaign.heads_engine import MitigationEngine

    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files"), MitigationEngine)
    options = {"strengths": [0.5, 1.0], "epochs": 1, "body_epochs": 1}
    campaign = workshop.create(rows=120, budget=12, engine_options=options)
    answer_all(campaign)
    campaign.owner.refit()
    yield campaign
    campaign.close()


def test_the_curve_is_the_accuracy_and_gap_of_the_heads_on_the_pool(real: Campaign) -> None:
    achieved = real.owner.results.history()[-1]
    engine = real.engine()
    model = real.refitter.load(real.refitter.snapshot())
    mitigation = engine._restored(model)  # type: ignore[attr-defined]
    predicted = (mitigation.heads.margins(mitigation.pool.embeddings) > 0).numpy()
    labels = real.materials.labels()
    member = mitigation.membership(mitigation.pool.seen)[0].double().numpy()
    for answer in real.owner.answers():
        member[answer.row] = np.eye(2)[answer.group]
    for k, point in enumerate(achieved.outcome["curve"]):
        assert point["accuracy"] == pytest.approx((predicted[k] == labels).mean())
        rates = [
            [np.average(predicted[k][labels == label], weights=member[labels == label, group]) for group in (0, 1)]
            for label in (0, 1)
        ]
        assert point["gap"] == pytest.approx(sum(abs(first - second) for first, second in rates), abs=1e-6)
        assert point["selected"] == pytest.approx(predicted[k].mean())
        assert set(point) == {"strength", "accuracy", "selected", "gap"}  # a guess has no interval
    assert (
        [point["strength"] for point in achieved.outcome["curve"]]
        == [0.0, 0.5, 1.0]
        == list(real.owner.results.strengths())
    )
    assert achieved.answers == 12


def test_the_bound_and_the_map_are_there(real: Campaign) -> None:
    bound = real.owner.results.history()[-1].outcome["bound"]
    assert bound["bound"] == pytest.approx(bound["epsilon"] + min(bound["sampling_term"], bound["covering_term"]))
    assert set(bound["groups"]) == set(GROUPS)
    found = real.owner.results.pool_map()
    assert found is not None
    assert len(found["points"]["x"]) == 120
    assert len(found["asked"]["x"]) == 12


def test_audit_answers_are_measured_with_the_model(tmp_path) -> None:
    from apod.campaign.heads_engine import MitigationEngine

    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files"), MitigationEngine)
    options = {"strengths": [0.5], "epochs": 1, "body_epochs": 1}
    campaign = workshop.create(rows=300, budget=24, audit_share=0.5, engine_options=options)
    answer_all(campaign)
    campaign.owner.refit()
    asked = [entry for entry in campaign.owner.log() if entry["what"] == "asked"]
    assert asked[-1]["purpose"] == "audit"  # no refit comes after the last answer: it is measured all the same
    found, expected = campaign.owner.results.history()[-1].outcome["audit"], campaign.owner.audit()
    assert expected is not None
    assert found["answers"] == expected.drawn > 5
    assert {name: found["before"][name] for name in ("value", "low", "high")} == expected.views["before"].gap.to_dict()
    assert found["before"]["groups"] == expected.to_dict()["predictions"]["before"]["groups"]
    told = [
        (campaign.settings.groups[a.group], campaign.materials.label(a.row)) for a in campaign.owner.answers("audit")
    ]
    for name, counts in found["told"].items():
        assert counts == {"negative": told.count((name, 0)), "positive": told.count((name, 1))}
    assert found["change"] is None  # nothing is mitigated before an operating point is chosen
    before = campaign.owner.results.history()
    campaign.owner.refit()
    assert campaign.owner.results.history() == before, "measured again although nothing was answered"
    campaign.owner.erase(row=asked[-1]["row"])
    assert [kept.event for kept in campaign.owner.results.history()] == [kept.event for kept in before[:-1]]
    campaign.owner.refit()
    assert campaign.owner.results.history()[-1].outcome["audit"]["answers"] == expected.drawn - 1
    campaign.close()


def test_the_chosen_operating_point_is_the_classifiers(real: Campaign) -> None:
    real.owner.choose(1.0)
    assert real.owner.results.operating_point().strength == 1.0
    assert real.classifier().selected_strength_ == 1.0
    real.owner.choose(0.0)
    assert real.classifier().selected_strength_ == 0.0
    assert real.owner.results.operating_point().to_json() == {
        "strength": 0.0, "because": "Chosen by the owner.", "by": "owner", "audit": None, "estimate": None,
            "confirmation": None, "verification": None,
    }  # fmt: skip


def test_a_campaign_that_equalises_selection_rates_measures_and_audits_their_gap(tmp_path) -> None:
    from apod.campaign.heads_engine import MitigationEngine

    workshop = Workshop(Place(f"sqlite:///{tmp_path}/parity.db", tmp_path / "files"), MitigationEngine)
    options = {"strengths": [0.5], "epochs": 1, "body_epochs": 1, "notion": "demographic_parity"}
    campaign = workshop.create(rows=160, budget=24, engine_options=options, audit_share=0.5)
    answer_all(campaign)
    campaign.owner.refit()
    outcome = campaign.owner.results.history()[-1].outcome
    assert outcome["notion"] == "demographic_parity"
    engine = campaign.engine()
    mitigation = engine._restored(campaign.refitter.load(campaign.refitter.snapshot()))
    predicted = (mitigation.heads.margins(mitigation.pool.embeddings) > 0).numpy()
    member = mitigation.membership(mitigation.pool.seen)[0].double().numpy()
    places = {int(row): place for place, row in enumerate(campaign.materials.training_rows())}
    for answer in campaign.owner.answers():
        member[places[answer.row]] = np.eye(2)[answer.group]
    for k, point in enumerate(outcome["curve"]):
        rates = [np.average(predicted[k], weights=member[:, group]) for group in (0, 1)]
        assert point["gap"] == pytest.approx(abs(rates[0] - rates[1]), abs=1e-6)
    audited = campaign.owner.audit()
    assert audited.notion.name == "demographic_parity"
    for view in audited.views.values():
        assert view.gap.high == pytest.approx(
            max(abs(view.differences["selection_rate"].low), abs(view.differences["selection_rate"].high)), abs=0.1
        )
    campaign.close()


def test_classifier_dashboard_and_report_name_one_operating_point_and_why(tmp_path) -> None:
    from apod.campaign.heads_engine import MitigationEngine

    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files"), MitigationEngine)
    options = {"strengths": [0.5, 1.0], "epochs": 1, "body_epochs": 1}
    with workshop.create(rows=300, budget=16, audit_share=0.5, engine_options=options, refit="demand") as campaign:
        for _ in range(12):
            question = campaign.ask("maria")
            campaign.tell(question, GROUPS[question.row % 2])
        campaign.owner.refit()
        assert campaign.owner.results.operating_point() is None  # nothing is said of a classifier that nobody built
        assert campaign.owner.results.dashboard().operating is None
        classifier = campaign.classifier()
        point, facts = campaign.owner.results.operating_point(), campaign_facts(campaign)
        assert point.strength == classifier.selected_strength_ == facts["strength"]
        assert point.because == classifier.selected_because_ == facts["selected_because"]
        assert campaign.owner.results.dashboard().operating == point.to_json()
        assert point.because in html.unescape(render_campaign(facts))
        audited = facts["audit"]["predictions"]
        assert ("after" in point.audit) == ("after" in audited) == (point.strength > 0)
        for name, view in audited.items():
            assert {end: point.audit[name][end] for end in ("value", "low", "high")} == view["gap"]
        campaign.tell(campaign.ask("maria"), GROUPS[0])
        assert (
            campaign.owner.results.operating_point() is None
        )  # the answers are others than the classifier was built from
        campaign.owner.choose(0.5)
        facts = campaign_facts(campaign)
        assert facts["strength"] == campaign.owner.results.operating_point().strength == 0.5
        assert "Chosen by the owner." in render_campaign(facts)


def left_of_answers(campaign: Campaign) -> list[str]:
    """Files of a campaign that its log does not name as those of its people."""
    known = str([entry for entry in campaign.owner.log() if entry["what"] in ("created", "computed")])
    files = [path for path in campaign.files.folder.rglob("*") if path.is_file()]
    return [path.name for path in files if path.stem not in known]


@pytest.mark.parametrize("when", ["after the classifier was fitted", "meanwhile"])
def test_erasing_leaves_no_file_that_was_computed_from_the_answer(real: Campaign, when: str, monkeypatch) -> None:
    rows = [answer.row for answer in real.owner.answers()]
    fit = campaign_classifier.fit_classifier

    def fit_while_erasing(campaign: Campaign, strength: float | None) -> object:
        fitted = fit(campaign, strength)
        real.owner.erase(row=rows[0])
        return fitted

    if when == "meanwhile":
        monkeypatch.setattr(campaign_classifier, "fit_classifier", fit_while_erasing)
        real.classifier()
    else:
        real.classifier()
        assert left_of_answers(real)
        real.owner.erase(row=rows[0])
    assert left_of_answers(real) == []
    assert real.owner.results.operating_point() is None


def test_a_report_says_so_where_nothing_was_changed(real: Campaign) -> None:
    real.owner.choose(0.0)
    page = render_campaign(campaign_facts(real))
    assert "Nothing was changed. Chosen by the owner." in page
    assert "cannot be said yet" not in page
    assert "±0.0" not in page


def test_the_map_is_that_of_principal_components_up_to_sign() -> None:
    rng = generator(1, "plane")
    points = (rng.normal(size=(500, 6)) * [5, 3, 1, 1, 0.5, 0.1]).astype(np.float32)
    found = plane(points)
    reference = PCA(2).fit(points.astype(np.float64))
    expected = reference.transform(points.astype(np.float64))
    for axis in (0, 1):
        assert abs(np.corrcoef(found["points"][:, axis], expected[:, axis])[0, 1]) == pytest.approx(1, abs=1e-6)
    assert found["share"] == pytest.approx(reference.explained_variance_ratio_, rel=1e-6)
    assert np.array_equal(plane(points)["points"], found["points"])


@pytest.mark.parametrize("width", [1, 2])
def test_a_map_of_few_or_constant_columns_exists(width: int) -> None:
    found = plane(np.ones((10, width), dtype=np.float32))
    assert found["points"].shape == (10, 2)
    assert np.isfinite(found["points"]).all()
    assert found["share"].tolist() == [0, 0]


@pytest.mark.parametrize(("count", "most"), [(0, 5), (3, 5), (5, 5), (100, 7), (1000, 200), (9, 1)])
def test_thinning_keeps_the_last_and_at_most_so_many(count: int, most: int) -> None:
    kept = thinned(count, most)
    assert len(kept) == min(count, most)
    assert kept == sorted(set(kept))
    if count:
        assert kept[-1] == count - 1
        assert kept[0] == (0 if most > 1 else count - 1)


def test_where_annotators_disagree_the_heaviest_group_is_the_likeliest() -> None:
    answers = Answers((4, 4, 7, 2, 2), (0, 1, 1, 1, 0), (0.3, 0.7, 1.0, 0.5, 0.5))
    rows, groups = answers.likeliest()
    assert dict(zip(rows.tolist(), groups.tolist(), strict=True)) == {4: 1, 7: 1, 2: 0}
    alone = Answers((4, 7, 2), (0, 1, -1))
    assert [part.tolist() for part in alone.likeliest()] == [[4, 7], [0, 1]]


def test_a_campaign_pauses_by_itself_once_and_goes_on_when_told(tmp_path, monkeypatch) -> None:
    from apod.campaign.heads_engine import MitigationEngine

    monkeypatch.setattr(
        "apod.method.head_mitigation.Mitigation.gate", Gate(clear=0.0)
    )  # these people's groups are random: no direction is ever clear
    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files"), MitigationEngine)
    options = {"strengths": [0.5, 1.0], "epochs": 3, "body_epochs": 1, "head_steps": 0}
    with workshop.create(rows=120, budget=24, engine_options=options, least_gain=1.9, refit="demand") as campaign:
        answer_all(campaign)
        asked = campaign.status().answered
        assert 0 < asked < 24
        assert campaign.status().paused_because == "least gain"
        assert campaign.owner.results.outlook() is None  # it pauses by what it does not show
        campaign.owner.pause(False)
        assert campaign.status().paused_because is None
        answer_all(campaign)
        assert campaign.status().answered == 24
        assert not campaign.status().paused
        assert [entry["what"] for entry in campaign.owner.log()].count("paused") == 2
        assert campaign.owner.verify_log().ok
    with workshop.open() as again:
        assert again.status().answered == 24


def test_a_least_gain_that_could_not_be_told_is_refused(tmp_path) -> None:
    workshop = Workshop(Place(f"sqlite:///{tmp_path}/trial.db", tmp_path / "files"), None)
    for settings in ({"least_gain": 0.01, "engine_options": {"preset": "heads", "proxy": "logistic"}},
                     {"least_gain": 0.01, "engine_options": {"preset": "paper"}},
                     {"engine_options": {"least_gain": 0.01}}, {"least_gain": -1}):  # fmt: skip
        with pytest.raises(InputError, match="least gain"):
            workshop.create(rows=50, **settings)
    assert not list(tmp_path.iterdir())


def test_the_gap_to_expect_of_a_posterior_that_does_not_cover_is_shown_nowhere(real: Campaign) -> None:
    for one in real.owner.results.history():
        assert one.outcome["outlook"] is None
        assert one.outcome["outlook_withheld"].startswith("Withheld")
    assert real.owner.results.outlook() is None
    assert real.owner.results.outlook_shown()["outlook_withheld"].startswith("Withheld")
    facts = campaign_facts(real)
    assert facts["outlook"] is None
    page = render_campaign(facts)
    assert "gap to expect is" not in page
    assert facts["outlook_withheld"] in page


def test_the_outlook_of_a_campaign_is_that_of_its_heads_on_the_pool(real: Campaign, monkeypatch) -> None:
    monkeypatch.setattr("apod.method.proxy.LaplaceProxy.covers", True)
    collected = real.refitter.snapshot().collected
    engine, model = real.engine(), real.refitter.load(real.refitter.snapshot())
    found = measured(real.materials, engine, model, collected, collected.weigh())
    assert found.outcome is not None
    outlook = found.outcome["outlook"]
    assert [entry["answers"] for entry in outlook] == [12, 15, 18, 24, 36, 48]
    mitigation = engine._restored(model)  # type: ignore[attr-defined]
    head = mitigation.strengths.tolist().index(outlook[0]["strength"])
    predicted = (mitigation.heads.margins(mitigation.pool.embeddings) > 0).numpy()[head]
    labels = real.materials.labels()
    gaps = []
    for drawn in mitigation.proxy.draws(mitigation.pool.seen)[:, 0].double().numpy():
        rates = [
            [np.average(predicted[labels == label], weights=drawn[labels == label, group]) for group in (0, 1)]
            for label in (0, 1)
        ]
        gaps.append(sum(abs(first - second) for first, second in rates))
    assert outlook[0]["gap"] == pytest.approx(np.mean(gaps), abs=1e-5)
    assert outlook[0]["interval"] == pytest.approx(np.quantile(gaps, (0.025, 0.975)), abs=1e-5)
