"""Which share of each cell of people is of which group, from few answers and everybody's proxies, and the rates of it.

Labels and decisions are known for everybody, so people fall into known cells (label x decision). All that is unknown
about true and false positive rates per group is the share q of each group in each cell. For every cell

    q^ = mean answer + power * (mean proxy of the whole cell - mean proxy of those answered)

is the rectified mean of prediction-powered inference: right on average whatever the proxy is worth. The power is tuned
on the answers (PPI++), 0 where the proxy is useless. What the proxies explain is as good as having more answers: n
answers with residual variance R (as a share of the variance of the answers) count as n / R. A share is then known as
well as from a random sample of so many people, with Jeffreys' prior: right also where a cell holds three answers, all
the same, for which "estimate +- 1.96 standard errors" claims certainty.

Proxies are cross-fitted: the answers are split into folds, and people of a fold get their proxies from a model of the
other folds; everybody else from the mean of all models. So a proxy is never better on those who answered than on
others, which is what the intervals rest on.

Everything is batched over leading dimensions, so that thousands of audits are simulated at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from apod.data.dataset import IntArray
from apod.fairness.notions import Notion, member_rates

FloatArray = npt.NDArray[np.float64]

PRIOR = 0.5
"""Jeffreys' prior: half an answer for each group in each cell."""

DOUBT = 2.0
"""Answers' worth of doubt that the proxy explains anything: with few answers, power tuning flatters itself."""

FOLDS = 5
COMPONENTS = 20
RIDGE = 30.0
"""Strong: with a hundred answers and twenty inputs a weaker one learns noise."""

_NEWTON_STEPS = 12
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class CellAnswers:
    """Answers of people drawn at random, for a batch of audits. Shapes: ... audits, n answers, g groups."""

    cells: IntArray  # (..., n) each person's cell
    answers: FloatArray  # (..., n, g) the group answered, one-hot; or how probable each one is
    proxies: FloatArray  # (..., n, g) P(group), made without that person's own answer
    probability: FloatArray  # (..., n) with which each person was drawn
    weights: FloatArray | None = None  # (..., n) how many people each stands for; None: all alike


@dataclass(frozen=True, eq=False)
class Shares:
    """What is known of every cell's group shares. Shapes: ... audits, c cells, g groups."""

    share: FloatArray  # (..., c, g) estimate
    effective: FloatArray  # (..., c) answers of a plain random sample that would tell as much
    freedom: FloatArray  # (..., c) degrees of freedom of that count
    residual: FloatArray  # (..., c) variance the proxies leave, as a share
    power: FloatArray  # (..., c) how far proxies are used: 0 not at all, 1 in full
    answered: IntArray  # (..., c) answers

    def draw(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Group shares that the answers allow, (..., draws, c, g); their spread is the uncertainty."""
        shape = (*self.effective.shape[:-1], draws, self.effective.shape[-1])
        freedom = np.broadcast_to(self.freedom[..., None, :], shape)
        worth = self.effective[..., None, :] * rng.chisquare(freedom) / freedom  # (..., D, c)
        drawn = rng.standard_gamma(worth[..., None] * self.share[..., None, :, :] + PRIOR)  # (..., D, c, g)
        return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))


def estimate_shares(sample: CellAnswers, sizes: FloatArray, labels: IntArray, cell_proxies: FloatArray) -> Shares:
    """The group shares of every cell.

    sizes (c,) people per cell · labels (c,) the label of each cell: power and residual are learnt per label, because a
    cell alone has too few answers · cell_proxies (..., c, g) mean proxy of everybody in the cell, answered or not.
    """
    inside = sample.cells[..., None] == np.arange(len(sizes))  # (..., n, c)
    weight = inside / sample.probability[..., None]  # (..., n, c)
    if sample.weights is not None:
        weight = weight * sample.weights[..., None]
    total = weight.sum(-2)  # (..., c)
    squared = (weight**2).sum(-2)
    weight = np.swapaxes(weight / np.maximum(total, _TINY)[..., None, :], -1, -2)  # (..., c, n), sums to 1
    answer, proxy = weight @ sample.answers, weight @ sample.proxies  # (..., c, g) means

    def spread(a: FloatArray, b: FloatArray, mean_a: FloatArray, mean_b: FloatArray) -> FloatArray:
        both = (weight @ (a * b).sum(-1)[..., None])[..., 0]
        return np.asarray(both - (mean_a * mean_b).sum(-1))  # (..., c) covariance within the cell, summed over groups

    count = total**2 / np.maximum(squared, _TINY)  # (..., c) answers, less what unequal weights cost
    moments = (
        spread(sample.answers, sample.answers, answer, answer),
        spread(sample.answers, sample.proxies, answer, proxy),
        spread(sample.proxies, sample.proxies, proxy, proxy),
    )
    power, residual = _tune(moments, count, answer, labels)
    some = inside.any(-2)
    share = np.where(some[..., None], answer + power[..., None] * (cell_proxies - proxy), cell_proxies)
    share = np.clip(share, 0, None)
    share = share / np.maximum(share.sum(-1, keepdims=True), _TINY)
    # nobody who was drawn with certainty leaves a doubt: the finite population correction
    weights = inside / sample.probability[..., None] ** 2
    if sample.weights is not None:
        weights = weights * sample.weights[..., None] ** 2
    unseen = (weights * (1 - sample.probability[..., None])).sum(-2) / np.maximum(weights.sum(-2), _TINY)
    worth = np.where(some, count / np.maximum(residual * unseen, 1e-9), 0.0)
    # what answers of one cell are worth is itself known from these few answers only
    return Shares(share, worth, count + 2 * DOUBT, residual, power, inside.sum(-2))


def _tune(
    moments: tuple[FloatArray, FloatArray, FloatArray], count: FloatArray, answer: FloatArray, labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Power, and the variance it leaves as a share of the answers' variance, each (..., c)."""
    power, residual = np.zeros_like(count), np.ones_like(count)
    for label in np.unique(labels):
        mine = labels == label
        n = count[..., mine].sum(-1)
        aa, ap, pp = ((count * moment)[..., mine].sum(-1) for moment in moments)
        tuned = np.clip(np.where(pp > _TINY, ap / np.maximum(pp, _TINY), 0), 0, 1)
        left = aa - 2 * tuned * ap + tuned**2 * pp
        cells = int(mine.sum())
        spent = np.maximum(n - cells, 1) / np.maximum(n - cells - 1, 1)  # tuning cost one degree of freedom
        left = np.where(tuned > 0, left * spent, left)
        mean = (count[..., None] * answer)[..., mine, :].sum(-2) / np.maximum(n, _TINY)[..., None]
        usual = np.maximum(1 - (mean**2).sum(-1), 0.05)  # the variance of answers with this mix of groups
        share = np.minimum((left + DOUBT * usual) / (aa + DOUBT * usual), 1.5)
        power[..., mine], residual[..., mine] = tuned[..., None], share[..., None]
    return power, residual


@dataclass(frozen=True, eq=False)
class Cells:
    """Known cells of people: everybody's label and the decision about them."""

    labels: IntArray  # (c,) 0 or 1
    decisions: IntArray  # (c,) 0 or 1
    sizes: FloatArray  # (c,) people whose group is to be estimated
    certain: FloatArray  # (c, g) further people whose group is known for certain

    def people(self, shares: FloatArray) -> FloatArray:
        """(..., c, g) how many there are of each group if the cells had these group shares."""
        return np.asarray(shares * self.sizes[:, None] + self.certain)

    def rates(self, notion: Notion, shares: FloatArray) -> FloatArray:
        """(..., k, e, g) the rates that a notion compares if the cells had these group shares (..., c, g)."""
        people = self.people(shares)
        found = member_rates(notion, self.labels, self.decisions[None], people.reshape(-1, *people.shape[-2:]))
        return found.reshape(*people.shape[:-2], *found.shape[2:])


def difference(rate: FloatArray) -> FloatArray:
    """Signed difference, first group minus reference (the last); beyond two groups highest minus lowest."""
    if rate.shape[-1] == 2:
        return np.asarray(rate[..., 0] - rate[..., 1])
    return np.asarray(rate.max(-1) - rate.min(-1))


def classical_difference(
    sample: CellAnswers, cells: Cells, notion: Notion, level: float = 0.95
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Two groups' difference in the one rate of a notion and its textbook interval from the answers alone.

    (difference, low, high): weighted by the draw, +- z standard errors, no proxies, nothing known of the others. NaN
    where a group has none.
    """
    mine = notion.cells(cells.labels)[sample.cells, 0]  # (..., n)
    decision = (cells.decisions == notion.events(cells.labels)[:, 0])[sample.cells].astype(np.float64)
    rate, variance = [], []
    for group in (0, 1):
        weight = mine * sample.answers[..., group] / sample.probability
        weight = weight if sample.weights is None else weight * sample.weights
        total, count = weight.sum(-1), (weight > 0).sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (weight * decision).sum(-1) / total
            spread = (weight**2 * (decision - mean[..., None]) ** 2).sum(-1) / total**2
            variance.append(spread * count / np.maximum(count - 1, 1))
        rate.append(mean)
    middle = rate[0] - rate[1]
    half = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variance[0] + variance[1])
    return middle, middle - half, middle + half


def components(features: FloatArray, most: int = COMPONENTS) -> FloatArray:
    """The leading principal components of standardised features, (n, k): inputs few enough for few answers."""
    spread = features.std(axis=0)
    kept = spread > 1e-9
    if not kept.any():
        return np.zeros((len(features), 1))
    scaled = (features[:, kept] - features[:, kept].mean(axis=0)) / spread[kept]
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    leading = vectors[:, np.argsort(values)[::-1][:most]]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])  # eigh leaves them open
    return np.asarray(scaled @ (leading * signs), dtype=np.float64)


def fit_logistic(inputs: FloatArray, targets: FloatArray, used: FloatArray, ridge: float = RIDGE) -> FloatArray:
    """Weights (b, k + 1), intercept last, of b ridge logistic regressions at once.

    inputs (b, n, k) · targets (b, n) in [0, 1] · used (b, n) weight of each row, 0 = left out
    """
    augmented = np.concatenate([inputs, np.ones((*inputs.shape[:-1], 1))], axis=-1)  # (b, n, k + 1)
    penalty = np.full(augmented.shape[-1], ridge)
    penalty[-1] = 0.5  # next to nothing, so that answers of one group alone leave a finite intercept
    weights = np.zeros((len(inputs), augmented.shape[-1]))
    transposed = np.swapaxes(augmented, 1, 2)
    for _ in range(_NEWTON_STEPS):
        chance = _sigmoid((augmented @ weights[..., None])[..., 0])
        slope = (transposed @ (used * (chance - targets))[..., None])[..., 0] + penalty * weights
        curvature = transposed @ (augmented * (used * np.maximum(chance * (1 - chance), 1e-6))[..., None])
        weights = weights - np.linalg.solve(curvature + np.diag(penalty), slope[..., None])[..., 0]
    return weights


def cross_fitted(
    inputs: FloatArray, rows: IntArray, targets: FloatArray, rng: np.random.Generator, folds: int = FOLDS
) -> FloatArray:
    """P(group) of everybody, (..., n, g), for one audit or a batch of them.

    inputs (n, k) · rows (..., m) of those who answered · targets (..., m, g) their answers
    """
    batch, m, groups = targets.shape[:-2], targets.shape[-2], targets.shape[-1]
    rows, targets = rows.reshape(-1, m), targets.reshape(-1, m, groups)
    folds = max(2, min(folds, m))
    fold = np.argsort(rng.random(rows.shape), axis=1) % folds  # (b, m)
    used = (fold[:, None] != np.arange(folds)[:, None]).astype(np.float64)  # (b, folds, m)
    own = np.repeat(inputs[rows], folds, axis=0)  # (b * folds, m, k)
    # two groups need one model; beyond, one against the rest, brought to sum to one
    guessed = []
    for group in range(1, 2) if groups == 2 else range(groups):
        weights = fit_logistic(own, np.repeat(targets[..., group], folds, axis=0), used.reshape(-1, m))
        everybody = _sigmoid(weights[:, :-1] @ inputs.T + weights[:, -1:])  # (b * folds, n)
        everybody = everybody.reshape(len(rows), folds, -1)
        chance = everybody.mean(axis=1)  # (b, n)
        audits = np.arange(len(rows))[:, None]
        chance[audits, rows] = everybody[audits, fold, rows]
        guessed.append(chance)
    proxies = np.stack([1 - guessed[0], guessed[0]] if groups == 2 else guessed, axis=-1)
    proxies /= proxies.sum(axis=-1, keepdims=True)
    return proxies.reshape(*batch, *proxies.shape[1:])


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
