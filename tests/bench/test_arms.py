"""Group DRO, LfF and FAL do their job on data where the right answer is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from bench_units import advance, runs_of, spurious, unit_of

from apod.bench.arm import Arm, Unit
from apod.bench.arms import FalArm, GroupDroArm, LffArm, PodArm
from support.training import paper_training


def worst_group_loss(arm: Arm, unit: Unit) -> list[float]:
    """Per head, the mean cross-entropy of the group that fares worst."""
    margins = arm.heads.margins(unit.pool.embeddings).double().numpy()
    signs = np.where(unit.pool.labels.numpy() == 1, -1, 1)
    losses = np.logaddexp(0, margins * signs)
    return [max(row[unit.groups == group].mean() for group in (0, 1)) for row in losses]


def test_group_dro_finds_the_minimax_where_the_small_group_has_another_optimum() -> None:
    """Nobody can be told apart, so a head is one number p = P(y = 1).

    Group 1 (90 %) has label 1 always, group 0 has it for 30 %. The mean loss is least at p = .93, where group 0 loses
    1.88. The larger of the groups' losses is least at p = 1/2, where both lose log 2, and the weights that make
    p = 1/2 the best are q0 = 5/7 and q1 = 2/7: not the equal ones, at which p would be .65.
    """
    n = 500
    groups = (np.arange(n) >= n // 10).astype(np.int64)
    labels = np.where(groups == 1, 1, (np.arange(n) % 10 < 3).astype(np.int64))
    training = paper_training(hidden=(8,), epochs=60, batch_size=n, dropout=0.0)
    unit = unit_of(np.ones((n, 2)), labels, groups, training)
    dro = advance(GroupDroArm(unit, runs_of("group-dro", 0.001, 0.03, 0.1)), 20)
    vanilla = advance(PodArm(unit, runs_of("vanilla")), 20)

    assert worst_group_loss(vanilla, unit)[0] > 1.8
    hardly, *rest = worst_group_loss(dro, unit)
    np.testing.assert_allclose(rest, math.log(2), atol=0.02)
    assert 0.72 < hardly < 1  # q has hardly moved from the equal weights (p = .65, loss .86) yet
    np.testing.assert_allclose(dro._objective.q[1:].numpy(), [[5 / 7, 2 / 7]] * 2, atol=0.05)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_learning_from_failure_relies_less_on_a_spurious_feature_than_vanilla(seed: int) -> None:
    inputs, labels, conflict = spurious(1000, conflicting=0.03, seed=seed)
    training = paper_training(hidden=(8,), epochs=10, batch_size=128, dropout=0.0)
    unit = unit_of(inputs, labels, conflict, training, seed=seed)
    lff = advance(LffArm(unit, runs_of("lff", 0.7, 2.5, 3.0)), 12)
    vanilla = advance(PodArm(unit, runs_of("vanilla")), 12)

    fresh, truth, against = spurious(4000, conflicting=0.5, seed=1)  # where the loud feature tells nothing
    flipped = fresh.copy()
    flipped[:, 0] *= -1

    def judged(arm: Arm) -> tuple[np.ndarray, np.ndarray]:
        """Accuracy where the loud feature lies, and how often a decision changes when it is flipped."""
        here, there = (arm.heads.margins(torch.as_tensor(x, dtype=torch.float32)).numpy() > 0 for x in (fresh, flipped))
        return (here == truth)[:, against == 1].mean(axis=1), (here != there).mean(axis=1)

    (plain_accuracy,), (plain_reliance,) = judged(vanilla)
    accuracy, reliance = judged(lff)
    assert plain_reliance > 0.05  # there is something to mend
    assert (reliance < plain_reliance).all()
    assert (reliance[1:] < 0.6 * plain_reliance).all()  # the paper's range of q
    assert (accuracy[1:] > plain_accuracy + 0.05).all()


CORNERS = ("accepted", "missed", "overlooked", "refused")


def clusters(counts: dict[tuple[str, int, int], int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows at the corners of a simplex, a corner per name, and a faint feature that tells the group."""
    rows = [
        (*(4.0 * (name == other) for other in CORNERS), 0.02 * group - 0.01, label, group)
        for (name, label, group), count in counts.items()
        for _ in range(count)
    ]
    table = np.array(rows)
    return table[:, :-2], table[:, -2].astype(np.int64), table[:, -1].astype(np.int64)


def test_fal_picks_for_accuracy_at_alpha_one_and_for_fairness_at_alpha_one_half() -> None:
    """One candidate mends 30 wrong decisions of the favoured group, the other 20 of the disfavoured.

    Corners: `accepted` positives of group 1, decided rightly; `overlooked` ones of group 1 and `missed` ones of
    group 0, decided wrongly; `refused` negatives of both. Group 1's TPR is 1/2, group 0's is 0. Answering an
    overlooked person gives 1 and 0 (accuracy +.3, F from -.5 to -1), a missed one 1/2 and 1 (accuracy +.2, F -.5).
    """
    corners = {
        ("accepted", 1, 1): 30, ("overlooked", 1, 1): 30, ("missed", 1, 0): 20, ("refused", 0, 0): 10,
        ("refused", 0, 1): 10,
    }  # fmt: skip
    validation = clusters(corners)
    inputs, labels, groups = clusters(dict.fromkeys(corners, 4))
    training = paper_training(hidden=(5,), epochs=80, batch_size=64, dropout=0.0)
    through = np.vstack([np.eye(5)[:4], np.zeros((1, 5)), np.zeros((1, 5))])  # a hidden unit per corner, no bias
    margin = {"accepted": 1.0, "missed": -1.0, "overlooked": -1.0, "refused": -1.0}
    last = np.array([[-margin[name] / 8, margin[name] / 8] for name in CORNERS] + [[0, 0], [0, 0]])
    start = np.concatenate([through.ravel(), last.ravel()])
    unit = next(  # whose first answers are people of the two corners that are settled
        unit
        for seed in range(500)
        for unit in [
            unit_of(inputs, labels, groups, training, validation=validation[:2], pretrained=start, budget=6, seed=seed)
        ]
        if set(_corners(inputs, unit.first_answers().rows)) == {"accepted", "refused"}
    )
    arm = FalArm(unit, runs_of("fal", 0.5, 1.0))
    arm._proxy.bank.parameters.zero_()
    arm._proxy.bank.layers[0].weight[:, 4] = torch.tensor([-400.0, 400.0])  # f_a reads the group's feature
    advance(arm, 2)
    assert _corners(inputs, [answers.rows[-1] for answers in arm.answers()]) == ["missed", "overlooked"]
    mended = (arm.heads.margins(4 * torch.eye(5)[:4]) > 0).tolist()  # accepted, missed, overlooked, refused
    assert mended == [[True, True, False, False], [True, False, True, False]]


def _corners(inputs: np.ndarray, rows: Sequence[int]) -> list[str]:
    return [CORNERS[int(inputs[row, :4].argmax())] for row in rows]
