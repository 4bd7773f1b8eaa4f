"""The classifier trains, chooses and asks exactly as Algorithm 1 does, and the gap shrinks."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import torch
from classifier_people import FAST, People, make_people
from fairlearn.metrics import MetricFrame, false_positive_rate, true_positive_rate
from sklearn.base import clone

import apod.classifier.estimator
from apod import APODClassifier, make_example
from apod.classifier.inputs import checked_settings
from apod.data import TableEncoder
from apod.errors import InputError
from apod.fairness.metrics import UndefinedRateWarning, evaluate
from apod.fairness.notions import NOTIONS
from apod.method.algorithm1 import Answers
from apod.method.choice import BestHeads, score_heads
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.penalty import RELAXATIONS
from apod.method.pool import Pool
from apod.method.selection import SELECTORS
from apod.method.settings import PRESETS, SETTINGS
from apod.models.perceptron import pretrain_body
from support.training import paper_training


def by_hand(people: People, training_rows: Any) -> tuple[Mitigation, BestHeads, Any]:
    """The same fit from the pieces of the layers below: mitigation, kept heads, embeddings of all rows."""
    encoder = TableEncoder().fit(people.X.iloc[training_rows])
    encoded = encoder.transform(people.X)
    body = pretrain_body(
        encoded[training_rows], width=16, blocks=[0, 1], epochs=2, batch_size=64, seed=1, name="classifier"
    )
    embeddings, labels = torch.from_numpy(body.embed(encoded)), torch.from_numpy(people.y)
    rest = np.setdiff1d(np.arange(len(people.y)), training_rows)
    pool = Pool("classifier", 1, embeddings[training_rows], labels[training_rows], embeddings[rest], labels[rest], 2)
    plan = Plan.shared([0.2, 1.0], "apod", ask_strength=0.5)
    mitigation = Mitigation(pool, plan, paper_training(hidden=(8,), epochs=2, batch_size=64))
    for row, group in enumerate(people.known[training_rows]):
        if group is not None:
            mitigation.add_answer(0, row, ["circle", "triangle"].index(group))
    best = BestHeads(mitigation.heads)
    for round_ in range(6):
        mitigation.refit()
        membership = mitigation.membership(pool.validation)[[0, 0, 0]]
        best.update(mitigation.heads, score_heads(pool, mitigation.heads, mitigation.strengths, membership), round_)
    return mitigation, best, embeddings.double().numpy()


def test_heads_questions_and_choices_are_those_of_a_mitigation_built_by_hand(people: People) -> None:
    paper = {"relaxation": "linear", "over": "annotated", "selector": "apod", "proxy": "perceptron"}
    fitted = APODClassifier(**FAST, **paper, proxy_reads="embeddings", head_steps=0, head_choice="score")
    fitted.fit(people.X, people.y, sensitive_features=people.known)
    rows = fitted.training_rows_
    mitigation, best, embeddings = by_hand(people, rows)
    assert fitted.query(6).tolist() == [int(rows[question.row]) for question in mitigation.ask(6)]
    assert fitted.tradeoff_["round"].tolist() == best.round.tolist()
    assert fitted.selected_strength_ == [0.0, 0.2, 1.0][best.best(mitigation.strengths)]
    for head, strength in enumerate((0.0, 0.2, 1.0)):
        flat = best.parameters[head].double().numpy()
        weight, bias, last, end = np.split(flat, [16 * 8, 17 * 8, 17 * 8 + 8 * 2])
        hidden = np.maximum(embeddings @ weight.reshape(16, 8) + bias, 0)
        logits = hidden @ last.reshape(8, 2) + end
        margins = fitted.at(strength).decision_function(people.X)
        np.testing.assert_allclose(margins, logits[:, 1] - logits[:, 0], atol=1e-5)


def test_its_defaults_are_those_of_the_settings() -> None:
    parameters = APODClassifier().get_params()
    shared = {name: getattr(PRESETS["default"], name) for name in SETTINGS if name in parameters}
    assert {name: parameters[name] for name in shared} == shared | {
        "strengths": "grid",
        "selector": None,
        "notion": None,
    }
    assert checked_settings(parameters) == PRESETS["default"]
    assert checked_settings(parameters | {"body": "contrastive"}) == PRESETS["heads"]
    asking = {"trajectories", "ask_strength", "questions_per_round", "least_gain"}  # a fit asks nothing
    assert SETTINGS.keys() - shared.keys() == asking


def test_probabilities_decisions_and_classes_agree(people: People, fitted: APODClassifier) -> None:
    margins, proba = fitted.decision_function(people.X), fitted.predict_proba(people.X)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-margins)), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(fitted.predict(people.X), (margins > 0).astype(int))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_gets_the_same_bits_alone_in_company_and_in_any_order(
    threads: int, people: People, fitted: APODClassifier
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        everyone = fitted.decision_function(people.X)
        alone = [fitted.decision_function(people.X.iloc[[row]])[0] for row in range(0, 300, 7)]
        backwards = fitted.decision_function(people.X.iloc[::-1])
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(alone, everyone[::7])
    np.testing.assert_array_equal(backwards, everyone[::-1])


def test_a_plain_fit_is_strength_0_of_any_fit_on_the_same_rows(people: People, fitted: APODClassifier) -> None:
    plain = APODClassifier(**FAST).fit(people.X, people.y)
    at_zero = fitted.at(0.0).decision_function(people.X)
    np.testing.assert_allclose(plain.decision_function(people.X), at_zero, atol=1e-4)


def test_another_operating_point_is_a_copy_of_the_same_fit(people: People, fitted: APODClassifier) -> None:
    before = fitted.decision_function(people.X)
    weak, strong = fitted.at(0.2), fitted.at(1.0)
    assert (weak.selected_strength_, strong.selected_strength_) == (0.2, 1.0)
    assert (weak.decision_function(people.X) != strong.decision_function(people.X)).any()
    np.testing.assert_array_equal(fitted.decision_function(people.X), before)
    assert weak.tradeoff_ is fitted.tradeoff_
    assert weak.query(3).tolist() == fitted.query(3).tolist()
    assert clone(strong).strength == 1.0
    for strength in (0.3, -1.0, float("nan")):
        with pytest.raises(InputError, match=r"only at 0, 0\.2, 1\."):
            fitted.at(strength)
    with pytest.raises(InputError, match="a plain fit: pass sensitive_features"):
        APODClassifier(**FAST).fit(people.X, people.y).at(0.2)


def test_the_strength_asked_for_is_trained_selected_and_asks(people: People, fitted: APODClassifier) -> None:
    settings = FAST | {"strength": 1.0, "strengths": [0.2]}
    asked = APODClassifier(**settings).fit(people.X, people.y, sensitive_features=people.known)
    assert asked.tradeoff_["strength"].tolist() == [0.0, 0.2, 1.0]
    assert asked.selected_strength_ == 1.0
    np.testing.assert_array_equal(
        asked.decision_function(people.X), fitted.at(1.0).decision_function(people.X)
    )  # the same bank
    asking = asked._state.mitigation.plan.trajectories[0].head  # type: ignore[union-attr]
    assert asked.tradeoff_["strength"][asking] == 1.0
    plain = APODClassifier(**FAST | {"strength": 0.0}).fit(people.X, people.y, sensitive_features=people.known)
    assert plain.selected_strength_ == 0.0


def test_the_table_holds_what_the_heads_do_on_both_parts(people: People) -> None:
    everyone = APODClassifier(**FAST, head_choice="score")
    everyone.fit(people.X, people.y, sensitive_features=people.everyone)
    table, training = everyone.tradeoff_, everyone.training_rows_
    validation = np.setdiff1d(np.arange(300), training)
    assert table["annotated"].tolist() == [len(training)] * 3
    for row, strength in enumerate((0.0, 0.2, 1.0)):
        predicted = everyone.at(strength).predict(people.X)
        names = {"sensitive_features": people.everyone[validation]}
        rates = {
            rate: MetricFrame(
                metrics=metric, y_true=people.y[validation], y_pred=predicted[validation], **names
            ).by_group
            for rate, metric in (("tpr", true_positive_rate), ("fpr", false_positive_rate))
        }
        difference = sum(rate["circle"] - rate["triangle"] for rate in rates.values())
        accuracy = (predicted == people.y)[validation].mean()
        assert table.loc[row, "validation_accuracy"] == pytest.approx(accuracy)
        assert table.loc[row, "validation_fairness"] == pytest.approx(1 - abs(difference))
        assert table.loc[row, "score"] == pytest.approx(accuracy + 1 - abs(difference))
        for group in ("circle", "triangle"):
            inside = (people.everyone == group)[training]
            y, by_head = people.y[training][inside], predicted[training][inside]
            assert table.loc[row, f"tpr_{group}"] == pytest.approx(by_head[y == 1].mean())
            assert table.loc[row, f"fpr_{group}"] == pytest.approx(by_head[y == 0].mean())
    assert everyone.selected_strength_ == table["strength"][1:][table["score"][1:].idxmax()]


def test_every_strength_predicts_as_it_did_at_its_round() -> None:
    people = make_people(600, asked=60)
    fit = APODClassifier(**FAST | {"rounds": 8}).fit(people.X, people.y, sensitive_features=people.known)
    validation = np.setdiff1d(np.arange(600), fit.training_rows_)
    assert fit.tradeoff_["round"][0] == 7
    assert (fit.tradeoff_["round"] < 7).any()
    for row, strength in enumerate((0.0, 0.2, 1.0)):
        right = fit.at(strength).predict(people.X)[validation] == people.y[validation]
        assert fit.tradeoff_["validation_accuracy"][row] == pytest.approx(right.mean())


def test_three_positives_leave_none_to_validate_and_the_plain_head() -> None:
    rng = np.random.default_rng(0)
    y = np.zeros(200, dtype=int)
    y[:3] = 1
    groups = np.full(200, None, dtype=object)
    groups[:20] = np.where(np.arange(20) % 2, "circle", "triangle")
    fit = APODClassifier(**FAST).fit(rng.standard_normal((200, 3)), y, sensitive_features=groups)
    assert fit.selected_strength_ == 0.0


def test_annotated_rows_all_train_while_others_are_left_to_validate(people: People, fitted: APODClassifier) -> None:
    annotated = np.flatnonzero(people.known != None)  # noqa: E711
    assert np.isin(annotated, fitted.training_rows_).all()
    anybody = people.everyone.copy()
    anybody[100:] = None  # not the rows a query chose
    fit = APODClassifier(**FAST | {"strength": 0.2}).fit(people.X, people.y, sensitive_features=anybody)
    assert np.isin(np.arange(100), fit.training_rows_).all()
    assert len(fit.training_rows_) == len(fitted.training_rows_)


def test_first_questions_alternate_between_the_labels_and_depend_on_nothing_but_the_seed(people: People) -> None:
    plain = APODClassifier(**FAST).fit(people.X, people.y)
    rows = plain.query(20)
    assert people.y[rows].tolist() == [1, 0] * 10
    assert len(set(rows.tolist())) == 20
    assert np.isin(rows, plain.training_rows_).all()
    np.testing.assert_array_equal(plain.query(8), rows[:8])
    np.testing.assert_array_equal(plain.query(8, exclude=rows[:2].tolist()), rows[2:10])
    other_body = APODClassifier(**FAST | {"body": "cross_entropy", "hidden": (4,)}).fit(people.X, people.y)
    np.testing.assert_array_equal(other_body.query(20), rows)
    other_seed = APODClassifier(**FAST | {"random_state": 2}).fit(people.X, people.y)
    assert other_seed.query(20).tolist() != rows.tolist()


@pytest.mark.parametrize("selector", SELECTORS)
def test_questions_are_new_different_and_always_the_same(selector: str, people: People) -> None:
    fit = APODClassifier(**FAST | {"selector": selector}).fit(people.X, people.y, sensitive_features=people.known)
    annotated = set(np.flatnonzero(people.known != None).tolist())  # noqa: E711
    rows = fit.query(9)
    assert len(set(rows.tolist())) == 9
    assert annotated.isdisjoint(rows.tolist())
    assert np.isin(rows, fit.training_rows_).all()
    np.testing.assert_array_equal(fit.query(9), rows)
    again = fit.query(5, exclude=rows[:3])
    assert set(again.tolist()).isdisjoint(rows[:3].tolist())
    left = len(fit.training_rows_) - len(annotated)
    assert len(fit.query(1000)) == left
    assert len(fit.query(1000, exclude=fit.query(1000).tolist())) == 0


def test_the_size_of_a_batch_must_be_a_count(fitted: APODClassifier) -> None:
    for size in (0, -1, 1.5, "two"):
        with pytest.raises(InputError, match="batch_size is"):
            fitted.query(size)  # type: ignore[arg-type]


def test_the_order_of_life_ask_annotate_fit_again(people: People) -> None:
    groups: list[Any] = [None] * 300
    classifier = APODClassifier(**FAST).fit(people.X, people.y).set_params(strength=0.2)
    asked: set[int] = set()
    for batch in (8, 4, 4):
        for row in classifier.query(batch):
            assert row not in asked
            asked.add(int(row))
            groups[row] = people.everyone[row]
        classifier.fit(people.X, people.y, sensitive_features=groups)
    assert classifier.tradeoff_["annotated"].tolist() == [16] * 3


@pytest.mark.parametrize("penalty", NOTIONS)
@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize(("over", "proxy"), [("annotated", "perceptron"), ("pool", "logistic")])
def test_every_penalty_trains(penalty: str, relaxation: str, over: str, proxy: str, people: People) -> None:
    settings = {"notion": penalty, "relaxation": relaxation, "over": over, "proxy": proxy, "strength": 1.0}
    fit = APODClassifier(**FAST | settings).fit(people.X, people.y, sensitive_features=people.known)
    assert (fit.decision_function(people.X) != fit.at(0.0).decision_function(people.X)).any()


def test_where_the_guessed_groups_say_nothing_the_weakest_strength_is_taken_with_a_warning(people: People) -> None:
    X = np.zeros((300, 2))  # nothing tells the groups apart
    with pytest.warns(UndefinedRateWarning, match="the weakest was taken"):
        fit = APODClassifier(**FAST, head_choice="score").fit(X, people.y, sensitive_features=people.known)
    assert fit.selected_strength_ == 0.2
    assert fit.tradeoff_["score"].isna().all()


def test_where_nothing_tells_the_groups_apart_the_plain_head_stays(people: People) -> None:
    fit = APODClassifier(**FAST).fit(np.zeros((300, 2)), people.y, sensitive_features=people.known)
    assert fit.selected_strength_ == 0.0


class Scaled(torch.nn.Module):
    """A module whose outputs have mean 0 and spread 1 on some rows."""

    def __init__(self, inner: torch.nn.Module, embeddings: np.ndarray) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.from_numpy(embeddings.mean(axis=0)))
        self.register_buffer("spread", torch.from_numpy(embeddings.std(axis=0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.inner(x) - self.mean) / self.spread


def test_a_module_is_as_good_as_the_embeddings_it_makes_standardised(people: People) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Dropout(0.9), torch.nn.Tanh())
    X = people.X.to_numpy(dtype=np.float32).copy()
    with torch.no_grad():
        embeddings = module.eval()(torch.from_numpy(X)).numpy()
    settings = FAST | {"strength": 0.2}
    by_matrix = APODClassifier(**settings | {"body": "precomputed"})
    by_matrix.fit(embeddings, people.y, sensitive_features=people.known)
    scaled = Scaled(module, embeddings[by_matrix.training_rows_])
    scaled.train()  # the classifier's copy is in evaluation mode all the same
    by_module = APODClassifier(**settings | {"body": scaled}).fit(X, people.y, sensitive_features=people.known)
    np.testing.assert_allclose(by_module.decision_function(X), by_matrix.decision_function(embeddings), atol=1e-4)
    np.testing.assert_array_equal(by_module.query(5), by_matrix.query(5))


def test_embeddings_may_have_any_scale(people: People) -> None:
    X = people.X.to_numpy()
    one, other = (
        APODClassifier(**FAST | {"body": "precomputed"}).fit(given, people.y, sensitive_features=people.known)
        for given in (X, 1000 * X + 7)
    )
    assert (one.predict(X) == other.predict(1000 * X + 7)).mean() > 0.99


@pytest.mark.parametrize(("n_groups", "strength"), [(2, 2.0), (3, 2.0)])
def test_with_everybody_annotated_the_gap_on_new_people_shrinks_to_less_than_half(
    n_groups: int, strength: float
) -> None:
    example = make_example(6000, n_groups)
    train, new = slice(0, 2000), slice(2000, 6000)
    names = np.array(example.group_names, dtype=object)[example.groups]
    classifier = APODClassifier(body="contrastive", strengths=[strength], body_epochs=10, rounds=5, random_state=0)
    classifier.fit(example.features[train], example.labels[train], sensitive_features=names[train])
    plain, fair = (
        evaluate(
            example.labels[new],
            classifier.at(s).predict(example.features[new]),
            example.groups[new],
            example.group_names,
        )
        for s in (0.0, strength)
    )
    assert plain.gap > 0.25
    assert fair.gap < plain.gap / 2
    assert fair.accuracy > plain.accuracy - 0.06


def test_three_groups_are_named_compared_and_asked_about() -> None:
    people = make_people(n_groups=3, asked=60)
    fit = APODClassifier(**FAST | {"strength": 1.0}).fit(people.X, people.y, sensitive_features=people.known)
    assert fit.groups_ == ("circle", "square", "triangle")
    assert [name for name in fit.tradeoff_.columns if name.startswith("tpr_")] == [f"tpr_{g}" for g in fit.groups_]
    assert len(fit.query(4)) == 4


def test_the_example_in_the_documentation_runs() -> None:
    results = doctest.testmod(apod.classifier.estimator)
    assert results.attempted > 3
    assert results.failed == 0


def test_answers_of_a_fit_are_the_annotated_training_rows(people: People, fitted: APODClassifier) -> None:
    assert fitted._state.mitigation is not None
    answers: Answers = fitted._state.mitigation.answers[0]
    rows = fitted.training_rows_[list(answers.rows)]
    assert people.known[rows].tolist() == [fitted.groups_[group] for group in answers.groups]
    assert len(rows) == (people.known != None).sum()  # noqa: E711


def test_groups_known_with_probability_one_are_groups_that_are_known(people: People) -> None:
    names = sorted({name for name in people.known if name is not None})
    membership = np.array([[float(name == one) for one in names] for name in people.known])
    plain = APODClassifier(**FAST).fit(people.X, people.y, sensitive_features=people.known)
    soft = APODClassifier(**FAST).fit_membership(people.X, people.y, membership[:, ::-1], names[::-1])
    assert soft.groups_ == plain.groups_
    np.testing.assert_array_equal(soft.predict_proba(people.X), plain.predict_proba(people.X))


def test_how_probable_a_group_is_reaches_the_heads(people: People) -> None:
    names = sorted({name for name in people.known if name is not None})
    sure = np.array([[float(name == one) for one in names] for name in people.known])
    doubt = 0.6 * sure + 0.4 * sure[:, ::-1]
    fits = [APODClassifier(**FAST, strength=1.0).fit_membership(people.X, people.y, m, names) for m in (sure, doubt)]
    assert not np.array_equal(*(fit.predict_proba(people.X) for fit in fits))
    with pytest.raises(InputError, match="probabilities, one per row and group"):
        APODClassifier(**FAST).fit_membership(people.X, people.y, sure[:5], names)
