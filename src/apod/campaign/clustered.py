"""A campaign whose pool is scored and searched where its parts are: on a Ray cluster.

Fits stay in this process: they train on a bounded number of rows, which the parts hand over. A question sends the
asking head, the proxy and the vectors of new answers out, and gets counts, a distance and a row back. Where f_a reads a
table's inputs, which the parts do not hold, subgroups are scored here. All machines must see the campaign's files under
the same path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from apod.campaign.adapter import MitigationEngine
from apod.campaign.distances import Distances
from apod.campaign.engine import Engine, EngineFactory
from apod.campaign.materials import Materials
from apod.data.dataset import IntArray
from apod.data.large import take_rows
from apod.data.parts import open_parts
from apod.maxmin import Coverage
from apod.maxmin.ray import ClusterPool, Inside, connect, machines
from apod.maxmin.ray.scoring import Scorer
from apod.method.algorithm1 import Mitigation
from apod.method.selection import SELECTORS, Choice, centred_rates, worst_subgroup_farthest
from apod.randomness import generator


@dataclass(frozen=True, eq=False)
class ScoredParts:
    """A pool in parts whose subgroups were scored there."""

    coverage: Coverage
    counts: npt.NDArray[np.int64] = field(repr=False)  # (2, cells) members, right

    def accuracies(self) -> npt.NDArray[np.float64]:
        """(g, 2) centred accuracies of the subgroups."""
        return centred_rates(self.counts[0], self.counts[1])

    def inside(self, group: int, label: int) -> Any:
        """The parts know who."""
        return Inside(2 * group + label)


class ClusterEngine(MitigationEngine):
    """The package's engine with the pool's embeddings in the memory of a cluster."""

    def __init__(self, materials: Materials, address: str | None, parts: int | None = None) -> None:
        super().__init__(materials)
        self._address, self._cut = address, parts
        # those held out for an audit are not in the pool: its labels are a file of their own, as its embeddings are
        materials.remember("labels of the pool", lambda: {"labels": self.pool.labels.numpy().astype(np.int8)})
        self._labels = materials.remembered_file("labels of the pool", "labels")
        self._matrix = materials.remembered_file("embedding", "embeddings")
        self.cluster: ClusterPool | None = None
        self._distances = Distances(self.pool.embeddings.numpy(), None, self._opened)
        self.pool = replace(self.pool, take=self._taken)

    def _taken(self, rows: IntArray) -> npt.NDArray[np.floating]:
        """Rows to train on, from the memory of the parts once they are open: no sweep of the files."""
        if self.cluster is None:
            return take_rows(self.pool.embeddings.numpy(), rows)
        return self.cluster.vectors(rows)

    def _opened(self) -> Coverage:
        assert self._matrix is not None  # computed when the engine was made
        ray = connect(self._address)
        self.cluster = ClusterPool(open_parts(Path(self._matrix), self._cut or machines(ray)))
        return self.cluster.coverage()

    def _choose(self, engine: Mitigation, k: int, unavailable: Sequence[int]) -> list[Choice]:
        (plan,) = engine.plan.trajectories
        inputs = self.pool.inputs is not None  # the parts hold embeddings alone
        if SELECTORS[plan.selector] is not worst_subgroup_farthest or inputs:  # or the rule looks at rows that are here
            return super()._choose(engine, k, unavailable)
        assert self.cluster is not None
        scorer = Scorer(
            engine.heads.parameters[plan.head : plan.head + 1].numpy(),
            engine.heads.sizes,
            engine.training.proxy,
            engine.proxy.state(),
            self.pool.n_groups,
        )
        barred = sorted({*engine.answers[0].rows, *unavailable})
        counts = self.cluster.score(scorer, str(self._labels), barred)
        rng = generator(self.pool.seed, "select", plan.selector, self.pool.dataset, engine.round)
        return worst_subgroup_farthest(ScoredParts(engine.coverage[0], counts), k, rng)


def cluster_engine(address: str | None, parts: int | None = None) -> EngineFactory:
    """An engine for `Campaign.open(..., engine=)` and `Campaign.create(..., engine=)`: the pool on a Ray cluster.

    `address` as in `apod select --address`; `parts` of the pool, one per machine unless told.
    """
    return lambda materials: cast(Engine, ClusterEngine(materials, address, parts))  # its models are its own
