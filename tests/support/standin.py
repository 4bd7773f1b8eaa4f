"""A small deterministic engine for tests of the campaign: max-min picks and weighted group means."""

from __future__ import annotations

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from apod.campaign import GroupAnswer, Materials, ModelState, Proposal
from apod.randomness import generator


@dataclass(frozen=True, eq=False)
class MeanModel:
    """Weighted mean of each group's rows, and how many fits led here."""

    means: np.ndarray  # (g, d)
    fits: int

    def state(self) -> ModelState:
        return ModelState({"means": self.means}, {"fits": self.fits})


class StandIn:
    def __init__(self, materials: Materials, slow: float = 0.0) -> None:
        self.features = np.asarray(materials.features(), dtype=np.float64)
        self.groups, self.seed, self.slow = materials.settings.groups, materials.settings.seed, slow

    def fit(self, answers: Sequence[GroupAnswer], start: MeanModel | None) -> MeanModel | None:
        if len({answer.group for answer in answers}) < 2:
            return None
        time.sleep(self.slow)
        means = np.zeros((len(self.groups), self.features.shape[1]))
        for group in range(len(self.groups)):
            here = [answer for answer in answers if answer.group == group]
            total = sum(answer.weight for answer in here)
            for answer in here:
                means[group] += answer.weight * self.features[answer.row] / total
        return MeanModel(means, 1 if start is None else start.fits + 1)

    def load(self, state: ModelState) -> MeanModel:
        return MeanModel(np.asarray(state.arrays["means"]), state.meta["fits"])

    def propose(
        self, model: MeanModel | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        free = np.array([row for row in range(len(self.features)) if row not in unavailable], dtype=int)
        if model is None:
            order = generator(self.seed, "first", len(unavailable)).permutation(free)[:k]
            share = k / max(len(free), 1)
            return [Proposal(int(row), {"rule": "random"}, "training", min(1.0, share)) for row in order]
        centres = np.vstack([self.features[sorted(unavailable)], model.means])
        nearest = cdist(self.features[free], centres, "sqeuclidean").min(axis=1) if len(free) else np.empty(0)
        chosen: list[Proposal] = []
        for _ in range(min(k, len(free))):
            best = int(np.argmax(nearest))
            reason = {"rule": "standin", "distance": float(nearest[best]), "subgroup": [self.groups[0], 1]}
            chosen.append(Proposal(int(free[best]), reason))
            nearest = np.minimum(nearest, ((self.features[free] - self.features[free[best]]) ** 2).sum(axis=1))
            nearest[best] = -np.inf
        return chosen


def build(materials: Materials) -> StandIn:
    return StandIn(materials)


def build_slow(materials: Materials) -> StandIn:
    return StandIn(materials, slow=0.3)


def pool(rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "campaign pool")
    features = rng.normal(size=(rows, 4))
    labels = (features[:, 0] + rng.normal(size=rows) > 0).astype(int)
    labels[:2] = [0, 1]
    return features, labels


GROUPS = ("Zwergelin", "Riesenhaft")
"""Names that stand nowhere else, so that a search for them finds only leaks."""


def group_of(row: int) -> str:
    return GROUPS[row % 2]
