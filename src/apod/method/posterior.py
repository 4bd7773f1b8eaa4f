"""What a few answers say about everybody's group, and what they leave open: draws of a logistic f_a.

f_a reads *ordinary* columns, the principal components of the encoded inputs, whose prior width is learnt with the
answers, and *targeted* columns: label, decision, both together, and the model's margin within its cell. The gap
depends on the groups' shares in the cells (label x decision) alone. An f_a that is right on average over everybody can
be wrong in a cell; the targeted columns let answers correct that, and until then keep intervals honest. Since the
decision is a function of x, they have little to do where f_a reads x well: a second, narrow width for them is as
probable as the wide one before any answer. Probabilities of the groups that came with the table are columns of their
own, taken at their word before any answer; how far to trust them is learnt (`method.group_knowledge`).

Draws are a function of the seed and the sorted answers. They are kept as weights; memberships are made block by block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from apod.data.encode import EmbeddedBlock
from apod.method.sampler import CHAINS, KEPT, Design, Told, draw_normal_weights, draw_weights
from apod.randomness import generator

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.floating]
Block = tuple[slice, npt.NDArray[np.float32]]  # rows, and their members (rows, D, G)

MOST_COMPONENTS, MOST_VARIANCE = 48, 0.995
MOST_INPUTS, PROJECTED = 1024, 256
"""Wider inputs are projected at random to so many columns first."""
COVARIANCE_ROWS = 20_000
MANY_ANSWERS = 2000
"""From here on draws are normal around the mode instead of exact."""
BLOCK = 8192
QUICK_BURN_IN = 16


@dataclass(frozen=True)
class Prior:
    """What f_a's weights may be before any answer. Numbers are 1 after scaling, a 0/1 column moves by 1."""

    widths: tuple[float, ...] = (0.15, 0.6, 2.5, 10.0)  # variance of the logit that all ordinary columns bring
    usual_width: float = 1.5  # median of that variance
    width_spread: float = 1.5  # standard deviation of its logarithm
    intercept: float = 2.0  # standard deviations, from here on
    label: float = 0.6
    decision: float = 0.8
    both: float = 0.3
    margin: float = 0.4
    narrow: float = 0.2  # the three above may be so much narrower
    narrow_share: float = 0.5  # with this probability
    trust: float = 0.5  # of the weights of probabilities that were told, around what they say
    exact_answers: int = MANY_ANSWERS  # up to so many answers draws are exact

    def grid(self, ordinary: int, told: int = 0, classes: int = 2) -> tuple[Floats, Floats]:
        """(T, p + 5) variances of the weights at every width, and (T,) log probabilities of the widths.

        The last `told` of the ordinary columns are probabilities that came with the table. Of K labels there are
        2 K + 1 columns besides: as many of the label as are free, and right or wrong of each.
        """
        variances, logs = [], []
        scales = ((1.0, 1 - self.narrow_share), (self.narrow, self.narrow_share))
        for width in self.widths:
            for scale, share in scales if self.narrow_share > 0 else scales[:1]:
                decisions = [self.decision, self.both] if classes == 2 else [self.decision] * classes
                targeted = scale * np.array([*decisions, self.margin])
                read = [*np.full(ordinary - told, width), *np.full(told, self.trust**2)]
                variances.append([*read, self.intercept**2, *[self.label**2] * (classes - 1), *targeted**2])
                logs.append(-0.5 * (np.log(width / self.usual_width) / self.width_spread) ** 2 + np.log(share))
        return np.array(variances), np.array(logs)


DEFAULT_PRIOR = Prior()


@dataclass(frozen=True, eq=False)
class People:
    """What is known of people apart from their group."""

    inputs: Matrix  # (n, d) encoded
    labels: IntArray  # (n,) codes, 0 or 1 of two labels
    decisions: IntArray  # (n,) of the model, the same
    margins: Floats  # (n,) calibrated log odds above the model's threshold, or of the decision against the next

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Reader:
    """How f_a reads people: constants of the training part."""

    centre: Floats  # (d,)
    components: Floats  # (d, p) inputs to ordinary columns, whose variances add up to 1
    label_mean: float
    decision_mean: float
    margin_means: Floats  # (2, 2) by label and decision
    margin_scale: float
    told: int = 0  # so many of the components, the last ones, are probabilities that came with the table
    shares: Floats | None = None  # (K,) of more than two labels, whose `margin_means` are by label and right or wrong
    rights: Floats | None = None  # (K,) how often the model is right about each of them

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return 2 if self.shares is None else len(self.shares)

    @property
    def ordinary_count(self) -> int:
        """How many columns come from the inputs."""
        return int(self.components.shape[1])

    def ordinary(self, inputs: Matrix) -> Floats:
        """(n, p) columns that need no label: what the correction reads."""
        return np.asarray((inputs - self.centre) @ self.components)

    def columns(self, people: People) -> Floats:
        """(n, p + 5) ordinary columns, a one, and the targeted columns; of K labels p + 2 K + 1."""
        if self.shares is not None and self.rights is not None:
            return self._class_columns(people, self.shares, self.rights)
        label, decision = people.labels - self.label_mean, people.decisions - self.decision_mean
        inside = (people.margins - self.margin_means[people.labels, people.decisions]) / self.margin_scale
        own = [np.ones(len(people)), label, decision, 2 * label * decision, inside]
        return np.column_stack([self.ordinary(people.inputs), *own])

    def _class_columns(self, people: People, shares: Floats, rights: Floats) -> Floats:
        hot = people.labels[:, None] == np.arange(len(shares))  # (n, K)
        right = (people.labels == people.decisions).astype(np.int64)
        inside = (people.margins - self.margin_means[people.labels, right]) / self.margin_scale
        own = [np.ones(len(people)), (hot - shares)[:, :-1], hot * (right[:, None] - rights), inside]
        return np.column_stack([self.ordinary(people.inputs), *own])


def fit_reader(
    people: People,
    seed: int,
    told: Mapping[int, float] | None = None,
    blocks: Sequence[EmbeddedBlock] = (),
    classes: int = 2,
) -> Reader:
    """Principal components of these people's inputs, and the means and scales of their targeted columns.

    A 0/1 column of a rare category is scaled by the root of its standard deviation: half way between counting each
    column the same and counting each person the same. told: columns of the inputs that are read by themselves, each
    times its factor · blocks: columns of an embedding, each, which keep its proportions; every block and all other
    columns together weigh the same.
    """
    told = told or {}
    inputs = np.asarray(people.inputs[:: max(1, len(people) // COVARIANCE_ROWS)], dtype=np.float64)
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    scale = 1 / np.sqrt(np.where(spread > 1e-9, spread, np.inf))  # a constant column says nothing
    for block in blocks:
        scale[block.places] = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0)[block.places] * block.deviations
    scale[list(told)] = 0
    scale *= _balance(scale * spread, [block.places for block in blocks])
    start = np.diag(scale) if len(scale) <= MOST_INPUTS else scale[:, None] * _projection(len(scale), seed)
    covariance = np.atleast_2d(np.cov((inputs - centre) @ start, rowvar=False))
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1].clip(0), vectors[:, ::-1]
    total = max(float(values.sum()), 1e-300)
    enough = int(np.searchsorted(values.cumsum(), MOST_VARIANCE * total)) + 1
    kept = min(MOST_COMPONENTS, enough, int((values > 1e-9 * total).sum()) or 1)
    components = start @ vectors[:, :kept] / np.sqrt(max(float(values[:kept].sum()), 1e-300))
    components *= np.sign(components[np.abs(components).argmax(axis=0), np.arange(kept)])  # the same on every machine
    alone = np.zeros((len(scale), len(told)))
    alone[list(told), np.arange(len(told))] = list(told.values())
    if classes > 2:
        return _class_reader(centre, np.column_stack([components, alone]), people, len(told), classes)
    means = np.array([[_mean(people.margins[_cell(people, y, d)]) for d in (0, 1)] for y in (0, 1)])
    return Reader(
        centre,
        np.column_stack([components, alone]),
        people.labels.mean(),
        people.decisions.mean(),
        means,
        max(people.margins.std(), 1e-9),
        len(told),
    )


def _class_reader(centre: Floats, components: Floats, people: People, told: int, classes: int) -> Reader:
    right = people.labels == people.decisions
    cells = [[(people.labels == label) & (right == was) for was in (False, True)] for label in range(classes)]
    means = np.array([[_mean(people.margins[cell]) for cell in both] for both in cells])
    rights = np.array([_mean(right[people.labels == label].astype(np.float64)) for label in range(classes)])
    shares, scale = np.bincount(people.labels, minlength=classes) / len(people), max(people.margins.std(), 1e-9)
    return Reader(centre, components, 0.0, 0.0, means, scale, told, shares, rights)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of f_a's weights, each group against the last one."""

    reader: Reader
    weights: Floats  # (D, G - 1, p + 5), of K labels p + 2 K + 1

    @property
    def versions(self) -> tuple[int, int]:
        """Draws and groups."""
        return self.weights.shape[0], self.weights.shape[1] + 1

    def members(self, columns: Matrix) -> npt.NDArray[np.float32]:
        """(n, D, G) membership probabilities of people, by their `Reader.columns`."""
        draws, groups = self.versions
        flat = self.weights.reshape(draws * (groups - 1), -1).astype(np.float32)
        logits = (columns.astype(np.float32, copy=False) @ flat.T).reshape(len(columns), draws, groups - 1)
        if groups == 2:
            both = np.empty((len(columns), draws, 2), dtype=np.float32)
            expit(logits[..., 0], out=both[..., 0])
            np.subtract(1, both[..., 0], out=both[..., 1])
            return both
        return np.asarray(softmax(np.concatenate([logits, np.zeros_like(logits[..., :1])], axis=2), axis=2))

    def blocks(self, columns: Matrix, rows: IntArray, likelihood: Floats) -> Iterator[Block]:
        """Everybody's memberships block by block; certain answers, (n, G) for rows (n,), overwrite guesses."""
        certain = (likelihood > 0).sum(axis=1) == 1
        known, own = rows[certain], (likelihood[certain] > 0).astype(np.float32)
        for start in range(0, len(columns), BLOCK):
            stop = min(start + BLOCK, len(columns))
            members = self.members(columns[start:stop])
            here = (known >= start) & (known < stop)
            members[known[here] - start] = own[here, None]
            yield slice(start, stop), members

    def score_weights(self) -> Floats:
        """(G - 1, p + 1) the f_a of x alone that bias scores read: mean weights, targeted columns at their means."""
        return np.asarray(self.weights[:, :, : self.reader.ordinary_count + 1].mean(axis=0))


class QuickPosterior(Posterior):
    """The same draws of one of several attributes: memberships of more than two groups come in half the time.

    They are those of `Posterior` up to rounding.
    """

    def members(self, columns: Matrix) -> npt.NDArray[np.float32]:
        """(n, D, G) membership probabilities of people, by their `Reader.columns`."""
        draws, groups = self.versions
        if groups == 2:
            return super().members(columns)
        own = columns.astype(np.float32, copy=False)
        odds = np.empty((groups, len(columns), draws), dtype=np.float32)
        for group in range(groups - 1):
            odds[group] = own @ self.weights[:, group].astype(np.float32).T
        odds[-1] = 0
        odds -= np.maximum.reduce(list(odds))  # (n, D)
        np.exp(odds, out=odds)
        odds /= np.add.reduce(list(odds))
        return np.ascontiguousarray(odds.transpose(1, 2, 0))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Everybody's memberships block by block, as often as they are asked for."""

    posterior: Posterior
    columns: Matrix
    rows: IntArray
    likelihood: Floats

    def __iter__(self) -> Iterator[Block]:
        return self.posterior.blocks(self.columns, self.rows, self.likelihood)


def memberships(reader: Reader, weights: Floats, inputs: Matrix) -> Floats:
    """(n, G) P(group | x) by `Posterior.score_weights`; needs no label."""
    return ordinary_memberships(reader.ordinary(inputs), weights)


def ordinary_memberships(columns: Floats, weights: Floats) -> Floats:
    """The same of people by their ordinary columns (n, p)."""
    logits = columns @ weights[:, :-1].T + weights[:, -1]
    return np.asarray(softmax(np.column_stack([logits, np.zeros(len(logits))]), axis=1))


def sample(
    reader: Reader,
    people: People,
    rows: IntArray,
    likelihood: Floats,
    seed: int,
    kept: int = KEPT,
    prior: Prior = DEFAULT_PRIOR,
    means: Floats | None = None,
    told: Told | None = None,
    quick: bool = False,
) -> Posterior:
    """The posterior after these answers: the same whatever their order.

    people: those answered about · rows (n,) what they are called, in any order · likelihood (n, G) of each answer given
    the person's group; one-hot where certain · means (G - 1, p + 5) of the prior · told: what else is known · quick:
    shorter chains, for attributes that share the time.
    """
    order = np.argsort(rows, kind="stable")
    columns = reader.columns(people)[order]
    variances, logs = prior.grid(reader.ordinary_count, reader.told, reader.classes)
    rng = generator(seed, "posterior of f_a", answers_key(rows[order], likelihood[order]))
    shifted = tuple(range(reader.ordinary_count, reader.ordinary_count + reader.classes))  # intercept and label
    design = Design(columns, variances, logs, means, told, shifted)
    if len(rows) > prior.exact_answers:
        return Posterior(reader, draw_normal_weights(design, likelihood[order], rng, CHAINS * kept))
    if quick:
        drawn = draw_weights(design, likelihood[order], rng, kept=kept, burn_in=QUICK_BURN_IN, thin=1, widths_every=4)
        return QuickPosterior(reader, drawn[0])
    return Posterior(reader, draw_weights(design, likelihood[order], rng, kept=kept)[0])


def answers_key(rows: IntArray, likelihood: Floats) -> str:
    """What tells one set of answers from another, as a key of random draws."""
    digest = hashlib.blake2b(np.ascontiguousarray(rows, dtype=np.int64).tobytes(), digest_size=16)
    digest.update(np.ascontiguousarray(likelihood, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _balance(deviations: Floats, blocks: Sequence[IntArray]) -> Floats:
    """(d,) factors by which every block and the columns outside have the same variance in all; ones without blocks."""
    factors = np.ones(len(deviations))
    outside = np.setdiff1d(np.arange(len(deviations)), np.concatenate([np.zeros(0, dtype=np.int64), *blocks]))
    for part in (*blocks, outside) if blocks else ():
        total = float((deviations[part] ** 2).sum())
        factors[part] = 1 / np.sqrt(total) if total > 0 else 1.0
    return factors


def _projection(inputs: int, seed: int) -> Floats:
    signs = generator(seed, "projection of wide inputs", inputs).integers(0, 2, (inputs, PROJECTED))
    return np.asarray((2.0 * signs - 1) / np.sqrt(PROJECTED))


def _cell(people: People, label: int, decision: int) -> npt.NDArray[np.bool_]:
    return np.asarray((people.labels == label) & (people.decisions == decision))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
