"""What more answers would bring: against answers that were really given, and against algebra by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from apod.campaign.outcomes import gain_of, spent_enough
from apod.campaign.settings import CampaignSettings
from apod.campaign.state import State
from apod.data import UNKNOWN
from apod.method.algorithm1 import Answers
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.outlook import FURTHER, ExpectedGap, as_expected, expected_gap, is_enough, look_ahead
from apod.method.pool import Pool
from apod.method.proxy import LaplaceProxy, weight_draws
from support.training import paper_penalty, paper_training

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
    torch.testing.assert_close(
        proxy.draws(pool[:50], 0 * proxy.information(pool)), proxy.draws(pool[:50]), rtol=0, atol=0
    )


def test_the_spread_to_come_follows_from_the_curvature_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apod.method.proxy.weight_draws", partial(weight_draws, count=4000))
    proxy, pool, _ = fitted()
    state = proxy.state()
    inputs = np.hstack([(pool.numpy() - state["centre"]) / state["scale"], np.ones((len(pool), 1))])
    p = proxy.probabilities(pool)[0, :, 1].numpy()
    grown = state["precision"][0] + 40 * (inputs.T * (p * (1 - p))) @ inputs / len(pool)
    expected = np.sqrt(np.einsum("na,ab,nb->n", inputs[:30], np.linalg.inv(grown), inputs[:30]))
    drawn = proxy.draws(pool[:30], 40 * proxy.information(pool))[:, 0, :, 1]
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
    foreseen = torch.logit(proxy.draws(pool, more * proxy.information(pool))[:, 0, :, 1]).std(dim=0).mean().item()
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
    training = paper_training(
        penalty=paper_penalty(relaxation="sharp", over="pool"),
        hidden=(),
        epochs=2,
        batch_size=128,
        dropout=0.0,
        proxy="laplace",
    )
    found = Mitigation(pool, Plan.shared([0.5, 2.0], "random", 0.5), training)
    for row in range(16):
        found.add_answer(0, row, int(groups[row]))
    found.refit()
    return found


def test_the_look_ahead_begins_with_the_choice_that_would_be_made_now(mitigation: Mitigation) -> None:
    choice = mitigation.choose(mitigation.heads)
    ahead = look_ahead(mitigation, mitigation.heads)
    assert ahead[0] == as_expected(mitigation, choice, 16)
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
    assert expected_gap(mitigation, mitigation.heads, 3) == expected_gap(mitigation, mitigation.heads, 16)


@pytest.mark.parametrize("told", [(UNKNOWN,) * 8, (0,) * 8])
def test_nothing_is_expected_before_two_groups_were_told_of(mitigation: Mitigation, told: tuple[int, ...]) -> None:
    mitigation.answers[0] = Answers(tuple(range(8)), told)
    mitigation.refit()
    assert all(math.isnan(entry.gap) for entry in look_ahead(mitigation, mitigation.heads))


def test_people_on_whom_annotators_disagree_count_once(mitigation: Mitigation) -> None:
    rows = tuple(range(10)) * 2
    mitigation.answers[0] = Answers(rows, (0,) * 10 + (1,) * 10, (0.6,) * 10 + (0.4,) * 10)
    mitigation.refit()
    assert look_ahead(mitigation, mitigation.heads, besides=[90])[0].answers == 10
    assert look_ahead(mitigation, mitigation.heads, besides=[90])[-1].answers == 90


def test_there_are_never_more_answers_than_people(mitigation: Mitigation) -> None:
    people = len(mitigation.pool.labels)
    asked = people - 10
    mitigation.answers[0] = Answers(tuple(range(asked)), (0, 1) * (asked // 2) + (0,) * (asked % 2))
    mitigation.refit()
    assert [entry.answers for entry in look_ahead(mitigation, mitigation.heads)] == [asked, people]


def test_three_groups_look_ahead() -> None:
    pool = people(300, 2).float()
    groups = tuple(int(g) for g in (pool[:30, 0] > 0).long() + (pool[:30, 1] > 0.5).long())
    labels = (pool[:, 2] > 0).long()
    training = paper_training(
        penalty=paper_penalty(relaxation="sharp", over="pool"),
        hidden=(),
        epochs=1,
        batch_size=128,
        dropout=0.0,
        proxy="laplace",
    )
    found = Mitigation(
        Pool("three", 0, pool[:200], labels[:200], pool[200:], labels[200:], 3),
        Plan.shared([1.0], "random", 1.0),
        training,
    )
    found.answers[0] = Answers(tuple(range(30)), groups)
    found.refit()
    ahead = look_ahead(found, found.heads)
    assert ahead[-1].high - ahead[-1].low < ahead[0].high - ahead[0].low


def test_json_and_back() -> None:
    assert ExpectedGap(4, math.nan, math.nan, math.nan, 0.0).to_dict() == {
        "answers": 4, "gap": None, "interval": [None, None], "strength": 0.0,
    }  # fmt: skip
    told = ExpectedGap(9, 0.2, 0.1, 0.3, 0.5)
    assert ExpectedGap.from_dict(told.to_dict()) == told
    assert math.isnan(ExpectedGap.from_dict({"answers": 4, "gap": None, "interval": [None, None], "strength": 0}).gap)


def ahead(*gaps: float, strength: float = 1.0) -> list[ExpectedGap]:
    answers = (20, 30, 50)[: len(gaps)]
    return [ExpectedGap(n, gap, 0.0, 2 * gap, strength) for n, gap in zip(answers, gaps, strict=True)]


@pytest.mark.parametrize(
    ("outlook", "more", "expected"),
    [
        (ahead(0.2, 0.16, 0.1), 10, 0.04),
        (ahead(0.2, 0.16, 0.1), 5, 0.02),
        (ahead(0.2, 0.16, 0.1), 30, 0.1),
        (ahead(0.2, 0.16, 0.1), 31, None),  # farther than was looked
        (ahead(0.2, math.nan, 0.1), 15, 0.05),
        (ahead(0.2, 0.25, 0.25), 10, -0.05),
        (ahead(math.nan, 0.2, 0.1), 10, None),
        (ahead(0.0, 0.0, 0.0), 10, None),  # a head that decides the same for everybody
        (ahead(0.2, 0.16, 0.1, strength=0.0), 10, None),  # no answer changes the unpenalised head's decisions
        ([], 10, None),
    ],
)
def test_the_gain_of_so_many_more_people(outlook: list[ExpectedGap], more: float, expected: float | None) -> None:
    assert gain_of(outlook, more) == (None if expected is None else pytest.approx(expected))


def test_asking_ends_for_a_small_gain_and_for_no_other_reason() -> None:
    assert is_enough(0.004, 0.005)
    assert not is_enough(0.005, 0.005)
    assert not is_enough(-0.01, 0.005)
    assert not is_enough(None, 0.005)
    assert not is_enough(0.0, 0.0)


RULES = CampaignSettings("trial", ("a", "b"), 60, audit_share=0.2, overlap=2, least_gain=0.05)


def test_a_campaign_counts_the_people_its_budget_still_pays_for() -> None:
    outlook = {"outlook": [entry.to_dict() for entry in ahead(0.2, 0.16, 0.1)]}  # 25 answers teach about 10 people
    state = State(budget=60, spent=35)
    assert spent_enough(state, RULES, outlook)
    assert not spent_enough(state, replace(RULES, least_gain=0.03), outlook)
    assert not spent_enough(state, replace(RULES, overlap=1), outlook)  # 20 people: .07
    assert not spent_enough(state, replace(RULES, least_gain=0.0), outlook)
    assert not spent_enough(state, RULES, {"outlook": None})
    for changed in ({"paused": True}, {"finished": True}, {"not_worth_more": True}, {"spent": 60}):
        assert not spent_enough(replace(state, **changed), RULES, outlook)
