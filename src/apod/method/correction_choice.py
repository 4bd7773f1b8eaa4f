"""Which correction to apply: the largest fall of the gap that the answers vouch for, within what it may cost.

    worth = E[fall] - caution x sd[fall],      fall = gap of the model - gap of the corrected model

over draws of f_a and over the sampling of the people judged on: knowing everybody's group does not make the gap of a
part the gap of the population. A correction is affordable when what it costs, plus one standard error, stays within
the limits, and when it is improbable that it turns a difference around. Where no affordable correction is worth more
than 0 the model stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apod.fairness.notions import Notion
from apod.method.judgement import Costs, Paths
from apod.method.settings import Settings

Floats = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

CLEARLY = 0.02
"""A difference of rates that is so far on the other side after a correction has been reversed by it."""


@dataclass(frozen=True)
class Limits:
    """What a correction may cost, as fractions, and how sure its benefit has to be."""

    accuracy: float = 0.01
    balanced: float = 0.015
    caution: float = 0.6
    reversal: float = 0.1  # probability with which a difference may end clearly on the other side

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """The limits that these settings name."""
        return cls(settings.max_accuracy_loss, settings.max_balanced_loss, settings.caution)


@dataclass(frozen=True, eq=False)
class Falls:
    """The fall of the gap by A directions x R strengths."""

    mean: Floats  # (A, R)
    deviation: Floats  # (A, R)
    improves: Floats  # (A, R) probability that the gap falls at all
    reverses: Floats  # (A, R) probability that a difference ends clearly on the other side

    def worth(self, caution: float) -> Floats:
        """(A, R) expected fall minus caution times its standard deviation."""
        return self.mean - caution * self.deviation


@dataclass(frozen=True)
class Chosen:
    """The leading correction, a direction and a place on its path, and whether it is applied or the model stays."""

    direction: int
    strength: int
    worth: float  # of the leading correction; NaN where none is affordable
    applied: bool


def falls(notion: Notion, paths: Paths, noise: Floats) -> Falls:
    """Mean and deviation of the fall over draws and sampling; noise (S, 2, k, G) standard normal, common to all.

    Every draw meets S / D samplings, in turn; S is a multiple of D.
    """
    draws = len(paths.base)
    turn = np.arange(len(noise)) % draws
    own, change = sampling_roots(paths)
    base = paths.base[turn] + own * noise[:, 0]  # (S, k, G)
    before, favoured = notion.gap(base[:, :, None]), np.sign(_differences(base))  # (S,), (S, k, G - 1)
    found = np.empty((4, *paths.up.shape[:2]))
    for direction in range(len(paths.up)):
        moved = (paths.up[direction] - paths.down[direction])[:, turn]  # (R, S, k, G)
        slope, rest = change[direction, :, :, None].swapaxes(0, 1)  # (R, 1, k, G) each
        rates = base + moved + slope * noise[:, 0] + rest * noise[:, 1]
        fall = before - notion.gap(rates[..., None, :])  # (R, S)
        turned = (favoured * _differences(rates)).reshape(*fall.shape, -1).min(axis=2) < -CLEARLY  # (R, S)
        found[:, direction] = fall.mean(axis=1), fall.std(axis=1), (fall > 0).mean(axis=1), turned.mean(axis=1)
    return Falls(*found)


def _differences(rates: Floats) -> Floats:
    """(..., k, G - 1) every group's rate minus that of the last group."""
    return np.asarray(rates[..., :-1] - rates[..., -1:])


def sampling_roots(paths: Paths) -> tuple[Floats, Floats]:
    """The model's rates have sampling error own x z0, the change of rates change[0] x z0 + change[1] x z1.

    Returns own (k, G) and change (A, R, 2, k, G), by mean rates. Within a cell and group a person's change is +1, -1 or
    0, the decision 0 or 1, and only people decided 1 can change by -1.
    """
    people = np.nanmean(paths.people, axis=0).clip(1e-9)  # (k, G)
    rate = np.nanmean(paths.base, axis=0)
    up, down = np.nanmean(paths.up, axis=2), np.nanmean(paths.down, axis=2)  # (A, R, k, G)
    own = np.sqrt((rate * (1 - rate)).clip(1e-12) / people)
    together = (-down - rate * (up - down)) / people  # covariance of decision and change
    alone = (up + down - (up - down) ** 2) / people
    slope = together / own
    rest = np.sqrt((alone - slope**2).clip(0))
    return own, np.stack([slope, rest], axis=2)


def affordable(costs: Costs, limits: Limits) -> BoolArray:
    """(A, R) whether costs plus one standard error stay within the limits."""
    return np.asarray(
        (costs.accuracy + costs.accuracy_error <= limits.accuracy)
        & (costs.balanced + costs.balanced_error <= limits.balanced)
    )


def choose(found: Falls, costs: Costs, limits: Limits) -> Chosen:
    """The affordable correction of the greatest worth, which is applied where that is above 0.

    Where nothing is affordable the weakest correction of the greatest worth leads, and is not applied.
    """
    possible = np.isfinite(found.mean)
    allowed = affordable(costs, limits) & possible & (found.reverses <= limits.reversal)
    worth = np.where(possible, found.worth(limits.caution), -np.inf)
    if not allowed.any():
        return Chosen(int(worth[:, 0].argmax()), 0, float("nan"), False)
    worth = np.where(allowed, worth, -np.inf)
    direction, strength = np.unravel_index(int(worth.argmax()), worth.shape)
    best = float(worth[direction, strength])
    return Chosen(int(direction), int(strength), best, best > 0)


def keep(found: Falls, limits: Limits, strength: int) -> Chosen:
    """This strength of the only direction there is, applied where it is still worth more than 0."""
    worth = float(found.worth(limits.caution)[0, strength])
    return Chosen(0, strength, worth, worth > 0)


def common_noise(count: int, cells: int, groups: int, rng: np.random.Generator) -> Floats:
    """(count, 2, cells, groups) standard normal noise, each value beside its opposite: means are exact."""
    half = rng.standard_normal((count // 2, 2, cells, groups))
    return np.concatenate([half, -half])
