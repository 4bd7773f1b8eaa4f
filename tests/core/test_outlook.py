"""What more answers would bring: against answers that were really given, and against algebra by hand."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

from apod.answers import Answers
from apod.campaign.outlook import expected_gain
from apod.laplace import weight_draws
from apod.mitigation import Mitigation, Plan
from apod.outlook import FURTHER, Expected, expected_gap, look_ahead
from apod.penalty import Penalty
from apod.pod import Pool, Training
from apod.proxy import LaplaceProxy

WIDTH = 4


def people(count: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, WIDTH)))


def told(proxy: LaplaceProxy, pool: torch.Tensor, rows: np.ndarray, rng: np.random.Generator) -> Answers:
    """Answers as f_a itself would have them: drawn from its own probabilities."""
    chance = proxy.probabilities(pool)[0, torch.from_numpy(rows), 1].numpy()
    return Answers(tuple(rows.tolist()), tuple((rng.random(len(rows)) < chance).astype(int).tolist()))


def fitted(answers: int = 12) -> tuple[LaplaceProxy, torch.Tensor, Answers]:
    pool = people(600, 1)
    rows = np.arange(answers)
    groups = (pool[:answers, 0].numpy() + 0.3 > 0).astype(int)
    proxy, first = LaplaceProxy(1, WIDTH, 2, 0, "trial"), Answers(tuple(rows.tolist()), tuple(groups.tolist()))
    proxy.fit(pool, [first])
    return proxy, pool, first


def test_without_more_answers_the_posterior_is_as_it_is() -> None:
    proxy, pool, _ = fitted()
    torch.testing.assert_close(proxy.draws(pool[:50], 0, pool), proxy.draws(pool[:50]), rtol=0, atol=0)


def test_the_spread_to_come_follows_from_the_curvature_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apod.proxy.weight_draws", partial(weight_draws, count=4000))
    proxy, pool, _ = fitted()
    state = proxy.state()
    inputs = np.hstack([(pool.numpy() - state["centre"]) / state["scale"], np.ones((len(pool), 1))])
    p = proxy.probabilities(pool)[0, :, 1].numpy()
    grown = state["precision"][0] + 40 * (inputs.T * (p * (1 - p))) @ inputs / len(pool)
    expected = np.sqrt(np.einsum("na,ab,nb->n", inputs[:30], np.linalg.inv(grown), inputs[:30]))
    drawn = proxy.draws(pool[:30], 40, pool)[:, 0, :, 1]
    spread = torch.logit(drawn).std(dim=0).numpy()
    np.testing.assert_allclose(spread, expected, rtol=0.05)


@pytest.mark.parametrize("more", [30, 150])
def test_the_posterior_after_answers_that_bear_f_a_out_is_about_as_wide_as_was_foreseen(more: int) -> None:
    proxy, pool, first = fitted(40)
    rng = np.random.default_rng(more)
    spread = []
    for _ in range(12):
        rows = rng.choice(np.arange(40, len(pool)), more, replace=False)
        further = told(proxy, pool, rows, rng)
        later = LaplaceProxy(1, WIDTH, 2, 0, "trial")
        later.fit(pool, [Answers(first.rows + further.rows, first.groups + further.groups)])
        spread.append(torch.logit(later.draws(pool)[:, 0, :, 1]).std(dim=0).mean().item())
    foreseen = torch.logit(proxy.draws(pool, more, pool)[:, 0, :, 1]).std(dim=0).mean().item()
    now = torch.logit(proxy.draws(pool)[:, 0, :, 1]).std(dim=0).mean().item()
    assert foreseen == pytest.approx(np.mean(spread), rel=0.15)
    assert foreseen < 0.85 * now


@pytest.fixture
def mitigation() -> Mitigation:
    rng = np.random.default_rng(5)
    embeddings = people(900, 5).float()
    groups = (embeddings[:, 0].numpy() + 0.5 * rng.normal(size=900) > 0).astype(int)
    labels = torch.from_numpy((embeddings[:, 1].numpy() + groups + rng.normal(size=900) > 0.5).astype(np.int64))
    pool = Pool("trial", 0, embeddings[:600], labels[:600], embeddings[600:], labels[600:], 2)
    training = Training(Penalty(relaxation="sharp", over="pool"), (), 2, 128, 0.0, "laplace")
    found = Mitigation(pool, Plan.shared([0.5, 2.0], "random", 0.5), training)
    for row in range(16):
        found.tell(0, row, int(groups[row]))
    found.refit()
    return found


def test_the_look_ahead_begins_with_the_choice_that_would_be_made_now(mitigation: Mitigation) -> None:
    choice = mitigation.choose(mitigation.heads)
    ahead = look_ahead(mitigation, mitigation.heads)
    assert ahead[0] == Expected.of(choice, mitigation.strengths, 16)
    assert [entry.answers for entry in ahead] == [16, *(round(16 * step) for step in FURTHER)]
    widths = [entry.high - entry.low for entry in ahead]
    assert widths[-1] < widths[0]


def test_with_very_many_answers_the_gap_to_expect_is_that_of_f_a_as_it_is(mitigation: Mitigation) -> None:
    found = expected_gap(mitigation, mitigation.heads, 10**9)
    pool = mitigation.pool
    head = int((mitigation.strengths == found.strength).nonzero()[0, 0])
    predicted = (mitigation.heads.margins(pool.validation) > 0).numpy()[head]
    member = mitigation.membership(pool.validation)[0].double().numpy()
    labels = pool.validation_labels.numpy()
    by_hand = 0.0
    for label in (0, 1):
        own = labels == label
        first, second = (np.average(predicted[own], weights=member[own, group]) for group in (0, 1))
        by_hand += abs(first - second)
    assert found.gap == pytest.approx(by_hand, abs=1e-3)
    assert found.high - found.low < 1e-3


def test_fewer_answers_than_there_are_is_now(mitigation: Mitigation) -> None:
    assert expected_gap(mitigation, mitigation.heads, 3) == expected_gap(mitigation, mitigation.heads)


def test_undefined_is_null() -> None:
    assert Expected(4, math.nan, math.nan, math.nan, 0.0).to_dict() == {
        "answers": 4, "gap": None, "interval": [None, None], "strength": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gaps", "more", "gain"),
    [
        ([0.2, 0.16, 0.1], 10, 0.04),
        ([0.2, 0.16, 0.1], 5, 0.02),
        ([0.2, 0.16, 0.1], 1000, 0.1),
        ([0.2, None, 0.1], 15, 0.05),
        ([0.2, 0.25, 0.25], 10, -0.05),
        ([None, 0.2, 0.1], 10, None),
        ([0.0, 0.0, 0.0], 10, None),  # a head that decides the same for everybody
        ([], 10, None),
    ],
)
def test_the_gain_of_so_many_more_answers_lies_between_the_steps(
    gaps: list[float | None], more: float, gain: float | None
) -> None:
    outlook = [
        {"answers": answers, "gap": gap, "interval": [0.0, gap and 2 * gap]}
        for answers, gap in zip((20, 30, 50), gaps, strict=False)
    ]
    assert expected_gain(outlook, more) == (None if gain is None else pytest.approx(gain))
