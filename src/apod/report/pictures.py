"""What a report can draw beyond result.json: people as points. Every part is optional."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class AskedPoint:
    """One person asked about, where they lie in a picture."""

    x: float
    y: float
    group: str | None  # as answered; None = the annotator could not tell
    label: int  # 0 or 1
    round: int
    row: int | None = None  # in the file, for the tooltip


@dataclass(frozen=True, eq=False)
class Map:
    """A sample of the pool and everyone asked, in two dimensions made from the embeddings."""

    method: str  # what made the two dimensions: "PCA", "t-SNE"
    x: FloatArray  # (n,)
    y: FloatArray  # (n,)
    label: IntArray  # (n,) 0 or 1; no group: nobody has been asked about these people
    asked: Sequence[AskedPoint]


@dataclass(frozen=True, eq=False)
class Surface:
    """What one classifier says over the plane, and whom its training asked about."""

    positive: FloatArray  # (len(grid_y), len(grid_x)) P(y = 1)
    asked: Sequence[AskedPoint] = ()
    accuracy: float | None = None  # on the test part, for the panel's title
    gap: float | None = None


@dataclass(frozen=True, eq=False)
class Plane:
    """Data with exactly two numeric features, drawn as they are: the paper's Figure 1."""

    feature_names: tuple[str, str]  # of x and y
    x: FloatArray  # (n,) a sample of the test part
    y: FloatArray  # (n,)
    label: IntArray  # (n,) 0 or 1
    group: IntArray  # (n,) codes into the result's group_names, -1 = not recorded
    grid_x: FloatArray  # ascending, evenly spaced
    grid_y: FloatArray  # ascending, evenly spaced
    vanilla: Surface
    selected: Surface
    random: Surface | None = None  # the same budget spent on random people, where that was run too


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures a report gets besides its result."""

    map: Map | None = None
    plane: Plane | None = None
