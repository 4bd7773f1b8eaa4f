"""A small population and settings under which a fit takes a fraction of a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod import APODClassifier, make_example

FAST: dict[str, Any] = {
    "strengths": (0.2, 1.0), "body_epochs": 2, "epochs": 2, "rounds": 6, "batch_size": 64, "embedding": 16,
    "hidden": (8,), "random_state": 1, "body": "contrastive",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class People:
    """Features, labels, everybody's group by name, and the same with only some of them known."""

    X: pd.DataFrame
    y: npt.NDArray[np.int64]
    everyone: npt.NDArray[np.object_]
    known: npt.NDArray[np.object_]  # None where nobody was asked


def make_people(n: int = 300, n_groups: int = 2, asked: int = 40) -> People:
    """The generated example, with the groups of the rows known that a first query asks about."""
    example = make_example(n, n_groups)
    everyone = np.array(example.group_names, dtype=object)[example.groups]
    rows = APODClassifier(**FAST).fit(example.features, example.labels).query(asked)
    known = np.full(n, None, dtype=object)
    known[rows] = everyone[rows]
    return People(example.features, example.labels, everyone, known)
