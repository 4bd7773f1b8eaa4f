"""Nobody's group matters before it was asked for; every head uses its own trajectory's answers; seeds decide all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from apod.data import UNKNOWN, make_example
from apod.method.choice import BestHeads, score_heads
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import Training
from apod.method.pool import Pool, first_choices
from apod.method.proxy import PROXIES
from apod.method.selection import SELECTORS
from support.training import paper_penalty, paper_training

STRENGTHS = (0.3, 1.0)
PLANS: dict[str, Callable[[str], Plan]] = {
    "shared": lambda selector: Plan.shared(STRENGTHS, selector, 1.0),
    "separate": lambda selector: Plan.separate(STRENGTHS, selector),
}


def example(seed: int = 0, n_groups: int = 2) -> tuple[Pool, np.ndarray]:
    data = make_example(260, n_groups, seed=1)
    raw = data.features.to_numpy(np.float32)
    embeddings, labels = torch.from_numpy((raw - raw.mean(0)) / raw.std(0)), torch.from_numpy(data.labels)
    pool = Pool("example", seed, embeddings[:180], labels[:180], embeddings[180:], labels[180:], n_groups)
    return pool, data.groups[:180].copy()


@dataclass
class Trace:
    """Everything a run decided."""

    questions: list[tuple[int, int, float, str]] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    asked: set[int] = field(default_factory=set)
    best: int = -1

    def same_as(self, other: Trace) -> bool:
        return (
            self.questions == other.questions
            and self.best == other.best
            and all(torch.equal(a, b) for a, b in zip(self.tensors, other.tensors, strict=True))
            and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(self.scores, other.scores, strict=True))
        )


@pytest.mark.filterwarnings("ignore::apod.fairness.metrics.UndefinedRateWarning")
def run(pool: Pool, groups: np.ndarray, plan: Plan, training: Training, rounds: int = 4, k: int = 1) -> Trace:
    loop, trace = Mitigation(pool, plan, training), Trace()
    best = BestHeads(loop.heads)
    of_head = [head.trajectory for head in plan.heads]

    def tell(trajectory: int, row: int) -> None:
        trace.asked.add(row)
        loop.add_answer(trajectory, row, int(groups[row]))

    for number in range(len(plan.trajectories)):
        for choice, _ in zip(first_choices(loop.pool), range(6), strict=False):
            trace.questions.append((number, choice.row, choice.probability, str(dict(choice.reason))))
            tell(number, choice.row)
    for round_ in range(rounds):
        loop.refit()
        proxies = loop.membership(pool.validation)[of_head]
        scores = score_heads(pool, loop.heads, loop.strengths, proxies)
        best.update(loop.heads, scores, round_)
        trace.scores += [scores.accuracy, scores.fairness, scores.score, best.round.copy()]
        trace.tensors += [loop.heads.parameters.clone(), loop.membership(pool.embeddings), proxies]
        for question in loop.ask(k):
            choice = question.choice
            trace.questions.append((question.trajectory, choice.row, choice.probability, str(dict(choice.reason))))
            tell(question.trajectory, choice.row)
    trace.tensors += [best.parameters.clone(), best.bank(loop.heads.sizes).margins(pool.validation)]
    trace.best = best.best(loop.strengths)
    return trace


def training(over: str = "annotated", proxy: str = "perceptron") -> Training:
    return paper_training(penalty=paper_penalty(over=over), hidden=(6,), epochs=2, batch_size=64, proxy=proxy)


@pytest.mark.filterwarnings("ignore::apod.fairness.metrics.UndefinedRateWarning")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("selector", sorted(SELECTORS))
@pytest.mark.parametrize("over", ["annotated", "pool"])
def test_groups_nobody_asked_for_change_no_question_weight_selection_or_prediction(
    plan: str, selector: str, over: str
) -> None:
    pool, groups = example()
    chosen, how = PLANS[plan](selector), training(over, sorted(PROXIES)[over == "annotated"])
    plain = run(pool, groups, chosen, how)
    unasked = np.setdiff1d(np.arange(len(groups)), sorted(plain.asked))
    assert len(unasked) > 100
    for changed in (1 - groups[unasked], np.full(len(unasked), UNKNOWN), np.full(len(unasked), 10**6)):
        others = groups.copy()
        others[unasked] = changed
        assert run(pool, others, chosen, how).same_as(plain)


@pytest.mark.filterwarnings("ignore::apod.fairness.metrics.UndefinedRateWarning")
def test_a_group_that_was_asked_for_does_matter() -> None:
    pool, groups = example()
    plan = PLANS["shared"]("apod")
    plain = run(pool, groups, plan, training())
    others = groups.copy()
    others[plain.questions[0][1]] = 1 - others[plain.questions[0][1]]
    assert not run(pool, others, plan, training()).same_as(plain)


@pytest.mark.filterwarnings("ignore::apod.fairness.metrics.UndefinedRateWarning")
@pytest.mark.parametrize("selector", sorted(SELECTORS))
def test_same_seed_same_bits_and_another_seed_differs(selector: str) -> None:
    pool, groups = example()
    plan = PLANS["separate"](selector)
    one = run(pool, groups, plan, training(), k=2)
    torch.manual_seed(1234)
    np.random.seed(99)  # noqa: NPY002  global state must not matter
    assert run(pool, groups, plan, training(), k=2).same_as(one)
    other = run(example(seed=1)[0], groups, plan, training(), k=2)
    assert other.questions != one.questions
    assert not torch.equal(other.tensors[0], one.tensors[0])


@pytest.mark.filterwarnings("ignore::apod.fairness.metrics.UndefinedRateWarning")
def test_the_name_of_the_dataset_keys_the_randomness() -> None:
    pool, groups = example()
    one = run(pool, groups, PLANS["shared"]("random"), training())
    other = run(replace(pool, dataset="another"), groups, PLANS["shared"]("random"), training())
    assert one.questions != other.questions


def told(pool: Pool, plan: Plan, how: Training, answers: dict[int, dict[int, int]]) -> Mitigation:
    loop = Mitigation(pool, plan, how)
    for trajectory, given in answers.items():
        for row, group in given.items():
            loop.add_answer(trajectory, row, group)
    loop.refit()
    loop.refit()
    return loop


@pytest.mark.parametrize("over", ["annotated", "pool"])
@pytest.mark.parametrize("proxy", sorted(PROXIES))
def test_each_head_uses_its_own_trajectorys_answers_alone(over: str, proxy: str) -> None:
    pool, groups = example()
    first = {row: int(groups[row]) for row in range(12)}
    second = {row: int(groups[row]) for row in range(40, 55)}
    plan = PLANS["separate"]("apod")
    plain = told(pool, plan, training(over, proxy), {0: first, 1: second})
    swapped = {row: 1 - g if row % 2 else g for row, g in second.items()}  # all of them would leave the gap as it is
    changed = told(pool, plan, training(over, proxy), {0: first, 1: swapped})
    assert torch.equal(plain.heads.parameters[:2], changed.heads.parameters[:2])  # vanilla and the first strength
    assert not torch.equal(plain.heads.parameters[2], changed.heads.parameters[2])
    assert torch.equal(plain.membership(pool.validation)[0], changed.membership(pool.validation)[0])
    assert not torch.equal(plain.membership(pool.validation)[1], changed.membership(pool.validation)[1])
    assert [q.row for q in plain.ask() if q.trajectory == 0] == [q.row for q in changed.ask() if q.trajectory == 0]
    # and a trajectory is what it would be on its own
    alone = told(pool, Plan.separate(STRENGTHS[:1], "apod"), training(over, proxy), {0: first})
    assert torch.allclose(alone.heads.parameters, plain.heads.parameters[:2], atol=1e-5)


def test_the_vanilla_head_depends_on_no_answer_at_all() -> None:
    pool, groups = example()
    plan = PLANS["shared"]("apod")
    one = told(pool, plan, training(), {0: {row: int(groups[row]) for row in range(12)}})
    other = told(pool, plan, training(), {0: {row: int(groups[row]) for row in range(30, 42)}})
    nobody = told(pool, plan, training(), {})
    assert torch.equal(one.heads.parameters[0], other.heads.parameters[0])
    assert torch.allclose(one.heads.parameters[0], nobody.heads.parameters[0], atol=1e-6)
    assert not torch.equal(one.heads.parameters[1], other.heads.parameters[1])


def test_an_answer_of_cannot_tell_is_never_asked_again_and_teaches_nothing() -> None:
    pool, groups = example()
    plan = PLANS["shared"]("apod")
    given = {row: int(groups[row]) for row in range(12)}
    plain = told(pool, plan, training(), {0: given})
    doubtful = told(pool, plan, training(), {0: given | {plain.ask()[0].row: UNKNOWN}})
    assert torch.equal(plain.heads.parameters, doubtful.heads.parameters)
    assert doubtful.ask()[0].row != plain.ask()[0].row
    everybody = doubtful.ask(k=10_000)
    assert sorted(q.row for q in everybody) == sorted(set(range(180)) - set(given) - {plain.ask()[0].row})


def test_people_who_are_not_available_are_not_asked() -> None:
    pool, groups = example()
    loop = told(pool, PLANS["shared"]("apod"), training(), {0: {row: int(groups[row]) for row in range(12)}})
    [question] = loop.ask()
    [other] = loop.ask(unavailable=[question.row])
    assert other.row != question.row
    assert loop.ask() == [question]  # asking changes nothing
    assert loop.ask(unavailable=range(180)) == []


def test_empty_cells_are_reported_per_trajectory() -> None:
    pool, _ = example(n_groups=3)
    positives, negatives = (np.flatnonzero(pool.labels.numpy() == y).tolist() for y in (1, 0))
    loop = Mitigation(pool, PLANS["separate"]("apod"), training())
    assert loop.empty_cells() == [[(a, y) for a in range(3) for y in (0, 1)]] * 2
    loop.add_answer(0, positives[0], 2)
    loop.add_answer(0, negatives[0], 0)
    loop.add_answer(1, negatives[1], 1)
    loop.add_answer(1, negatives[2], UNKNOWN)
    assert loop.empty_cells()[0] == [(0, 1), (1, 0), (1, 1), (2, 0)]
    assert loop.empty_cells()[1] == [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("selector", sorted(SELECTORS))
def test_first_questions_hold_everybody_once_in_both_labels_alternately(selector: str) -> None:
    pool, _ = example()
    loop = Mitigation(pool, PLANS["shared"](selector), training())
    order = [choice.row for choice in first_choices(loop.pool)]
    assert order == [choice.row for choice in first_choices(loop.pool)]
    assert sorted(order) == list(range(180))
    assert pool.labels[order[:8]].tolist() == [1, 0] * 4
