"""Algorithm 1 against itself written plainly: loops, autograd, brute force."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import reference
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from apod.data import make_example
from apod.heads.bank import initial_parameters
from apod.heads.schedule import Schedule
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import Training, pretrain_head
from apod.method.pool import Pool, first_choices
from apod.randomness import generator
from support.training import paper_penalty, paper_training

STRENGTHS = (0.3, 2.0)
TRAIN, ROUNDS, SEED = 160, 6, 31


def example(n_groups: int = 2, dtype: torch.dtype = torch.float64) -> tuple[Pool, np.ndarray]:
    data = make_example(TRAIN + 60, n_groups, seed=4)
    raw = data.features.to_numpy(np.float64)
    embeddings = torch.as_tensor((raw - raw.mean(0)) / raw.std(0), dtype=dtype)
    labels = torch.from_numpy(data.labels)
    pool = Pool(
        "example", SEED, embeddings[:TRAIN], labels[:TRAIN], embeddings[TRAIN:], labels[TRAIN:], n_groups
    )  # fmt: skip
    return pool, data.groups[:TRAIN]


def settings(proxy: str, hidden: tuple[int, ...]) -> Training:
    return paper_training(hidden=hidden, epochs=3, batch_size=32, proxy=proxy)


def first_answers(pool: Pool, count: int = 6) -> list[int]:
    """Random rows alternating between the labels, drawn as the package draws them."""
    rng = generator(pool.seed, "first", pool.dataset)
    piles = {label: rng.permutation(np.flatnonzero(pool.labels.numpy() == label)).tolist() for label in (1, 0)}
    return [piles[1 - place % 2][place // 2] for place in range(count)]


def plain_logistic(pool: Pool) -> Callable[[reference.Trajectory], torch.Tensor]:
    inputs = StandardScaler().fit_transform(pool.embeddings.double().numpy())

    def probabilities(trajectory: reference.Trajectory) -> torch.Tensor:
        model = LogisticRegression(C=0.01, max_iter=1000).fit(inputs[trajectory.rows], trajectory.groups)
        assert len(model.classes_) == pool.n_groups  # the example's first answers hold every group
        return torch.from_numpy(model.predict_proba(inputs))

    return probabilities


def plain_perceptron(pool: Pool) -> Callable[[reference.Trajectory], torch.Tensor]:
    start = initial_parameters((2, pool.n_groups), generator(pool.seed, "proxy", pool.dataset))

    def probabilities(trajectory: reference.Trajectory) -> torch.Tensor:
        if trajectory.proxy is None:
            flat = torch.as_tensor(start, dtype=pool.embeddings.dtype)
            trajectory.proxy = reference.LinearProxy(flat, 2, pool.n_groups)
        rows, groups = trajectory.rows, torch.tensor(trajectory.groups)
        trajectory.proxy.fit(pool.embeddings[rows], groups)
        return trajectory.proxy.probabilities(pool.embeddings)

    return probabilities


PLAIN_PROXY = {"logistic": plain_logistic, "perceptron": plain_perceptron}


def plainly(
    pool: Pool, oracle: np.ndarray, plan: str, proxy: str, hidden: tuple[int, ...]
) -> tuple[list[list[int]], list[list[int]], list[torch.Tensor]]:
    """Rows asked per round (one per trajectory), the subgroups they came from, and the final parameters per head."""
    sizes = (2, *hidden, 2)
    problem = reference.Problem(
        pool.embeddings, pool.labels, pool.n_groups, pool.seed, pool.dataset, hidden, 3, 32, PLAIN_PROXY[proxy](pool)
    )
    initial = torch.as_tensor(initial_parameters(sizes, generator(pool.seed, "head", pool.dataset)))
    start = reference.pretrained(problem, initial.to(pool.embeddings.dtype), sizes)
    heads = [reference.Trainer(start, sizes, strength) for strength in (0.0, *STRENGTHS)]
    if plan == "shared":
        trajectories = [reference.Trajectory(heads[1], heads)]
    else:
        trajectories = [reference.Trajectory(heads[1], heads[:2]), reference.Trajectory(heads[2], heads[2:])]
    for trajectory in trajectories:
        trajectory.rows = first_answers(pool)
        trajectory.groups = [int(oracle[row]) for row in trajectory.rows]
    asked, cells = [], []
    for number in range(ROUNDS):
        found = [reference.run_round(problem, trajectory, number) for trajectory in trajectories]
        asked.append([row for row, _ in found])
        cells.append([list(cell) for _, cell in found])
        for trajectory, (row, _) in zip(trajectories, found, strict=True):
            trajectory.rows.append(row)
            trajectory.groups.append(int(oracle[row]))
    return asked, cells, [head.head.flat() for head in heads]


def by_the_package(
    pool: Pool, oracle: np.ndarray, plan: str, proxy: str, hidden: tuple[int, ...]
) -> tuple[list[list[int]], list[list[int]], torch.Tensor]:
    chosen = Plan.shared(STRENGTHS, "apod", 0.5) if plan == "shared" else Plan.separate(STRENGTHS, "apod")
    loop = Mitigation(pool, chosen, settings(proxy, hidden))
    for number in range(len(chosen.trajectories)):
        for choice, _ in zip(first_choices(loop.pool), range(6), strict=False):
            loop.add_answer(number, choice.row, int(oracle[choice.row]))
    asked, cells = [], []
    for _ in range(ROUNDS):
        loop.refit()
        questions = loop.ask()
        asked.append([question.row for question in questions])
        cells.append([[question.choice.reason["group"], question.choice.reason["label"]] for question in questions])
        for question in questions:
            loop.add_answer(question.trajectory, question.row, int(oracle[question.row]))
    return asked, cells, loop.heads.parameters


@pytest.mark.parametrize("proxy", sorted(PLAIN_PROXY))
@pytest.mark.parametrize("plan", ["shared", "separate"])
@pytest.mark.parametrize("hidden", [(5,), (5, 4)], ids=["2 layers", "3 layers"])
def test_algorithm_1_asks_the_same_questions_and_ends_at_the_same_heads_as_written_plainly(
    plan: str, proxy: str, hidden: tuple[int, ...]
) -> None:
    pool, oracle = example()
    asked, cells, parameters = plainly(pool, oracle, plan, proxy, hidden)
    found_asked, found_cells, found = by_the_package(pool, oracle, plan, proxy, hidden)
    assert found_cells == cells
    assert found_asked == asked
    for head, expected in enumerate(parameters):
        assert float((found[head] - expected).abs().max()) < 1e-6
    assert not torch.equal(found[1], found[2])
    if hidden == (5,):
        assert len({tuple(cell) for both in cells for cell in both}) > 1  # a seed with something to choose


@pytest.mark.parametrize("plan", ["shared", "separate"])
def test_the_papers_f_a_in_single_precision_asks_the_same_questions_as_written_plainly(plan: str) -> None:
    pool, oracle = example(dtype=torch.float32)
    asked, cells, parameters = plainly(pool, oracle, plan, "perceptron", (5,))
    found_asked, found_cells, found = by_the_package(pool, oracle, plan, "perceptron", (5,))
    assert found_cells == cells
    assert found_asked == asked
    for head, expected in enumerate(parameters):
        assert float((found[head] - expected).abs().max()) < 1e-4


def test_with_three_groups_the_loop_is_the_same_too() -> None:
    pool, oracle = example(n_groups=3)
    assert set(oracle[first_answers(pool)]) == {0, 1, 2}
    asked, _, parameters = plainly(pool, oracle, "separate", "logistic", (5,))
    found_asked, _, found = by_the_package(pool, oracle, "separate", "logistic", (5,))
    assert found_asked == asked
    assert any(one != other for one, other in asked)  # the two strengths part ways
    assert max(float((found[k] - expected).abs().max()) for k, expected in enumerate(parameters)) < 1e-6


def test_strengths_are_not_rounded_below_the_precision_of_the_pool() -> None:
    pool, _ = example()
    loop = Mitigation(pool, Plan.shared((0.3, 0.05), "apod", 0.3), settings("logistic", (5,)))
    assert loop.strengths.tolist() == [0.0, 0.3, 0.05]


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)], ids=["1 layer", "2 layers", "3 layers"])
def test_pretraining_equals_plain_cross_entropy(hidden: tuple[int, ...]) -> None:
    pool, _ = example()
    sizes = (2, *hidden, 2)
    problem = reference.Problem(
        pool.embeddings, pool.labels, 2, pool.seed, pool.dataset, hidden, 3, 32, plain_logistic(pool)
    )
    initial = torch.as_tensor(initial_parameters(sizes, generator(pool.seed, "head", pool.dataset)))
    expected = reference.pretrained(problem, initial, sizes)
    found = pretrain_head(pool, settings("logistic", hidden))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-9)


@pytest.mark.parametrize("what", ["equalized_odds", "demographic_parity"])
def test_a_penalty_over_the_pool_is_weighted_by_the_proxy_and_by_the_answers_where_there_are_any(what: str) -> None:
    pool, oracle = example(n_groups=3)
    training = paper_training(
        penalty=paper_penalty(what=what, relaxation="sigmoid", over="pool"),
        hidden=(5,),
        epochs=2,
        batch_size=32,
        proxy="logistic",
    )
    plan = Plan.separate(STRENGTHS, "apod")
    loop = Mitigation(pool, plan, training)
    rows = [first_answers(pool, 9), first_answers(pool, 12)[3:]]
    for number in (0, 1):
        for row in rows[number]:
            loop.add_answer(number, row, int(oracle[row]))
    start = loop.heads.parameters.clone()
    loop.refit()
    for head, trajectory in ((1, 0), (2, 1)):
        plain = plain_logistic(pool)(
            reference.Trajectory(None, [], rows=rows[trajectory], groups=[int(oracle[r]) for r in rows[trajectory]])
        )
        plain[rows[trajectory]] = reference.one_hot([int(oracle[r]) for r in rows[trajectory]], 3, torch.float64)
        trainer = reference.Trainer(start[head], (2, 5, 2), plan.heads[head].strength)
        draw = len(pool.labels)  # fewer people than a draw takes: everybody
        schedule = Schedule(len(pool.labels), (5,), pool.seed, pool.dataset, 0, 2, 32, draw=draw, dtype=torch.float64)
        for step in schedule:
            drawn = step.penalty_rows
            behind = reference.Penalised(pool.embeddings[drawn], pool.labels[drawn], plain[drawn], what, "sigmoid")
            trainer.step(pool.embeddings[step.rows], pool.labels[step.rows], step.masks, behind)
        assert float((loop.heads.parameters[head] - trainer.head.flat()).abs().max()) < 1e-6
