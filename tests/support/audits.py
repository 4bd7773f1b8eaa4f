"""People to audit: a population whose groups are known, and some of them asked."""

from __future__ import annotations

import numpy as np

NAMES = ("a", "b")


def population(n: int = 6000, seed: int = 0) -> dict[str, np.ndarray]:
    """People whose group shows a little in x, and a model that is harder on group 0."""
    rng = np.random.default_rng(seed)
    groups = (rng.random(n) < 0.65).astype(int)
    x = rng.normal(size=(n, 6)) + groups[:, None] * np.array([1.0, 0.5, 0, 0, 0, 0])
    labels = (rng.random(n) < 0.3 + 0.1 * groups).astype(int)
    before = (rng.random(n) < np.where(labels == 1, 0.55 + 0.2 * groups, 0.1 + 0.1 * groups)).astype(int)
    after = np.where(rng.random(n) < 0.05, 1 - before, before)
    return {"groups": groups, "x": x, "labels": labels, "before": before, "after": after}


def answers_of(people: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    told = np.full(len(people["groups"]), -1)
    told[rows] = people["groups"][rows]
    return told
