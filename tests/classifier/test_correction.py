"""A classifier that keeps a model: the model itself at strength 0, its correction above it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from classifier_people import People
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from apod import APODClassifier, make_example
from apod.classifier import NoGroupsWarning
from apod.classifier.deployment import classifier_of
from apod.errors import InputError
from apod.method.corrected import model_pool
from apod.method.settings import Settings
from apod.models.estimator import RefitWarning
from apod.models.standard import fit_standard

TREES = HistGradientBoostingClassifier(max_iter=10, random_state=0)
FOREST = RandomForestClassifier(10, random_state=0)


def torch_module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(2, 1)


@pytest.fixture(scope="module")
def corrected(people: People) -> APODClassifier:
    """Nobody may change it: it is shared by all tests."""
    return APODClassifier(random_state=0).fit(people.X, people.y, sensitive_features=people.known)


@pytest.mark.parametrize(
    "model", [LogisticRegression(), TREES, FOREST, RidgeClassifier()], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize("positive", [0, 1])
def test_at_strength_0_it_is_the_users_model_bit_for_bit(model: Any, positive: int, people: People) -> None:
    names = np.array(["reject", "hire"], dtype=object)[people.y if positive else 1 - people.y]
    fair = APODClassifier(model, positive="hire", random_state=0)
    fair.fit(people.X, names, sensitive_features=people.known)
    alone = type(model)(**model.get_params()).fit(people.X, names)
    at_0 = fair.at(0)
    np.testing.assert_array_equal(at_0.predict(people.X), alone.predict(people.X))
    for method in ("predict_proba", "decision_function"):
        if hasattr(alone, method):
            np.testing.assert_array_equal(getattr(at_0, method)(people.X), getattr(alone, method)(people.X))
    assert hasattr(fair, "predict_proba") == hasattr(alone, "predict_proba")


@pytest.mark.parametrize("model", [None, FOREST, RidgeClassifier()], ids=["standard", "forest", "ridge"])
@pytest.mark.parametrize("positive", [0, 1])
def test_above_0_scores_cross_the_threshold_where_decisions_change(model: Any, positive: int, people: People) -> None:
    fair = APODClassifier(model, positive=positive, random_state=0)
    fair.fit(people.X, people.y, sensitive_features=people.known)
    before = fair.at(0).predict(people.X)
    changed = 0
    for strength in (0.05, 0.33, 1.4):
        other = fair.at(strength)
        predicted, margins = other.predict(people.X), other.decision_function(people.X)
        np.testing.assert_array_equal(margins * (1 if positive else -1) > 0, predicted == positive)
        if hasattr(other, "predict_proba"):
            probabilities = other.predict_proba(people.X)
            np.testing.assert_array_equal(probabilities[:, positive] > 0.5, predicted == positive)
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-15)
        changed += int((predicted != before).sum())
    assert changed > 0


def test_it_is_the_mitigation_of_the_layers_below_and_so_is_the_classifier_of_one(
    people: People, corrected: APODClassifier
) -> None:
    settings = Settings()
    fitted = fit_standard(people.X, people.y, 0)
    pool = model_pool(fitted, (people.X, people.y))
    mitigation = pool.mitigation(settings, 2, 0, "classifier")
    for row in np.flatnonzero(people.known != None):  # noqa: E711
        mitigation.add_answer(0, int(row), ["circle", "triangle"].index(people.known[row]))
    mitigation.refit()
    assert mitigation.fitted is not None
    assert corrected.selected_strength_ == mitigation.fitted.strength
    assert corrected.selection_ is not None
    assert corrected.selection_.before == mitigation.fitted.estimates(300, 0)[0]
    assert corrected.query(6).tolist() == [question.row for question in mitigation.ask(6)]
    again = classifier_of(
        pool,
        mitigation,
        settings,
        name=fitted.name,
        columns=list(people.X.columns),
        classes=np.array([0, 1]),
        positive=1,
        group_names=("circle", "triangle"),
    )
    assert (again.model_, again.groups_) == (corrected.model_, corrected.groups_)
    pd.testing.assert_frame_equal(again.tradeoff_, corrected.tradeoff_)
    for strength in (0, 0.2, 1):
        one, other = again.at(strength), corrected.at(strength)
        np.testing.assert_array_equal(one.predict_proba(people.X), other.predict_proba(people.X))


def test_a_row_gets_the_same_bits_alone_in_company_and_in_any_order(people: People, corrected: APODClassifier) -> None:
    after = corrected.at(0.5)
    everybody = after.decision_function(people.X)
    alone = [after.decision_function(people.X.iloc[[row]])[0] for row in range(0, 300, 23)]
    np.testing.assert_array_equal(alone, everybody[::23])
    np.testing.assert_array_equal(after.decision_function(people.X.iloc[::-1]), everybody[::-1])


def test_the_table_says_what_happens_to_the_decisions_along_the_path(people: People) -> None:
    frozen = FrozenEstimator(LogisticRegression().fit(people.X, people.y))  # its own scores are the judged ones
    fair = APODClassifier(frozen, random_state=0).fit(people.X, people.y, sensitive_features=people.everyone)
    table, before = fair.tradeoff_, fair.at(0).predict(people.X)
    assert table["strength"][0] == table["changed"][0] == table["fall"][0] == 0
    for row in (0, 5, 12, 20):
        after = fair.at(table["strength"][row]).predict(people.X)
        assert table["changed"][row] == pytest.approx((after != before).mean())
        lost = (before == people.y).mean() - (after == people.y).mean()
        assert table["accuracy_lost"][row] == pytest.approx(lost)
    rates = [[after[(people.y == y) & (people.everyone == g)].mean() for g in ("circle", "triangle")] for y in (0, 1)]
    gap = sum(abs(one - other) for one, other in rates)
    assert table["gap_low"][20] <= gap <= table["gap_high"][20]


def test_with_everybody_known_the_gap_falls_within_the_limits(people: People) -> None:
    wide = {"max_accuracy_loss": 0.1, "max_balanced_loss": 0.1}
    fair = APODClassifier(random_state=0, **wide).fit(people.X, people.y, sensitive_features=people.everyone)
    selection = fair.selection_
    assert selection is not None
    assert selection.strength == fair.selected_strength_ > 0
    assert selection.before is not None
    assert selection.after is not None
    assert selection.after.gap < selection.before.gap
    assert selection.verification == "not verified"
    row = fair.tradeoff_.set_index("strength").loc[fair.selected_strength_]
    assert row["accuracy_lost"] < 0.1
    assert fair.selected_because_ == selection.reason
    assert "support this one most" in selection.reason


def test_first_questions_alternate_between_the_labels_and_later_ones_are_new(
    people: People, corrected: APODClassifier
) -> None:
    plain = APODClassifier(random_state=0).fit(people.X, people.y)
    rows = plain.query(20)
    assert sorted(people.y[rows].tolist()) == [0] * 10 + [1] * 10
    np.testing.assert_array_equal(plain.query(8), rows[:8])
    annotated = set(np.flatnonzero(people.known != None).tolist())  # noqa: E711
    again = corrected.query(9)
    assert annotated.isdisjoint(again.tolist())
    np.testing.assert_array_equal(corrected.query(9), again)
    assert set(corrected.query(5, exclude=again[:3]).tolist()).isdisjoint(again[:3].tolist())
    assert len(corrected.query(1000)) == 300 - len(annotated)


def test_groups_known_with_probability_one_are_groups_that_are_known(people: People, corrected: APODClassifier) -> None:
    names = ["triangle", "circle"]
    membership = np.array([[float(name == one) for one in names] for name in people.known])
    soft = APODClassifier(random_state=0).fit_membership(people.X, people.y, membership, names)
    assert soft.groups_ == corrected.groups_
    assert soft.selection_ == corrected.selection_
    doubt = 0.6 * membership + 0.4 * membership[:, ::-1]
    unsure = APODClassifier(random_state=0).fit_membership(people.X, people.y, doubt, names)
    assert unsure.tradeoff_["gap"][0] != soft.tradeoff_["gap"][0]


def test_a_pipeline_gets_text_and_gaps_as_they_are_and_f_a_reads_what_it_can(people: People) -> None:
    frame = people.X.assign(
        about=[f"person {row} likes {'tea' if x > 0 else 'coffee'}" for row, x in enumerate(people.X["merit"])],
        since=pd.Timestamp("2020-01-01"),
        shape=people.everyone,
    )
    frame.loc[::7, "merit"] = np.nan
    columns = make_column_transformer(
        (CountVectorizer(), "about"), ("passthrough", ["merit", "neighbourhood"]), sparse_threshold=0
    )
    model = make_pipeline(columns, TREES)
    fair = APODClassifier(model, random_state=0).fit(frame, people.y, sensitive_features=people.known)
    reads = fair._state.reads  # type: ignore[union-attr]
    assert reads.columns == ("merit", "neighbourhood")
    assert dict(reads.words) == {"about": ("coffee", "tea")}  # what one person wrote alone is not kept
    alone = make_pipeline(columns, TREES).fit(frame, people.y)
    np.testing.assert_array_equal(fair.at(0).predict_proba(frame), alone.predict_proba(frame))
    assert (fair.at(1.0).predict(frame) != alone.predict(frame)).any()


def test_a_list_of_texts_is_rows_too(people: People) -> None:
    texts = ["tea and cake" if x > 0 else "coffee" for x in people.X["merit"]]
    model = make_pipeline(CountVectorizer(), LogisticRegression())
    fair = APODClassifier(model, random_state=0).fit(texts, people.y, sensitive_features=people.known)
    alone = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, people.y)
    np.testing.assert_array_equal(fair.at(0).predict(texts), alone.predict(texts))
    assert fair.at(0.5).predict_proba(texts[:3]).shape == (3, 2)


def test_a_torch_module_of_logits_stays_as_it_is(people: People) -> None:
    module, X = torch_module(), people.X.to_numpy(dtype=np.float32).copy()
    fair = APODClassifier(module, random_state=0).fit(X, people.y, sensitive_features=people.known)
    with torch.no_grad():
        logits = module(torch.from_numpy(X)).numpy()[:, 0].astype(np.float64)
    np.testing.assert_array_equal(fair.at(0).decision_function(X), logits)
    np.testing.assert_array_equal(fair.at(0).predict(X), (logits > 0).astype(int))
    assert fair.at(0.5).predict(X).shape == (300,)


def test_a_threshold_is_kept(people: People) -> None:
    model = FrozenEstimator(LogisticRegression().fit(people.X, people.y))
    fair = APODClassifier(model, threshold=0.3, random_state=0)
    fair.fit(people.X, people.y, sensitive_features=people.known)
    scores = model.predict_proba(people.X)
    np.testing.assert_array_equal(fair.at(0).predict_proba(people.X), scores)
    np.testing.assert_array_equal(fair.at(0).predict(people.X), (scores[:, 1] > 0.3).astype(int))
    after = fair.at(0.4)
    np.testing.assert_array_equal(after.predict(people.X) == 1, after.predict_proba(people.X)[:, 1] > 0.3)


def test_without_groups_there_is_nothing_but_the_model(people: People) -> None:
    plain = APODClassifier(random_state=0).fit(people.X, people.y)
    assert (plain.groups_, plain.selected_strength_, plain.tradeoff_["strength"].tolist()) == ((), 0.0, [0.0])
    assert "Nobody's group is known" in str(plain.selected_because_)
    with pytest.raises(InputError, match="only strength 0 is available"):
        plain.at(0.5)
    with pytest.warns(NoGroupsWarning):
        APODClassifier(strength=0.5, random_state=0).fit(people.X, people.y)


def test_the_strength_asked_for_is_used(people: People, corrected: APODClassifier) -> None:
    asked = APODClassifier(strength=0.77, random_state=0).fit(people.X, people.y, sensitive_features=people.known)
    assert (asked.selected_strength_, asked.selected_because_) == (0.77, "Given by the caller.")
    np.testing.assert_array_equal(asked.predict(people.X), corrected.at(0.77).predict(people.X))
    for bad in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="pass a number from 0 up"):
            corrected.at(bad)


def test_a_pickled_one_predicts_and_asks_the_same(corrected: APODClassifier, people: People) -> None:
    copy = pickle.loads(pickle.dumps(corrected))  # noqa: S301  (our own bytes)
    np.testing.assert_array_equal(copy.at(1).predict_proba(people.X), corrected.at(1).predict_proba(people.X))
    np.testing.assert_array_equal(copy.query(4), corrected.query(4))


class Mute:
    """Predicts, but ranks nobody."""

    def fit(self, X: Any, y: Any) -> Mute:
        return self


BAD: list[tuple[dict[str, Any], str]] = [
    ({"estimator": LogisticRegression(), "body": "contrastive"}, "estimator and body are both given"),
    ({"rounds": 3}, "rounds is a parameter of heads on a body: add body='contrastive', or leave it out"),
    ({"strengths": [0.1]}, "strengths is a parameter of heads"),
    ({"body": "contrastive", "caution": 0.5}, "caution is a parameter of a corrected model"),
    ({"body": "contrastive", "selector": "gap"}, "asks by the posterior of a correction"),
    ({"selector": "best"}, "There is no selector 'best'"),
    ({"threshold": 1.5}, "The threshold is 1.5: probabilities need one between 0 and 1"),
    ({"threshold": "half"}, "threshold is 'half'"),
    ({"max_accuracy_loss": -1}, "max_accuracy_loss is -1"),
    ({"caution": None}, "caution is None"),
    ({"strength": "strong"}, "A strength is 'strong'"),
    ({"strength": -1.0}, "must be positive or 0"),
    ({"estimator": Mute()}, "Mute has neither predict_proba nor decision_function"),
    ({"estimator": LogisticRegression}, "pass an instance"),
    ({"estimator": FrozenEstimator(LogisticRegression())}, "LogisticRegression is not fitted"),
    (
        {"estimator": FixedThresholdClassifier(LogisticRegression(), threshold=0.2)},
        "does not predict by a score of 0.5: pass the threshold it decides at",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), BAD, ids=[str(bad)[:60] for bad, _ in BAD])
def test_what_cannot_be_is_one_line(parameters: dict[str, Any], message: str, people: People) -> None:
    with pytest.raises(InputError, match=message) as refused:
        APODClassifier(**parameters).fit(people.X, people.y, sensitive_features=people.known)
    assert "\n" not in str(refused.value)


def test_a_model_of_other_labels_is_refused_and_a_fitted_one_is_refitted_with_a_warning(people: People) -> None:
    names = np.array(["no", "yes"])[people.y]
    fitted = LogisticRegression().fit(people.X, names)
    with pytest.raises(InputError, match=r"The model predicts \['no', 'yes'\] and the labels are \[0, 1\]"):
        APODClassifier(FrozenEstimator(fitted)).fit(people.X, people.y)
    with pytest.warns(RefitWarning, match="wrap it in sklearn.frozen.FrozenEstimator"):
        APODClassifier(fitted).fit(people.X, people.y)
    assert fitted.classes_.tolist() == ["no", "yes"]


def test_a_row_that_the_model_fails_on_is_named(people: People) -> None:
    hole = people.X.copy()
    hole.iloc[17, 0] = np.nan
    fair = APODClassifier(LogisticRegression()).fit(people.X, people.y, sensitive_features=people.known)
    for strength in (0, 0.5):
        with pytest.raises(
            InputError, match=r"LogisticRegression failed with ValueError on row 17 \(counting from 0\)"
        ):
            fair.at(strength).predict(hole)


def test_sample_weight_reaches_model_calibration_and_correction() -> None:
    people = make_example(500, seed=2)
    known = np.where(np.arange(500) % 5 == 0, np.array(people.group_names, dtype=object)[people.groups], None)
    plain = APODClassifier(random_state=0).fit(people.features, people.labels, sensitive_features=known)
    alike = APODClassifier(random_state=0).fit(
        people.features, people.labels, sensitive_features=known, sample_weight=np.full(500, 3.0)
    )
    np.testing.assert_allclose(alike.tradeoff_.to_numpy(), plain.tradeoff_.to_numpy(), atol=2e-3)
    weights = np.where(people.groups == 0, 5.0, 1.0)
    fit = APODClassifier(LogisticRegression(), random_state=0)
    fit.fit(people.features, people.labels, sensitive_features=known, sample_weight=weights)
    own = LogisticRegression().fit(people.features, people.labels, sample_weight=weights)
    np.testing.assert_allclose(fit.at(0.0).predict_proba(people.features), own.predict_proba(people.features))
    assert fit.tradeoff_["gap"].iloc[0] != plain.tradeoff_["gap"].iloc[0]


def test_weights_that_cannot_be_used_are_refused_in_a_line() -> None:
    people = make_example(60, seed=2)
    with pytest.raises(InputError, match="KNeighborsClassifier takes no sample_weight"):
        APODClassifier(KNeighborsClassifier()).fit(people.features, people.labels, sample_weight=np.ones(60))
    with pytest.raises(InputError, match="sample_weight is for a corrected model"):
        APODClassifier(body="contrastive").fit(people.features, people.labels, sample_weight=np.ones(60))
    with pytest.raises(InputError, match="sample_weight has 1 negative weights"):
        APODClassifier().fit(people.features, people.labels, sample_weight=[-1.0] + [1.0] * 59)


def test_a_selection_rate_holds_without_and_with_the_correction() -> None:
    people = make_example(1200, seed=4)
    known = np.where(np.arange(1200) % 4 == 0, np.array(people.group_names, dtype=object)[people.groups], None)
    fit = APODClassifier(LogisticRegression(), selection_rate=0.3, caution=0.0, random_state=0)
    fit.fit(people.features, people.labels, sensitive_features=known)
    assert fit.selected_strength_ > 0
    for strength in (0.0, fit.selected_strength_):
        share = (fit.at(strength).predict(people.features) == 1).mean()
        assert share == pytest.approx(0.3, abs=0.03)
