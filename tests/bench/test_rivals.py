"""Every rival does its job on data where the right answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from bench_units import advance, runs_of, spurious, unit_of

from apod.bench.arm import Arm, Unit
from apod.bench.arms import ARMS, GroupDroArm, PodAllArm, PodArm
from apod.bench.fairlearn_arms import ExponentiatedGradientArm, ThresholdOptimizerArm
from apod.bench.methods import METHODS, RIVALS
from apod.bench.rivals import CglArm, DfrArm, FairDsrArm, JttArm, SsaArm
from apod.data import UNKNOWN
from apod.errors import InputError
from apod.fairness.metrics import METRICS, group_counts
from support.training import paper_training

TRAINING = paper_training(hidden=(8,), epochs=10, batch_size=128, dropout=0.0)


def leaning(n: int = 1200, seed: int = 0, reliable: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group 1 has the label in 80 %, group 0 in 20 %, and a feature tells the group in a `reliable` share of the rows.

    A classifier profits from reading the group, and so accepts more of group 1 whatever their label. The other
    feature tells the label in both groups alike: by it alone there would be no gap.
    """
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % 2
    labels = (rng.random(n) < np.where(groups == 1, 0.8, 0.2)).astype(np.int64)
    shown = (rng.random(n) < reliable) * (2.0 * groups - 1)
    return np.column_stack([2.0 * labels - 1 + rng.normal(size=n), shown + 0.1 * rng.normal(size=n)]), labels, groups


def gaps(arm: Arm, unit: Unit) -> np.ndarray:
    """|dTPR| + |dFPR| of every head on the training part."""
    predicted = (arm.heads.margins(unit.pool.embeddings) > 0).numpy()
    counts = group_counts(unit.pool.labels.numpy(), predicted, unit.groups, 2)
    return np.asarray(METRICS["gap"](counts))


def accuracies(arm: Arm, unit: Unit) -> np.ndarray:
    predicted = (arm.heads.margins(unit.pool.embeddings) > 0).numpy()
    return np.asarray((predicted == unit.pool.labels.numpy()).mean(axis=1))


@pytest.fixture(scope="module")
def unit() -> Unit:
    start = unit_of(*leaning(), TRAINING, budget=60)
    head = advance(PodArm(start, runs_of("vanilla")), 6).heads.parameters[0]
    return unit_of(*leaning(), TRAINING, budget=60, pretrained=head.double().numpy())


@pytest.fixture(scope="module")
def vanilla(unit: Unit) -> float:
    gap = float(gaps(advance(PodArm(unit, runs_of("vanilla")), 6), unit)[0])
    assert gap > 0.6  # there is something to mend
    return gap


def test_cgl_guesses_groups_that_can_be_told_and_closes_the_gap(unit: Unit, vanilla: float) -> None:
    arm = CglArm(unit, runs_of("cgl", 0.05, 2.0))
    guessed, rows = arm._guessed()
    assert len(rows) == len(unit.groups)
    assert (guessed == unit.groups).mean() > 0.95
    advance(arm, 6)
    assert (gaps(arm, unit) < 0.3 * vanilla).all()
    assert (accuracies(arm, unit) > 0.7).all()


def test_cgl_draws_groups_where_nobody_can_be_told_apart() -> None:
    inputs, labels, groups = leaning(reliable=0.0)
    unit = unit_of(inputs[:, :1] * 0 + 1, labels, groups, TRAINING, budget=200)  # nothing to see at all
    arm = CglArm(unit, runs_of("cgl", 2.0))
    arm.threshold = np.inf
    guessed, _ = arm._guessed()
    for label, share in ((0, 0.2), (1, 0.8)):  # P(group 1 | label) of the population
        assert guessed[labels == label].mean() == pytest.approx(share, abs=0.08)


def test_fairdsr_penalises_over_rows_whose_group_is_sure_and_closes_the_gap() -> None:
    inputs, labels, groups = leaning(reliable=0.6)
    start = unit_of(inputs, labels, groups, TRAINING, budget=80)
    plain = float(gaps(advance(PodArm(start, runs_of("vanilla")), 8), start)[0])
    arm = FairDsrArm(start, runs_of("fairdsr", 0.05))
    guessed, rows = arm._guessed()
    asked = set(arm.answers()[0].rows)
    chosen = np.array([row for row in rows if row not in asked])
    telling = np.abs(inputs[:, 1]) > 0.5
    assert telling.mean() < 0.65
    assert telling[chosen].mean() > 0.97
    assert (guessed[chosen] == groups[chosen]).mean() > 0.97 > (guessed == groups).mean() + 0.05
    assert gaps(advance(arm, 8), start)[0] < 0.5 * plain


def test_ssa_equals_the_losses_of_all_subgroups_where_the_head_sees_nobody() -> None:
    """f_a can read the group (it standardises), a head cannot: it is one number p = P(y = 1).

    Nine in ten have label 1. The mean loss is least at p = .9, where the negatives lose 2.3; the largest loss of a
    (group, label) cell is least at p = 1/2, where all lose log 2.
    """
    n = 500
    groups = (np.arange(n) % 4 > 0).astype(np.int64)
    labels = (np.arange(n) % 10 > 0).astype(np.int64)
    inputs = np.column_stack([np.ones(n), 1e-4 * groups])
    training = paper_training(hidden=(8,), epochs=60, batch_size=n, dropout=0.0)
    unit = unit_of(inputs, labels, groups, training, budget=24)
    arm = SsaArm(unit, runs_of("ssa", 0.01, 0.03))
    assert (arm.groups == groups).mean() > 0.99
    margins = advance(arm, 20).heads.margins(unit.pool.embeddings).double().numpy()
    losses = np.logaddexp(0, margins * np.where(labels == 1, -1, 1))
    cells = 2 * groups + labels
    worst = [max(row[cells == cell].mean() for cell in range(4)) for row in losses]
    np.testing.assert_allclose(worst, math.log(2), atol=0.03)
    plain = advance(PodArm(unit, runs_of("vanilla")), 20).heads.margins(unit.pool.embeddings)[0, 0].sigmoid()
    assert plain > 0.88


def test_jtt_steps_as_if_wrong_rows_stood_in_the_data_that_many_times() -> None:
    inputs, labels, groups = leaning(60)
    training = paper_training(hidden=(4,), epochs=3, batch_size=1000, dropout=0.0)
    unit = unit_of(inputs, labels, groups, training)
    arm = JttArm(unit, runs_of("jtt", 3.0))
    predicted = unit.bank(1).margins(unit.pool.embeddings)[0].numpy() > 0
    np.testing.assert_array_equal(arm.wrong.numpy(), predicted != labels)
    assert 0 < arm.wrong.sum() < 60
    times = np.where(arm.wrong.numpy(), 3, 1)
    several = unit_of(
        np.repeat(inputs, times, axis=0), np.repeat(labels, times), np.repeat(groups, times), training,
        pretrained=unit.pretrained,
    )  # fmt: skip
    twin = advance(PodArm(several, runs_of("vanilla")), 2)
    torch.testing.assert_close(advance(arm, 2).heads.parameters, twin.heads.parameters, rtol=0, atol=2e-5)
    assert (arm.heads.parameters - unit.bank(1).parameters).abs().max() > 1e-3


def conflicting(arm: Arm) -> np.ndarray:
    """Accuracy of every head where the loud feature lies."""
    inputs, labels, conflict = spurious(4000, conflicting=0.5, seed=1)
    right = (arm.heads.margins(torch.as_tensor(inputs, dtype=torch.float32)).numpy() > 0) == labels
    return np.asarray(right[:, conflict == 1].mean(axis=1))


@pytest.fixture(scope="module")
def misled() -> Unit:
    """A head that relies on a loud feature which agrees with the label in 98 rows of a hundred."""
    inputs, labels, conflict = spurious(1500, conflicting=0.02, seed=0)
    start = unit_of(inputs, labels, conflict, TRAINING, budget=200)
    head = advance(PodArm(start, runs_of("vanilla")), 1).heads.parameters[0]
    return unit_of(inputs, labels, conflict, TRAINING, budget=200, pretrained=head.double().numpy())


def test_jtt_and_dfr_mend_decisions_where_a_loud_feature_lies(misled: Unit) -> None:
    (plain,) = conflicting(advance(PodArm(misled, runs_of("vanilla")), 4))
    assert plain < 0.9
    weighed = conflicting(advance(JttArm(misled, runs_of("jtt", 4.0, 10.0)), 4))
    assert (weighed > plain + 0.05).all()
    refitted = conflicting(advance(DfrArm(misled, runs_of("dfr", 0.1, 1.0)), 4))
    assert (refitted > plain + 0.05).all()


def test_dfr_changes_the_last_layer_alone(misled: Unit) -> None:
    arm, plain = advance(DfrArm(misled, runs_of("dfr", 1.0)), 2), advance(PodArm(misled, runs_of("vanilla")), 2)
    below = slice(0, (9 + 1) * 8)
    torch.testing.assert_close(arm.heads.parameters[:, below], plain.heads.parameters[:, below], rtol=0, atol=1e-5)
    assert (arm.heads.parameters - plain.heads.parameters).abs().max() > 0.01


@pytest.mark.parametrize("kind", [ExponentiatedGradientArm, ThresholdOptimizerArm])
def test_fairlearn_s_rivals_close_the_gap_where_answers_are_many(
    kind: type[ExponentiatedGradientArm] | type[ThresholdOptimizerArm], unit: Unit, vanilla: float
) -> None:
    many = unit_of(*leaning(), TRAINING, budget=300, pretrained=unit.pretrained)
    name = "threshold-optimizer" if kind is ThresholdOptimizerArm else "exponentiated-gradient"
    arm = advance(kind(many, runs_of(name)[:1]), 2)
    assert gaps(arm, many)[0] < 0.35 * vanilla
    assert accuracies(arm, many)[0] > 0.65
    again = kind(many, runs_of(name)[:1])
    assert torch.equal(again.heads.margins(many.pool.embeddings), arm.heads.margins(many.pool.embeddings))


def test_the_threshold_optimizer_says_what_it_lacks() -> None:
    inputs, labels, _ = leaning(40)
    unit = unit_of(inputs, labels, labels, TRAINING, budget=8)  # a group of one label each
    with pytest.raises(InputError, match="both labels among the 8 answers: allow more"):
        ThresholdOptimizerArm(unit, runs_of("threshold-optimizer"))


def test_all_rivals_that_ask_get_the_same_answers_half_of_each_label(unit: Unit) -> None:
    asked = {ARMS[name](unit, runs_of(name)[-1:]).answers()[0] for name in RIVALS if METHODS[name].selector}
    assert len(asked) == 1
    answers = asked.pop()
    assert len(answers) == unit.budget
    assert unit.pool.labels[list(answers.rows)].sum() == unit.budget // 2
    assert answers.rows[: len(unit.first_answers())] == unit.first_answers().rows
    assert list(answers.groups) == unit.groups[list(answers.rows)].tolist()


@pytest.mark.parametrize("kind", [PodAllArm, GroupDroArm])
def test_rows_whose_group_is_not_on_record_leave_the_methods_that_know_all_groups_as_they_are(
    kind: type[PodAllArm] | type[GroupDroArm], unit: Unit
) -> None:
    name = "pod-all" if kind is PodAllArm else "group-dro"
    unknown = unit.groups.copy()
    unknown[::7] = UNKNOWN
    some = unit_of(unit.pool.embeddings.numpy(), unit.pool.labels.numpy(), unknown, TRAINING)
    arm = advance(kind(some, runs_of(name)[-1:]), 3)
    assert arm.heads.parameters.isfinite().all()
    assert gaps(arm, unit)[0] < gaps(advance(PodArm(unit, runs_of("vanilla")), 3), unit)[0]
