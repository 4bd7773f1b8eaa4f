"""Which share of each cell of people is of which group, from few answers and everybody's proxies.

Labels and decisions are known for everybody, so people fall into known cells (label x decision). All that is unknown
about true and false positive rates per group is the share q of each group in each cell. For every cell

    q^ = mean answer + power * (mean proxy of the whole cell - mean proxy of those answered)

is the rectified mean of prediction-powered inference: right on average whatever the proxy is worth. The power is tuned
on the answers (PPI++), 0 where the proxy is useless. What the proxies explain is as good as having more answers: n
answers with residual variance R (as a share of the variance of the answers) count as n / R. A share is then known as
well as from a random sample of so many people, with Jeffreys' prior: right also where a cell holds three answers, all
the same, for which "estimate +- 1.96 standard errors" claims certainty.

Everything is batched over leading dimensions, so that thousands of audits are simulated at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.data.dataset import IntArray

FloatArray = npt.NDArray[np.float64]

PRIOR = 0.5
"""Jeffreys' prior: half an answer for each group in each cell."""

DOUBT = 2.0
"""Answers' worth of doubt that the proxy explains anything: with few answers, power tuning flatters itself."""

_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class CellAnswers:
    """Answers of people drawn at random, for a batch of audits. Shapes: ... audits, n answers, g groups."""

    cells: IntArray  # (..., n) each person's cell
    answers: FloatArray  # (..., n, g) the group answered, one-hot; or how probable each one is
    proxies: FloatArray  # (..., n, g) P(group), made without that person's own answer
    probability: FloatArray  # (..., n) with which each person was drawn


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
