"""FAL against itself written plainly: a copy of classifier and f_a per candidate and possible group, in loops."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from bench_units import runs_of, unit_of

from apod.bench.arm import Unit
from apod.bench.arms import BUFFER, FalArm
from apod.data import make_example
from apod.heads.bank import initial_parameters
from apod.randomness import generator
from support.training import paper_training

WORST = -2.0  # both rates apart by one: what a fairness nobody can measure counts as
TRAINING = paper_training(hidden=(6,), epochs=10, dropout=0.0)


def people(n_groups: int, budget: int, seed: int, train: int = 70) -> Unit:
    """Generated people in double precision; far apart, so that f_a changes its mind within a few steps."""
    data = make_example(train + 60, n_groups, seed=seed)
    raw = data.features.to_numpy() * 10
    unit = unit_of(
        raw[:train], data.labels[:train], data.groups[:train], TRAINING,
        validation=(raw[train:], data.labels[train:]), budget=budget, seed=seed,
    )  # fmt: skip
    exact = torch.from_numpy
    pool = replace(unit.pool, embeddings=exact(raw[:train]), validation=exact(raw[train:]), n_groups=n_groups)
    return replace(unit, pool=pool)


def rate(predicted: list[int], among: list[int]) -> float:
    return sum(predicted[i] for i in among) / len(among) if among else math.nan


def fairness(predicted: list[int], labels: list[int], groups: list[int], n_groups: int) -> float:
    """-|Delta-EO|, for more than two groups minus the sum of the rates' spreads."""
    rates = [
        [rate(predicted, [i for i in range(len(labels)) if labels[i] == y and groups[i] == a]) for y in (0, 1)]
        for a in range(n_groups)
    ]
    if any(math.isnan(value) for pair in rates for value in pair):
        return WORST
    if n_groups == 2:
        return -abs(sum(rates[0][y] - rates[1][y] for y in (0, 1)))
    return -sum(max(pair[y] for pair in rates) - min(pair[y] for pair in rates) for y in (0, 1))


class PlainFal:
    """One alpha, one classifier, one f_a."""

    def __init__(self, unit: Unit, alpha: float) -> None:
        self.unit, self.pool, self.alpha = unit, unit.pool, alpha
        width = unit.pool.embeddings.shape[1]
        self.head = reference.Trainer(torch.from_numpy(unit.pretrained), (width, *unit.training.hidden, 2))
        start = initial_parameters((width, self.pool.n_groups), generator(self.pool.seed, "proxy", self.pool.dataset))
        self.proxy = reference.LinearProxy(torch.from_numpy(start), width, self.pool.n_groups)
        self.rows: list[int] = []
        self.groups: list[int] = []

    def fit(self, head: reference.Trainer, rows: list[int]) -> None:
        for _ in range(self.unit.training.epochs):
            head.step(self.pool.embeddings[rows], self.pool.labels[rows], None, None)  # type: ignore[arg-type]

    def fit_proxy(self, proxy: reference.LinearProxy, rows: list[int], groups: list[int]) -> None:
        proxy.fit(self.pool.embeddings[rows], torch.tensor(groups))

    def predicted(self, head: reference.Trainer) -> list[int]:
        return [int(margin > 0) for margin in head.margins(self.pool.validation)]

    def value(self, row: int) -> float:
        """alpha ACC(f_t) + (1 - alpha) E[F(f_t) - F(f_{t-1})] with this row in S."""
        trial, labels = copy.deepcopy(self.head), self.pool.validation_labels.tolist()
        self.fit(trial, [*self.rows, row])
        predicted = self.predicted(trial)
        accuracy = sum(p == y for p, y in zip(predicted, labels, strict=True)) / len(labels)
        now = [int(p.argmax()) for p in self.proxy.probabilities(self.pool.validation)]
        before = fairness(self.predicted(self.head), labels, now, self.pool.n_groups)
        chance = self.proxy.probabilities(self.pool.embeddings)[row].tolist()
        gain = 0.0
        for group in range(self.pool.n_groups):
            proxy = copy.deepcopy(self.proxy)
            self.fit_proxy(proxy, [*self.rows, row], [*self.groups, group])
            guessed = [int(p.argmax()) for p in proxy.probabilities(self.pool.validation)]
            gain += chance[group] * (fairness(predicted, labels, guessed, self.pool.n_groups) - before)
        return self.alpha * accuracy + (1 - self.alpha) * gain

    def buffer(self, round_: int) -> list[int]:
        order = generator(self.pool.seed, "select", "fal", self.pool.dataset, round_).permutation(len(self.pool.labels))
        return [int(row) for row in order if row not in self.rows][:BUFFER]

    def join(self, rows: list[int]) -> None:
        self.rows += rows
        self.groups += [int(self.unit.groups[row]) for row in rows]
        self.fit_proxy(self.proxy, self.rows, self.groups)
        self.fit(self.head, self.rows)


@pytest.mark.parametrize(("n_groups", "seed"), [(2, 5), (3, 2)])
def test_asks_about_the_candidate_the_paper_s_objective_is_largest_for(n_groups: int, seed: int) -> None:
    unit, alphas = people(n_groups, budget=8, seed=seed), (0.5, 1.0)
    arm, plain = FalArm(unit, runs_of("fal", *alphas)), [PlainFal(unit, alpha) for alpha in alphas]
    arm.advance()
    first = arm.answers()[0].rows
    for one in plain:
        one.join(list(first))
    places = []
    for number in range(1, unit.rounds()):
        arm.advance()
        for one, answers in zip(plain, arm.answers(), strict=True):
            values = {row: one.value(row) for row in one.buffer(number)}
            asked = answers.rows[-1]
            best = next(row for row in values if values[row] >= max(values.values()) - 1e-10)  # ties: the first
            assert asked == best
            places.append(list(values).index(asked))
            one.join([asked])
    assert len(set(places)) > 2  # the rule had something to choose
    for k, one in enumerate(plain):
        torch.testing.assert_close(arm.heads.parameters[k], one.head.head.flat(), rtol=1e-9, atol=1e-11)
        assert list(arm.answers()[k].groups) == one.groups


def test_never_asks_twice_until_everybody_of_a_small_pool_is_answered() -> None:
    unit = people(2, budget=24, seed=3, train=24)  # fewer than a buffer are left towards the end
    arm = FalArm(unit, runs_of("fal", 0.5, 1.0))
    for _ in range(unit.rounds()):
        arm.advance()
    for answers in arm.answers():
        assert sorted(answers.rows) == list(range(24))
        assert list(answers.groups) == unit.groups[list(answers.rows)].tolist()


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_tie_goes_to_the_first_of_the_buffer(alpha: float) -> None:
    """Nothing a candidate can do within a round changes a decision: all candidates are worth the same."""
    rng = np.random.default_rng(0)
    n = 60
    labels = np.arange(n) % 2
    groups = (np.arange(n) // 2) % 2
    inputs = np.stack([labels * 2.0 - 1, groups * 2.0 - 1, rng.normal(size=n) * 0.3], axis=1)
    one_of_both = np.array([50.0, 50, 0, -50])  # a unit that is on for positives of group 1 only: TPR 0 and 1
    settled = np.concatenate([one_of_both, [-9.0, 9, 400, -400]])
    unit = unit_of(
        inputs, labels, groups, paper_training(hidden=(1,), epochs=1, dropout=0.0), pretrained=settled, budget=12
    )
    arm = FalArm(unit, runs_of("fal", alpha))
    arm._proxy.bank.layers[0].weight.copy_(torch.tensor([[[0.0, 0], [-3, 3], [0.2, -0.4]]]))  # f_a is settled too
    arm._proxy.bank.layers[0].bias.zero_()
    for number in range(unit.rounds()):
        before = arm.answers()[0].rows
        arm.advance()
        if number:
            order = generator(unit.pool.seed, "select", "fal", unit.pool.dataset, number).permutation(n)
            assert arm.answers()[0].rows[-1] == next(row for row in order if row not in before)
