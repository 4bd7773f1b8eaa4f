"""A generated population with a known gap, in the plane: the paper's Figure 1 as data.

A person's group is drawn first, then the label by the group's positive rate, then two features, normal and
independent given group and label:

| | group 0 (circle) | ... group k ... | group g - 1 (triangle) |
| --- | --- | --- | --- |
| share of the population | .3 (for two) | grows linearly | .7 (for two) |
| P(label = 1 given the group) | .1 | grows linearly | .7 |
| merit, given the label | mean -1 or +1, deviation 1 | the same | the same |
| neighbourhood, given the group | mean -1 (for two), deviation .8 | 2 more per group | mean 1 (for two) |

Given the label, merit does not depend on the group, so every boundary merit = constant has exactly the same
true and false positive rates in all groups. But neighbourhood foretells the group and by it the label, so that
the most accurate boundary leans: it accepts too few positives of the first group and too many negatives of the
last. For two groups a logistic regression on everybody reaches accuracy .864 with TPR .68 / .89 and FPR .07 / .24
(gap .38); the fair boundary merit = 0 reaches .841 with TPR .84 and FPR .16 in both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.dataset import Dataset, Task
from apod.errors import InputError
from apod.randomness import generator

SHAPES = ("circle", "square", "diamond", "pentagon", "hexagon", "star", "cross", "triangle")
POSITIVE_RATE_FIRST, POSITIVE_RATE_LAST = 0.1, 0.7
MERIT_MEANS, MERIT_DEVIATION = (-1.0, 1.0), 1.0
NEIGHBOURHOOD_STEP, NEIGHBOURHOOD_DEVIATION = 2.0, 0.8


def group_shares(n_groups: int) -> npt.NDArray[np.float64]:
    """P(group), growing linearly from the first group to the last; .3 and .7 for two."""
    weights = np.linspace(3.0, 7.0, n_groups)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def positive_rates(n_groups: int) -> npt.NDArray[np.float64]:
    """P(label = 1 given the group), growing linearly from .1 to .7."""
    return np.linspace(POSITIVE_RATE_FIRST, POSITIVE_RATE_LAST, n_groups)


def make_example(n: int = 4000, n_groups: int = 2, seed: int = 0) -> Dataset:
    """A generated population of n people in two to eight groups; the same seed gives the same people."""
    if not 2 <= n_groups <= len(SHAPES):
        raise InputError(f"n_groups is {n_groups}: the example has 2 to {len(SHAPES)} groups.")
    if n < 1:
        raise InputError(f"n is {n}: the example needs at least one person.")
    rng = generator(seed, "example", n_groups)
    groups = rng.choice(n_groups, size=n, p=group_shares(n_groups))
    labels = (rng.random(n) < positive_rates(n_groups)[groups]).astype(np.int64)
    merit = np.asarray(MERIT_MEANS)[labels] + MERIT_DEVIATION * rng.standard_normal(n)
    centre = NEIGHBOURHOOD_STEP * (groups - (n_groups - 1) / 2)
    neighbourhood = centre + NEIGHBOURHOOD_DEVIATION * rng.standard_normal(n)
    return Dataset(
        name="example" if n_groups == 2 else f"example-{n_groups}",
        features=pd.DataFrame({"merit": merit, "neighbourhood": neighbourhood}),
        labels=labels,
        groups=groups.astype(np.int64),
        group_names=(*SHAPES[: n_groups - 1], SHAPES[-1]),
        rows=np.arange(n, dtype=np.int64),
        label_names=("negative", "positive"),
        task=Task(budget=30, embedding=64, hidden=(32,), metric="delta_eo"),
        notes=("Generated people: a boundary along merit alone has no gap between the groups.",),
    )
