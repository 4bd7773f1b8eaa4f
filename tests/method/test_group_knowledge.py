"""What the user knows of the groups is where f_a starts from, and answers say how far to trust it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from apod import APODClassifier
from apod.data.encode import TableEncoder
from apod.errors import InputError
from apod.method.group_knowledge import GroupKnowledge, Share, ToldShares, read_knowledge
from apod.method.sampler import Design, draw_weights
from apod.method.settings import Settings

NAMES, LABELS = ("female", "male"), ("rejected", "hired")


def known(share: str | None = None, probability: str | None = None, names: Any = NAMES) -> GroupKnowledge:
    found = read_knowledge(Settings(group_share=share, group_probability=probability), names, LABELS)
    assert found is not None
    return found


def test_shares_and_columns_are_read_by_the_names_of_groups_and_labels() -> None:
    found = known("female=.48,female:hired=.35", "male:p_m")
    assert found.shares == (Share(0, None, 0.48), Share(0, 1, 0.35))
    assert found.columns == {1: "p_m"}
    assert read_knowledge(Settings(), NAMES, LABELS) is None


@pytest.mark.parametrize(
    ("share", "probability", "said"),
    [
        ("female=1.2", None, "between 0 and 1, got 'female=1.2'"),
        ("female", None, "takes GROUP=SHARE"),
        ("women=.5", None, "no group is called 'women'; there are female, male"),
        ("female:promoted=.5", None, "no label is called 'promoted'; there are rejected, hired"),
        ("female=.5,female=.4", None, "names a group twice"),
        ("female=.5,male=.3", None, "add up to 0.8"),
        (None, "p_female", "takes GROUP:COLUMN"),
        (None, "women:p", "no group is called 'women'"),
        (None, "female:p,male:p", "names a group or a column twice"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(share: str | None, probability: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        known(share, probability)
    assert "\n" not in str(error.value)


def test_probabilities_have_to_be_some_and_to_sum_to_one() -> None:
    table = pd.DataFrame({"f": [0.2, 0.9, 0.5], "m": [0.8, 0.1, 0.7], "t": ["a", "b", "c"]})
    told = known(None, "female:f,male:m")
    encoder = TableEncoder().fit(table, read_as=told.read_as)
    with pytest.raises(InputError, match=r"probabilities of 1 people do not sum to 1 \(one has 1.2"):
        told.placed(encoder, encoder.transform(table))
    with pytest.raises(InputError, match="no column of numbers called 't'"):
        known(None, "female:t").placed(encoder, encoder.transform(table))
    with pytest.raises(InputError, match=r"holds 1\.5 in row 1"):
        TableEncoder().fit(table.assign(f=[0.5, 1.5, 0.5]), read_as=told.read_as)


def test_before_any_answer_the_logits_are_those_of_the_told_probabilities() -> None:
    chance = np.linspace(0.1, 0.8, 9)
    table = pd.DataFrame({"p": chance, "x": np.arange(9.0)})
    told = known(None, "male:p")
    encoder = TableEncoder().fit(table, read_as=told.read_as)
    inputs = encoder.transform(table).astype(np.float64)
    placed, centre = told.placed(encoder, inputs), inputs.mean(axis=0)
    column = (inputs[:, placed.places[0]] - centre[placed.places[0]]) * placed.factors[placed.places[0]]
    means = placed.means(centre, 1, 2)
    assert means is not None
    np.testing.assert_allclose(np.column_stack([column, np.ones(9)]) @ means[0], logit(1 - chance), atol=1e-5)


def test_a_prior_mean_moves_the_posterior_as_the_same_offset_of_the_logits_would() -> None:
    """One weight on a grid: the exact posterior by summing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 1))
    own = (rng.uniform(size=12) < expit(1.5 * x[:, 0])).astype(np.int64)
    design = Design(x, np.array([[0.25]]), np.zeros(1), means=np.array([[1.0]]))
    drawn = draw_weights(design, np.eye(2)[1 - own], np.random.default_rng(1), kept=400)[0][:, 0, 0]
    grid = np.linspace(-3, 5, 2001)
    logs = -0.5 * (grid - 1) ** 2 / 0.25 + (own[:, None] * np.log(expit(np.outer(x, grid)))).sum(0)
    logs += ((1 - own)[:, None] * np.log(expit(-np.outer(x, grid)))).sum(0)
    weight = np.exp(logs - logs.max())
    mean = (weight * grid).sum() / weight.sum()
    deviation = np.sqrt((weight * (grid - mean) ** 2).sum() / weight.sum())
    assert drawn.mean() == pytest.approx(mean, abs=0.03)
    assert drawn.std() == pytest.approx(deviation, rel=0.08)


def test_a_told_share_gives_the_posterior_that_weighting_the_answers_own_draws_by_it_gives() -> None:
    rng = np.random.default_rng(2)
    columns = np.column_stack([rng.normal(size=40), np.ones(40)])
    own = (rng.uniform(size=40) < 0.5).astype(np.int64)
    everybody = np.column_stack([rng.normal(size=300), np.ones(300)])
    told = ToldShares(everybody, (np.ones(300, dtype=np.bool_),), (Share(0, None, 0.4),))
    plain = Design(columns, np.array([[1.0, 4.0]]), np.zeros(1))
    free = draw_weights(plain, np.eye(2)[1 - own], np.random.default_rng(3), kept=250)[0]
    weight = np.exp(told(free))
    wanted = (weight[:, None] * free[:, 0]).sum(0) / weight.sum()
    held = Design(columns, plain.variances, plain.log_prior, told=told, shifted=(1,))
    drawn = draw_weights(held, np.eye(2)[1 - own], np.random.default_rng(4), kept=250)[0][:, 0]
    np.testing.assert_allclose(drawn.mean(axis=0), wanted, atol=0.06)
    assert drawn[:, 1].std() < 0.6 * free[:, 0, 1].std()


def people(n: int = 600) -> tuple[pd.DataFrame, Any, Any]:
    """The group shows in nothing but the told probability."""
    rng = np.random.default_rng(5)
    group = rng.uniform(size=n) < 0.4
    x = rng.normal(size=n)
    label = (x + 0.8 * group + rng.normal(size=n) > 0).astype(np.int64)
    chance = np.where(group, 0.85, 0.15).clip(0.05, 0.95)
    return pd.DataFrame({"x": x, "z": rng.normal(size=n), "p_female": chance}), label, np.where(group, "female", "male")


def test_with_a_told_probability_few_answers_say_much_more_and_the_model_does_not_read_it() -> None:
    X, y, group = people()
    given = np.where(np.arange(len(y)) < 24, group, None)
    told = APODClassifier(group_probability="female:p_female", random_state=0)
    told.fit(X, y, sensitive_features=given)
    moved = X.assign(p_female=1 - X["p_female"])
    np.testing.assert_array_equal(told.at(0).predict_proba(X), told.at(0).predict_proba(moved))
    blind = APODClassifier(random_state=0).fit(X.drop(columns="p_female"), y, sensitive_features=given)
    width = [one.selection_.before.high - one.selection_.before.low for one in (told, blind)]
    assert width[0] < 0.8 * width[1]


def test_a_share_that_the_handed_in_groups_contradict_is_refused() -> None:
    X, y, group = people()
    with pytest.raises(InputError, match="contradicts the answers, by which it is near"):
        APODClassifier(group_share="female=.95", random_state=0).fit(X[["x", "z"]], y, sensitive_features=group)
