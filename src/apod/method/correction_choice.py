"""What corrections would do to the gap by every draw of f_a, and which of them to apply.

A correction changes rates only through the people whose decision it changes. With D_i the model's decision, a_ig the
(probable) membership and f_i = 1 - 2 D_i for people whose decision changes at a strength of at most r,

    rate_cg(r) = rate_cg(0) + sum over cell c of f_i a_ig 1[i changed] / sum over cell c of a_ig

so each person enters one band of strengths per direction, and bands are added up along the path.

worth = E[fall] - caution x sd[fall],      fall = gap of the model - gap of the corrected model

over draws of f_a and over the sampling of the people judged on: knowing everybody's group does not make the gap of a
part the gap of the population. A correction is affordable when what it costs, plus one standard error, stays within
the limits, and when it is improbable that it turns a difference around. Where no affordable correction is worth more
than 0 the base model is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from apod.fairness.many_labels import pair_gap
from apod.fairness.notions import Notion
from apod.method.correction_costs import Costs, Judged, costs, joined_fields
from apod.method.settings import Settings

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Paths:
    """Rates along A directions at R strengths, by D draws; cells k, groups G. Of more than two labels, pairs of a cell
    and a decision that is counted in it take the place of cells."""

    base: Floats  # (D, k, G) rates of the model
    up: Floats  # (A, R, D, k, G) share newly decided 1
    down: Floats  # (A, R, D, k, G) share newly decided 0
    expected: Floats  # (D, k, G) how many people of a cell belong to a group
    people: Floats  # (D, k, G) how many people a rate averages over: more than that, where membership is only probable

    @property
    def rates(self) -> Floats:
        """(A, R, D, k, G) rates after the correction."""
        return self.base + self.up - self.down

    def joined(self, others: Paths) -> Paths:
        """These directions and others of the same people and draws."""
        up, down = np.concatenate([self.up, others.up]), np.concatenate([self.down, others.down])
        return Paths(self.base, up, down, self.expected, self.people)


def bands(changes_at: Floats, strengths: Floats) -> IntArray:
    """(A, n) the first strength (ascending) at which a person's decision has changed; len(strengths) where none."""
    return np.searchsorted(strengths, changes_at, side="left")


def trace_paths(
    notion: Notion,
    people: Judged,
    band: IntArray,
    count: int,
    versions: tuple[int, int],
    blocks: Iterable[tuple[slice, npt.NDArray[np.floating]]],
) -> Paths:
    """Rates along all directions, block by block of people.

    band (A, n) by `bands` for `count` strengths · versions: draws D and groups G · blocks: rows and their members
    (rows, D, G).
    """
    cells = np.asarray(notion.cells(people.labels))  # (n, k)
    k, width = cells.shape[1], versions[0] * versions[1]
    squares, heights = np.zeros((k, width)), (k, k, 2 * len(band) * count * k)
    sums = [np.zeros((height, width - versions[0])) for height in heights]  # of all groups but the last
    counts = [np.zeros(height) for height in heights]
    for rows, members in blocks:
        inside = cells[rows].T.astype(members.dtype)  # (k, rows)
        squares += inside @ members.reshape(len(members), width) ** 2
        free = members[:, :, :-1].reshape(len(members), -1)
        chosen = inside * people.decisions[rows].astype(members.dtype)
        moved = _placement(cells[rows], people.decisions[rows], band[:, rows], count)
        stands = members[:, 0].sum(axis=1)  # for so many people; 1 where nobody is weighted
        for place, who in enumerate((inside, chosen, moved)):
            sums[place] += who @ free
            counts[place] += who @ stands
    total, base, steps = (_every_group(*each, versions) for each in zip(sums, counts, strict=True))
    return added_up(steps, base, total, squares, (len(band), count, k), versions)


def added_up(
    moved: Floats,
    base: Floats,
    total: Floats,
    squares: Floats,
    size: tuple[int, int, int],
    versions: tuple[int, int],
) -> Paths:
    """The paths of sums (k, D x G) over people, and of sums of moves (2 x A x R x k, D x G); size: A, R and k."""
    directions, count, k = size
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0: a group with nobody in a cell has no rate
        steps = moved.reshape(2, *size, -1)
        steps /= total
        rates, people_each = base / total, total**2 / squares
    for place in range(1, count):  # in the order of memory, which `cumsum` along this axis is not
        steps[:, :, place] += steps[:, :, place - 1]
    along = steps.reshape(2, directions, count, k, *versions).transpose(0, 1, 2, 4, 3, 5)
    split = (each.reshape(k, *versions).swapaxes(0, 1) for each in (rates, total, people_each))
    return Paths(next(split), along[0], along[1], *split)


def _every_group(sums: Floats, counts: Floats, versions: tuple[int, int]) -> Floats:
    """(m, D x G) memberships summed over people: those (m, D x (G - 1)) of all groups but the last, which has the rest
    of the people (m,)."""
    free = sums.reshape(len(sums), versions[0], versions[1] - 1)
    last = counts[:, None, None] - free.sum(axis=2, keepdims=True)
    return np.concatenate([free, last], axis=2).reshape(len(sums), -1)


def _placement(cells: npt.NDArray[np.bool_], decisions: IntArray, band: IntArray, count: int) -> sparse.csr_matrix:
    """(2 x A x R x k, rows) who moves where: up or down, direction, band, cell."""
    direction, row = np.nonzero(band < count)
    places, rows = [], []
    for cell in range(cells.shape[1]):
        inside = cells[row, cell]
        d, r = direction[inside], row[inside]
        places.append(((decisions[r] * len(band) + d) * count + band[d, r]) * cells.shape[1] + cell)
        rows.append(r)
    place, column = np.concatenate(places), np.concatenate(rows)
    size = (2 * len(band) * count * cells.shape[1], len(cells))
    return sparse.csr_matrix((np.ones(len(place), np.float32), (place, column)), shape=size)


KEPT_SELECTION = 0.05
"""Where a selection rate is asked for, corrections that select a twentieth more or fewer people are not considered."""
NOISE = 256
"""So many samplings at least."""
CLEARLY = 0.02
"""A difference of rates that is so far on the other side after a correction has been reversed by it."""


@dataclass(frozen=True)
class Limits:
    """What a correction may cost, as fractions, and how sure its benefit has to be."""

    accuracy: float = 0.01
    balanced: float = 0.015
    caution: float = 0.6
    reversal: float = 0.1  # probability with which a difference may end clearly on the other side
    selection: float | None = None  # share of the people selected by which their number may change; None: any

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        """The limits that these settings name."""
        kept = None if settings.selection_rate is None else KEPT_SELECTION
        return cls(settings.max_accuracy_loss, settings.max_balanced_loss, settings.caution, selection=kept)


@dataclass(frozen=True, eq=False)
class Falls:
    """The fall of the gap by A directions x R strengths."""

    mean: Floats  # (A, R)
    deviation: Floats  # (A, R)
    improves: Floats  # (A, R) probability that the gap falls at all
    reverses: Floats  # (A, R) probability that a difference ends clearly on the other side

    def joined(self, others: Falls) -> Falls:
        """Of these directions and others."""
        return Falls(*joined_fields(self, others))

    def worth(self, caution: float) -> Floats:
        """(A, R) expected fall minus caution times its standard deviation."""
        return self.mean - caution * self.deviation


@dataclass(frozen=True, eq=False)
class Looked:
    """Directions that were looked at, and what they would do."""

    directions: Floats  # (A, k, G)
    band: IntArray  # (A, n)
    paths: Paths
    costs: Costs
    falls: Falls

    @property
    def parts(self) -> tuple[Floats, IntArray, Paths, Costs, Falls]:
        """All of it, in this order."""
        return self.directions, self.band, self.paths, self.costs, self.falls

    def choose(self, people: Judged, limits: Limits) -> Chosen:
        """The one to apply, of these people about as many being selected where that is asked for."""
        kept = keeps_selection(people, self.band, self.falls.mean.shape[1], limits)
        return choose(self.falls, self.costs, limits, kept)

    def joined(self, others: Looked) -> Looked:
        """These directions and others."""
        return Looked(
            np.concatenate([self.directions, others.directions]),
            np.concatenate([self.band, others.band]),
            self.paths.joined(others.paths),
            self.costs.joined(others.costs),
            self.falls.joined(others.falls),
        )


def look(
    notion: Notion,
    people: Judged,
    directions: Floats,
    band: IntArray,
    count: int,
    versions: tuple[int, int],
    blocks: Iterable[tuple[slice, npt.NDArray[np.floating]]],
    noise: Floats,
) -> Looked:
    """What directions (A, k, G) would do, by the band (A, n) of `count` strengths that everybody changes in."""
    paths = trace_paths(notion, people, band, count, versions, blocks)
    return Looked(directions, band, paths, costs(people, band, count), falls(notion, paths, noise))


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
    found = np.empty((4, *paths.up.shape[:2]))
    for direction, (fall, turned) in enumerate(sampled_falls(notion, paths, noise)):
        found[:, direction] = summed_up(fall, turned)
    return Falls(*found)


def summed_up(fall: Floats, turned: BoolArray) -> tuple[Floats, Floats, Floats, Floats]:
    """(R,) each: what `Falls` says of falls (R, S) and of whether a difference was turned around in them."""
    return fall.mean(axis=1), fall.std(axis=1), (fall > 0).mean(axis=1), turned.mean(axis=1)


def sampled_falls(notion: Notion, paths: Paths, noise: Floats) -> Iterator[tuple[Floats, BoolArray]]:
    """Direction by direction: the fall of the gap (R, S) by draw and sampling, and whether a difference turned."""
    draws = len(paths.base)
    turn = np.arange(len(noise)) % draws
    own, change = sampling_roots(paths)
    base = paths.base[turn] + own * noise[:, 0]  # (S, k, G)
    before, favoured = pair_gap(notion, base), np.sign(_differences(base))  # (S,), (S, k, G - 1)
    for direction in range(len(paths.up)):
        moved = paths.up[direction] - paths.down[direction]  # (R, D, k, G)
        moved = moved if len(turn) == draws else moved[:, turn]  # (R, S, k, G)
        slope, rest = change[direction, :, :, None].swapaxes(0, 1)  # (R, 1, k, G) each
        rates = base + moved + slope * noise[:, 0] + rest * noise[:, 1]
        fall = before - pair_gap(notion, rates)  # (R, S)
        apart = (favoured * _differences(rates) < -CLEARLY).reshape(*fall.shape, -1)
        turned = apart[..., 0]  # (R, S)
        for place in range(1, apart.shape[2]):  # few: many times as fast as a reduction
            turned = turned | apart[..., place]
        yield fall, turned


def _differences(rates: Floats) -> Floats:
    """(..., k, G - 1) every group's rate minus that of the last group."""
    return np.asarray(rates[..., :-1] - rates[..., -1:])


def sampling_roots(paths: Paths) -> tuple[Floats, Floats]:
    """The model's rates have sampling error own x z0, the change of rates change[0] x z0 + change[1] x z1.

    Returns own (k, G) and change (A, R, 2, k, G), by mean rates. Within a cell and group a person's change is +1, -1 or
    0, the decision 0 or 1, and only people decided 1 can change by -1.
    """
    mean = np.mean if paths.expected.all() else np.nanmean  # a rate is undefined where nobody is expected
    people = mean(paths.people, axis=0).clip(1e-9)  # (k, G)
    rate = mean(paths.base, axis=0)
    up, down = mean(paths.up, axis=2), mean(paths.down, axis=2)  # (A, R, k, G)
    own = np.sqrt((rate * (1 - rate)).clip(1e-12) / people)
    together = (-down - rate * (up - down)) / people  # covariance of decision and change
    alone = (up + down - (up - down) ** 2) / people
    slope = together / own
    rest = np.sqrt((alone - slope**2).clip(0))
    return own, np.stack([slope, rest], axis=2)


def affordable(costs: Costs, limits: Limits) -> BoolArray:
    """(A, R) whether costs plus one standard error stay within the limits.

    The error is that of the loss itself, over people whose decision changes. A whole one: the cheapest of hundreds of
    candidates is dearer than it looks.
    """
    return np.asarray((costs.accuracy_counted <= limits.accuracy) & (costs.balanced_counted <= limits.balanced))


def keeps_selection(people: Judged, band: IntArray, count: int, limits: Limits) -> BoolArray | None:
    """(A, R) whether about as many people are selected as by the model; None where any number is allowed."""
    if limits.selection is None:
        return None
    weights = np.ones(len(people)) if people.weights is None else people.weights
    more = np.where(people.decisions == 0, weights, -weights)
    place = band + (count + 1) * np.arange(len(band))[:, None]
    each = np.bincount(place.ravel(), np.tile(more, len(band)), minlength=len(band) * (count + 1))
    net = np.cumsum(each.reshape(len(band), count + 1)[:, :count], axis=1)
    return np.asarray(np.abs(net) <= limits.selection * (weights @ people.decisions))


def choose(found: Falls, costs: Costs, limits: Limits, harmless: BoolArray | None = None) -> Chosen:
    """The affordable correction of the greatest worth, which is applied where that is above 0.

    Where nothing is affordable the weakest correction of the greatest worth leads, and is not applied. With `harmless`
    (A, R) only these may be applied.
    """
    possible = np.isfinite(found.mean)
    allowed = affordable(costs, limits) & possible & (found.reverses <= limits.reversal)
    if harmless is not None:
        allowed &= harmless
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


FEW_PEOPLE = 50
"""Of several attributes, a group that fewer people of a cell are expected to belong to does not count in the gap."""


def compared_groups(paths: Paths, least: float = FEW_PEOPLE) -> IntArray:
    """The groups that enough people of every cell are expected to belong to; all where that leaves fewer than two."""
    enough = np.flatnonzero((paths.expected.mean(axis=0) >= least).all(axis=0))
    return enough if len(enough) >= 2 else np.arange(paths.expected.shape[2])


def restricted(paths: Paths, groups: IntArray) -> Paths:
    """The same paths of these groups alone."""
    if len(groups) == paths.base.shape[2]:
        return paths
    return Paths(*(own[..., groups] for own in (paths.base, paths.up, paths.down, paths.expected, paths.people)))


def samplings(draws: int) -> int:
    """How many samplings of the people judged on: a multiple of the draws."""
    return NOISE * -(-draws // NOISE)


def common_noise(count: int, cells: int, groups: int, rng: np.random.Generator) -> Floats:
    """(count, 2, cells, groups) standard normal noise, each value beside its opposite: means are exact."""
    half = rng.standard_normal((count // 2, 2, cells, groups))
    return np.concatenate([half, -half])
