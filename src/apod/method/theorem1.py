"""Theorem 1, term by term, for a fitted head.

    |g_0 - g_1|  <=  epsilon + min{ sqrt(-L^2 log(gamma) / (2 N)),  (K_l + K_h L) delta }

g_a is group a's mean loss; N and delta belong to the group with the largest. The first term of the minimum
shrinks with the answers from that group (sampling), the second with how well the answered rows cover it in
embedding space (covering): one reason to ask about the worst group, one to ask about whoever is farthest from
all answers.

A diagnostic, not a guarantee. It speaks of losses, not of TPR or FPR. The sampling term assumes answered rows
drawn at random, which they are not; groups nobody answered are the proxy's; epsilon is a mean over the
answered, where the covering argument would need the loss at each row's nearest answered row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from apod.errors import InputError
from apod.text import number

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]


class GroupBoundJson(TypedDict):
    """A group's part in the bound in JSON."""

    n: int
    mean_loss: float | None
    delta: float | None


class BoundJson(TypedDict):
    """Every term of Theorem 1 in JSON; undefined and infinite are null."""

    epsilon: float | None
    L: float | None
    K_l: float | None
    K_h: float | None
    gamma: float
    sampling_term: float | None
    covering_term: float | None
    bound: float | None
    observed: float | None
    worst_group: str
    groups: dict[str, GroupBoundJson]


@dataclass(frozen=True)
class BoundTerms:
    """Every term of Theorem 1 for one head and one set of answers, in the theorem's letters.

    Undefined is NaN: a group without rows has no mean loss and no delta; without answers there is no epsilon.
    A term that bounds nothing is inf: the sampling term without an answer from the worst group, the covering
    term without any answer.
    """

    n: tuple[int, ...]  # N_a, answers per group
    mean_loss: tuple[float, ...]  # g_a, over the group's rows, answered or not
    delta: tuple[float, ...]  # delta_a, largest distance of the group's rows to their nearest answered row
    epsilon: float  # mean loss over the answered
    L: float  # largest loss over the unanswered (over all rows once everybody is answered)
    K_l: float  # Lipschitz constant of the loss in the embedding
    K_h: float  # Lipschitz constant of P(y | embedding)
    gamma: float  # the sampling term holds with probability 1 - gamma
    worst_group: int  # a~, the group with the largest mean loss; ties to the lowest
    sampling_term: float
    covering_term: float
    bound: float
    observed: float  # what is bounded: largest minus smallest mean loss

    def to_dict(self, group_names: Sequence[str]) -> BoundJson:
        """Ready for JSON, groups by name. Whatever is not a finite number (NaN, inf) is None."""
        groups: dict[str, GroupBoundJson] = {
            name: {"n": n, "mean_loss": number(loss), "delta": number(delta)}
            for name, n, loss, delta in zip(group_names, self.n, self.mean_loss, self.delta, strict=True)
        }
        return {
            "epsilon": number(self.epsilon),
            "L": number(self.L),
            "K_l": number(self.K_l),
            "K_h": number(self.K_h),
            "gamma": self.gamma,
            "sampling_term": number(self.sampling_term),
            "covering_term": number(self.covering_term),
            "bound": number(self.bound),
            "observed": number(self.observed),
            "worst_group": group_names[self.worst_group],
            "groups": groups,
        }


def lipschitz_constants(weights: Sequence[npt.ArrayLike]) -> tuple[float, float]:
    """K_l and K_h of a head Linear, ReLU, ..., Linear: how fast loss and P(y | h) can change with h.

    weights: one (in, out) matrix per layer, the last with a column per class. Dropout is off, as in evaluation.
    """
    matrices = [np.asarray(weight, np.float64) for weight in weights]
    shapes = [matrix.shape for matrix in matrices]
    if not shapes or any(len(shape) != 2 for shape in shapes) or shapes[-1][1] < 2:
        raise InputError(f"weights have shapes {shapes}: pass (in, out) matrices, the last a column per class.")
    if any(left[1] != right[0] for left, right in pairwise(shapes)):
        raise InputError(f"weights have shapes {shapes}: each layer must take what the one before puts out.")
    *hidden, last = matrices
    # The gradients of cross-entropy, softmax(z) - e_y, and of a probability, p_y (e_y - softmax(z)), sum to 0
    # over the logits z, so only the last layer's part orthogonal to (1, ..., 1) matters. For two classes that
    # is the margin vector w1 - w0, and what follows is the largest slope along it: |w1 - w0| times 1 or 1/4.
    last = last - last.mean(axis=1, keepdims=True)
    steepest = math.prod(float(np.linalg.norm(w, 2)) for w in (*hidden, last))  # ReLU is 1-Lipschitz
    # |softmax(z) - e_y| <= sqrt(2), and p_y |e_y - softmax(z)| <= sqrt(2) p_y (1 - p_y) <= sqrt(2) / 4.
    return math.sqrt(2) * steepest, math.sqrt(2) / 4 * steepest


def theorem_terms(
    *,
    embedding: FloatArray,
    losses: FloatArray,
    answered_rows: IntArray,
    answered_groups: IntArray,
    proxy_groups: IntArray,
    n_groups: int,
    weights: Sequence[npt.ArrayLike],
    gamma: float = 0.05,
    distances: FloatArray | None = None,
) -> BoundTerms:
    """Every term of Theorem 1 for one head.

    embedding (n, M) · losses (n,) cross-entropy per row · answered_rows (s,) distinct row numbers ·
    answered_groups (s,) · proxy_groups (n,), read where nobody answered (-1: in no group) · weights as in
    `lipschitz_constants` · distances (n,) to the nearest answered row, computed here unless known.
    """
    losses, proxy = np.asarray(losses, np.float64), np.asarray(proxy_groups, np.int64)
    rows, told = np.asarray(answered_rows, np.int64), np.asarray(answered_groups, np.int64)
    _check(losses, proxy, rows, told, n_groups, gamma)
    far = _distance_to_nearest(embedding, rows) if distances is None else np.asarray(distances, np.float64)
    groups = proxy.copy()
    groups[rows] = told
    mean_loss, delta = _per_group(losses, groups, n_groups, np.mean), _per_group(far, groups, n_groups, np.max)
    n = np.bincount(told, minlength=n_groups).tolist()
    rest = np.delete(losses, rows)
    L = float((rest if len(rest) else losses).max())
    epsilon = float(losses[rows].mean()) if len(rows) else math.nan
    K_l, K_h = lipschitz_constants(weights)
    worst = int(np.nanargmax(mean_loss))
    sampling = math.sqrt(-(L**2) * math.log(gamma) / (2 * n[worst])) if n[worst] else math.inf
    covering = (K_l + K_h * L) * delta[worst]
    return BoundTerms(
        n=tuple(n),
        mean_loss=mean_loss,
        delta=delta,
        epsilon=epsilon,
        L=L,
        K_l=K_l,
        K_h=K_h,
        gamma=gamma,
        worst_group=worst,
        sampling_term=sampling,
        covering_term=covering,
        bound=epsilon + min(sampling, covering),
        observed=float(np.nanmax(mean_loss) - np.nanmin(mean_loss)),
    )


def _per_group(
    values: FloatArray, groups: IntArray, n_groups: int, fold: Callable[[FloatArray], Any]
) -> tuple[float, ...]:
    """The fold of each group's values; NaN for a group without rows."""
    members = [values[groups == group] for group in range(n_groups)]
    return tuple(float(fold(own)) if len(own) else math.nan for own in members)


def _distance_to_nearest(embedding: FloatArray, rows: IntArray) -> FloatArray:
    """Distance of every row to the nearest of `rows`: (n,), inf without any.

    By differences, one answered row at a time: the shortcut through inner products loses digits, and an
    answered row's own distance must be 0.
    """
    points = np.asarray(embedding, np.float64)
    nearest = np.full(len(points), np.inf)
    for row in rows:
        difference = points - points[row]  # (n, M)
        np.minimum(nearest, np.einsum("nm,nm->n", difference, difference), out=nearest)
    return np.asarray(np.sqrt(nearest))


def _check(losses: FloatArray, proxy: IntArray, rows: IntArray, told: IntArray, n_groups: int, gamma: float) -> None:
    """Refuse what would silently give wrong terms."""
    n = len(losses)
    if losses.shape != (n,) or proxy.shape != (n,) or rows.ndim != 1 or rows.shape != told.shape:
        raise InputError("Theorem 1 needs one loss and one proxy group per row, one group per answered row.")
    if not np.isfinite(losses).all() or (losses < 0).any():
        raise InputError("Some losses are negative or not finite: Theorem 1 needs every row's cross-entropy.")
    if len(rows) and (rows.min() < 0 or rows.max() >= n or len(np.unique(rows)) < len(rows)):
        raise InputError(f"answered_rows are not distinct rows from 0 to {n - 1}: pass each answered row once.")
    if ((told < 0) | (told >= n_groups)).any():
        raise InputError(f"answered_groups go beyond 0 to {n_groups - 1}: pass only rows with a known group.")
    if ((proxy < -1) | (proxy >= n_groups)).any():
        raise InputError(f"proxy_groups go beyond -1 to {n_groups - 1}: use -1 where there is no proxy.")
    if not len(rows) and not (proxy >= 0).any():
        raise InputError("No row has a group, answered or by proxy: Theorem 1 compares groups.")
    if not 0 < gamma < 1:
        raise InputError(f"gamma is {gamma}: pass a probability between 0 and 1, like 0.05.")
