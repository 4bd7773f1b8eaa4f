"""What the user knows of the groups before any answer: their shares, and probabilities from elsewhere.

    --group-share female=.48              the share of a group
    --group-share female:hired=.35        its share among people of a label
    --group-probability female:p_female   a column with P(group) of everybody, such as BISG gives

Probabilities are the prior of f_a: log odds against the reference by which everybody starts out, with a weight of 1
before any answer and a standard deviation of .5 around that: answers say how far to trust them. They are read at
prediction too. The standard model does not read them: it would decide by the group.

A share is evidence on the mean membership of everybody, or of everybody with a label: right within .02 with a
probability of .8, else within .15; answers say which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax

from apod.data.encode import CategoryColumn, NumberColumn, ReadAs, TableEncoder
from apod.errors import InputError
from apod.method.settings import Settings

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TRUSTED, CLOSE, LOOSE = 0.8, 0.02, 0.15
JUDGED_ROWS = 500
"""So many people stand for everybody when the share of a group is computed."""
SUM_TOLERANCE = 0.02
CONTRADICTED = 5.0
"""Standard errors between a share and what the answers say of it, from which on one of them must be wrong."""
FEWEST_ANSWERS = 8


@dataclass(frozen=True)
class Share:
    """The share of a group, among everybody or among people of one label."""

    group: int
    label: int | None
    share: float


@dataclass(frozen=True)
class GroupKnowledge:
    """Shares and columns of probabilities, by the codes of groups and labels."""

    group_names: tuple[str, ...]
    shares: tuple[Share, ...] = ()
    columns: Mapping[int, str] = field(default_factory=dict)  # group -> column with its probability

    @property
    def share(self) -> float | None:
        """The first share that was told of everybody; None where there is none."""
        return next((one.share for one in self.shares if one.label is None), None)

    @property
    def read_as(self) -> dict[str, ReadAs]:
        """How the columns are read: of two groups the log odds of one, of more the logarithm of each."""
        if len(self.group_names) == 2:
            return {self.columns[group]: "log odds" for group in sorted(self.columns)[:1]}
        return dict.fromkeys(self.columns.values(), "log")

    def placed(self, encoder: TableEncoder, inputs: npt.NDArray[np.floating[Any]]) -> PlacedKnowledge:
        """The same by the columns of encoded people; InputError where probabilities are none or do not sum to 1."""
        columns = {column.name: column for column in encoder.columns_}
        for name in self.columns.values():
            if not isinstance(columns.get(name), NumberColumn):
                raise InputError(f"--group-probability: there is no column of numbers called {name!r}.")
        names, groups = list(encoder.feature_names_), len(self.group_names)
        each = {group: columns[name] for group, name in sorted(self.columns.items())}
        told = [(group, column) for group, column in each.items() if column.name in self.read_as]
        values = [_probabilities(column, inputs[:, names.index(column.name)]) for column in each.values()]
        if len(values) == groups:
            _check_sums(np.array(values).sum(axis=0))
        against = np.eye(groups)[:-1] - np.eye(groups)[-1]  # (G - 1, G) of every group against the last
        signs = against[:, [group for group, _ in told]]
        moments = [(column.mean, column.scale) for _, column in told if isinstance(column, NumberColumn)]
        return PlacedKnowledge(self.shares, [names.index(column.name) for _, column in told], moments, signs)

    def contradicted(self, labels: IntArray, groups: IntArray, rates: Floats) -> str | None:
        """A line where answers and a share cannot both be right: labels and groups (n,) of the answers, and what share
        of everybody has each label (K,)."""
        for share in self.shares:
            parts = range(len(rates)) if share.label is None else (share.label,)
            counts = [int((labels == part).sum()) for part in parts]
            if min(counts) < FEWEST_ANSWERS:
                continue
            found = [int(((labels == part) & (groups == share.group)).sum()) for part in parts]
            weight = np.array([rates[part] for part in parts]) / sum(rates[part] for part in parts)
            smooth = (np.array(found) + 1) / (np.array(counts) + 2)
            error = float(np.sqrt((weight**2 * smooth * (1 - smooth) / counts).sum()))
            if abs(float(weight @ smooth) - share.share) > CONTRADICTED * error + LOOSE:
                return (
                    f"The share {share.share:g} of a group contradicts the answers, by which it is near "
                    f"{float(weight @ smooth):.2f}: check --group-share."
                )
        return None


@dataclass(frozen=True, eq=False)
class PlacedKnowledge:
    """What is known, by the columns of the encoded inputs."""

    shares: tuple[Share, ...]
    places: list[int]  # (m,) encoded columns of log odds or logarithms
    moments: list[tuple[float, float]]  # (m,) mean and scale: value = mean + scale x encoded
    signs: Floats  # (G - 1, m) how a value enters each group's logit before any answer

    @property
    def factors(self) -> dict[int, float]:
        """Encoded column -> what it is multiplied with to be on its own scale."""
        return {place: scale for place, (_, scale) in zip(self.places, self.moments, strict=True)}

    def means(self, centre: Floats, ordinary: int, width: int) -> Floats | None:
        """(G - 1, width) the prior's mean of f_a's weights, of which the first are of the ordinary columns."""
        if not self.places:
            return None
        found = np.zeros((len(self.signs), width))
        found[:, ordinary - len(self.places) : ordinary] = self.signs
        middle = [mean + scale * centre[at] for at, (mean, scale) in zip(self.places, self.moments, strict=True)]
        found[:, ordinary] = self.signs @ np.array(middle)  # the intercept: columns are centred
        return found


@dataclass(frozen=True, eq=False)
class ToldShares:
    """The likelihood of f_a's weights by the shares that were told."""

    columns: Floats  # (m, p) as f_a reads some of the people
    inside: tuple[npt.NDArray[np.bool_], ...]  # whom each share is of, (m,)
    shares: tuple[Share, ...]

    def __call__(self, weights: Floats) -> Floats:
        """(C,) by weights (C, G - 1, p)."""
        chains, free, width = weights.shape
        logits = (weights.reshape(chains * free, width) @ self.columns.T).reshape(chains, free, len(self.columns))
        if free == 1:
            members = np.concatenate([expit(logits), expit(-logits)], axis=1)  # (C, G, m)
        else:
            members = softmax(np.concatenate([logits, np.zeros_like(logits[:, :1])], axis=1), axis=1)
        total = np.zeros(len(weights))
        for share, inside in zip(self.shares, self.inside, strict=True):
            away = members[:, share.group, inside].mean(axis=1) - share.share
            close, loose = (-0.5 * (away / scale) ** 2 - np.log(scale) for scale in (CLOSE, LOOSE))
            total += np.logaddexp(np.log(TRUSTED) + close, np.log(1 - TRUSTED) + loose)
        return total


def told_shares(
    knowledge: PlacedKnowledge, columns: npt.NDArray[np.floating[Any]], labels: IntArray
) -> ToldShares | None:
    """The shares as evidence on f_a, by these people's columns; None where none was told."""
    if not knowledge.shares:
        return None
    rows = np.linspace(0, len(labels) - 1, min(len(labels), JUDGED_ROWS)).astype(np.int64)
    inside = tuple(
        np.ones(len(rows), dtype=np.bool_) if share.label is None else labels[rows] == share.label
        for share in knowledge.shares
    )
    return ToldShares(columns[rows].astype(np.float64), inside, knowledge.shares)


def read_knowledge(settings: Settings, group_names: Sequence[str], label_names: Sequence[str]) -> GroupKnowledge | None:
    """What `--group-share` and `--group-probability` say, by codes; None where they say nothing."""
    shares, probabilities = settings.group_share, settings.group_probability
    if (shares is None and probabilities is None) or len(group_names) < 2:
        return None
    names = tuple(group_names)
    columns = {} if probabilities is None else _columns(probabilities, names)
    return GroupKnowledge(names, () if shares is None else _shares(shares, names, tuple(label_names)), columns)


def contradiction(known: GroupKnowledge | None, labels: IntArray, rows: IntArray, groups: IntArray) -> str | None:
    """A line where answers, rows and groups (m,), and a share cannot both be right; labels (n,) of everybody."""
    if known is None or not len(rows):
        return None
    return known.contradicted(labels[rows], groups, np.bincount(labels, minlength=2) / len(labels))


def refuse_contradiction(known: GroupKnowledge | None, labels: IntArray, rows: IntArray, groups: IntArray) -> None:
    """InputError where groups that were handed in and a share cannot both be right."""
    found = contradiction(known, labels, rows, groups)
    if found is not None:
        raise InputError(found)


def pairs(option: str, text: str) -> dict[str, str]:
    """GROUP:COLUMN, comma-separated, as group -> column."""
    parts = [part.rpartition(":")[::2] for part in text.split(",") if part.strip()]
    if not parts or not all(group.strip() and column.strip() for group, column in parts):
        raise InputError(f"{option} takes GROUP:COLUMN, comma-separated, got {text!r}.")
    found = {group.strip(): column.strip() for group, column in parts}
    if len(found) < len(parts) or len(set(found.values())) < len(parts):
        raise InputError(f"{option} names a group or a column twice: {text!r}.")
    return found


def columns_named(probabilities: str | None) -> list[str]:
    """The columns that `--group-probability` names, in order."""
    return [] if probabilities is None else list(pairs("--group-probability", probabilities).values())


def _probabilities(column: NumberColumn | CategoryColumn, encoded: npt.NDArray[np.floating[Any]]) -> Floats:
    """(n,) the probabilities of an encoded column."""
    assert isinstance(column, NumberColumn)
    values = encoded.astype(np.float64) * column.scale + column.mean
    if column.read_as == "number":
        return values
    return np.asarray(np.exp(values) if column.read_as == "log" else expit(values))


def _check_sums(sums: Floats) -> None:
    off = np.abs(sums - 1) > SUM_TOLERANCE
    if off.any():
        raise InputError(
            f"--group-probability: the probabilities of {int(off.sum())} people do not sum to 1 (one has "
            f"{sums[off][0]:.3g} in all): give one column per group that do."
        )


def _columns(text: str, names: tuple[str, ...]) -> dict[int, str]:
    found = pairs("--group-probability", text)
    columns = {_code("--group-probability", group, names, "group"): column for group, column in found.items()}
    if len(names) > 2 and len(columns) < len(names):
        raise InputError(f"--group-probability: name a column for each of the {len(names)} groups.")
    return columns


def _shares(text: str, names: tuple[str, ...], labels: tuple[str, ...]) -> tuple[Share, ...]:
    found = []
    for entry in text.split(","):
        whom, _, number = entry.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = float("nan")
        if not whom.strip() or not 0 < share < 1:
            raise InputError(f"--group-share takes GROUP=SHARE or GROUP:LABEL=SHARE, between 0 and 1, got {entry!r}.")
        whole = whom.strip() in names or ":" not in whom
        group, _, label = (whom.strip(), "", "") if whole else whom.strip().rpartition(":")
        code = None if whole else _code("--group-share", label, labels, "label")
        found.append(Share(_code("--group-share", group, names, "group"), code, share))
    if len({(one.group, one.label) for one in found}) < len(found):
        raise InputError(f"--group-share names a group twice: {text!r}.")
    for part in {one.label for one in found}:
        own = [one.share for one in found if one.label == part]
        if sum(own) > 1 + SUM_TOLERANCE or (len(own) == len(names) and sum(own) < 1 - SUM_TOLERANCE):
            raise InputError(f"--group-share: the shares add up to {sum(own):g}; all groups' shares add up to 1.")
    return tuple(found)


def _code(option: str, name: str, names: tuple[str, ...], what: str) -> int:
    if name not in names:
        raise InputError(f"{option}: no {what} is called {name!r}; there are {', '.join(names)}.")
    return names.index(name)
