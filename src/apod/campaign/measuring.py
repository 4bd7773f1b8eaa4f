"""What a campaign's heads achieve, as far as a refit can tell: accuracy, the gap as f_a guesses it, the bound.

There is no test part in a campaign, and almost nobody's group is known. So accuracy is that on the pool itself, and the
gap weighs every row by how probably it belongs to a group: by its answer where there is one, by f_a elsewhere. That is
a guess, it knows nothing of how wrong f_a is, and has no interval; only an audit measures. Estimates that know more
may take its place under the same name, with another `basis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from apod.campaign.json_types import CurvePointJson, ExpectedGapJson, ExpectedGapsJson, HeadBoundJson, OutcomeJson
from apod.campaign.materials import PLANE, Materials
from apod.data.blocks import BLOCK, is_large
from apod.fairness.metrics import soft_group_counts
from apod.fairness.notions import count_gap
from apod.method.correction_fit import STRENGTHS, FittedCorrection
from apod.method.gap_interval import GapEstimate
from apod.method.head_mitigation import Mitigation
from apod.method.outlook import OutlookJson, look_ahead
from apod.method.plan import POWER, confirmation
from apod.method.pool import write_answers
from apod.randomness import generator
from apod.text import plain

ROWS = 20_000  # measured on at most so many, drawn once
OUTLOOK_ROWS = 4_000  # of these, evenly spaced, for the look ahead
NOTE = (
    "Accuracy is counted on the pool that trained the model. The gap is a guess: groups are answers where there are "
    "some and proxies elsewhere."
)
DECIMALS = 6
POSTERIOR_NOTE = (
    "Accuracy is counted on the pool, out of fold where the model was fitted on it. The gap is what the answers lead "
    "to expect among as many people; its 95% interval holds every uncertainty about the groups."
)

Floats = npt.NDArray[np.float64]


def measure(engine: Mitigation, names: Sequence[str]) -> OutcomeJson:
    """The outcome of a refit, as JSON."""
    rows = measured_rows(engine)
    embeddings, labels = engine.pool.embeddings[rows], engine.pool.labels[rows].numpy()
    predicted = (engine.heads.margins(embeddings) > 0).numpy()  # (K, n)
    member = _membership(engine, rows)  # (n, g)
    counts = soft_group_counts(labels, predicted, member)
    right, gap = (predicted == labels).mean(axis=1), count_gap(engine.notion, counts)
    curve: list[CurvePointJson] = [
        {"strength": head.strength, "accuracy": right[k], "selected": predicted[k].mean(), "gap": gap[k]}
        for k, head in enumerate(engine.plan.heads)
    ]
    return {
        "round": engine.round,
        "basis": "proxy",
        "notion": engine.notion.name,
        "note": NOTE,
        "curve": curve,
        "bound": _bound(engine, names),
    }


def measure_correction(fitted: FittedCorrection, seed: int) -> OutcomeJson:
    """The outcome of a refit where a model is corrected, as JSON: gaps to expect among as many people as the pool."""
    population, place, people = fitted.population, fitted.chosen.direction, len(fitted.population)
    labels, decided = population.people.labels, population.people.decisions
    positive = labels == 1
    curve: list[CurvePointJson] = []
    for k, (strength, gap) in enumerate(
        zip([0.0, *STRENGTHS.tolist()], fitted.path_estimates(people, seed), strict=True)
    ):
        own = np.where(fitted.band[place] < k, 1 - decided, decided)
        right = own == labels
        curve.append(
            {
                "strength": strength,
                "accuracy": right.mean(),
                "balanced_accuracy": (right[positive].mean() + right[~positive].mean()) / 2,
                "selected": own.mean(),
                "changed": (own != decided).mean(),
                "gap": gap.gap,
                "interval": [gap.low, gap.high],
            }
        )
    base, selected = fitted.estimates(people, seed)
    outcome: OutcomeJson = {
        "basis": "posterior",
        "notion": population.notion.name,
        "note": POSTERIOR_NOTE,
        "curve": curve,
        "bound": None,
        "estimate": {"base": _expected(base), "selected": _expected(selected)},
        "operating": {"strength": fitted.strength, "because": fitted.reason},
        "confirmation": {"confirming_answers": confirmation(fitted).answers, "probability": POWER},
        "outlook": None,
        "outlook_covers": True,
    }
    return cast(OutcomeJson, plain(_rounded(outcome)))


INTERSECTIONS = "intersections"
"""Under which name these stand beside the attributes."""


def with_attributes(outcome: OutcomeJson, parts: Mapping[str, FittedCorrection], seed: int) -> OutcomeJson:
    """The outcome with the gaps to expect of every attribute, at every strength and at the one chosen."""
    first = next(iter(parts.values()))
    people, place = len(first.population), first.chosen.strength + 1 if first.strength > 0 else 0
    paths = {name: [_expected(gap) for gap in part.path_estimates(people, seed)] for name, part in parts.items()}
    curve: list[CurvePointJson] = [
        {**point, "attributes": {name: path[at] for name, path in paths.items()}}
        for at, point in enumerate(outcome["curve"])
    ]
    each: dict[str, ExpectedGapsJson] = {
        name: {"base": path[0], "selected": path[place]} for name, path in paths.items()
    }
    found: OutcomeJson = {**outcome, "curve": curve, "estimate": {**outcome["estimate"], "attributes": each}}
    return cast(OutcomeJson, plain(_rounded(found)))


def _rounded(value: Any) -> Any:
    """Measured numbers with six decimals: their intervals are far wider, and a dashboard fetches hundreds of them."""
    if isinstance(value, float | np.floating):
        return round(float(value), DECIMALS)
    if isinstance(value, dict):
        return {name: part if name == "strength" else _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def _expected(estimate: GapEstimate) -> ExpectedGapJson:
    return {"gap": estimate.gap, "interval": [estimate.low, estimate.high]}


def outlook(engine: Mitigation, people: int) -> list[OutlookJson]:
    """The gap to expect now, after more answers and after so many people in all, on the rows that are measured."""
    rows = measured_rows(engine)
    rows = rows[:: -(-len(rows) // OUTLOOK_ROWS)]  # each is weighed by every draw, for every number of answers
    ahead = look_ahead(engine, engine.heads, engine.pool.judged_on(rows), [people])
    return [expected.to_dict() for expected in ahead]


def _bound(engine: Mitigation, names: Sequence[str]) -> HeadBoundJson | None:
    """Theorem 1 for the asking head; None on a pool so large that another sweep over it would hold up the questions."""
    if is_large(len(engine.pool.labels)):
        return None
    asking = engine.plan.trajectories[0].head
    return {"strength": engine.plan.heads[asking].strength, **engine.bound().to_dict(names)}


def measured_rows(engine: Mitigation) -> torch.Tensor:
    """The rows to measure on: all, or a sample that stays the same."""
    size = len(engine.pool.labels)
    if size <= ROWS:
        return torch.arange(size)
    rng = generator(engine.pool.seed, "measured rows", engine.pool.dataset)
    return torch.from_numpy(np.sort(rng.choice(size, ROWS, replace=False)))


def plane(embeddings: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
    """The pool's first two principal components, (n, 2), and the share of the variance each has."""
    sample = embeddings[:: max(1, len(embeddings) // ROWS)].astype(np.float64)
    centre = sample.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(sample - centre, rowvar=False).reshape(centre.size, -1))
    order = np.argsort(values)[::-1][:2]
    axes = vectors[:, order]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])  # one sign, always the same
    points = np.zeros((len(embeddings), 2), dtype=np.float32)
    for start in range(0, len(embeddings), BLOCK):  # the pool may be larger than memory
        part = slice(start, start + BLOCK)
        points[part, : axes.shape[1]] = (embeddings[part] - centre) @ axes
    total = float(values.sum())
    share = np.zeros(2)
    share[: len(order)] = np.maximum(values[order], 0) / total if total > 0 else 0.0
    return {"points": points, "share": share}


def remember_plane(materials: Materials, everybody: Callable[[], npt.NDArray[np.float32]]) -> None:
    """Keep the map of the pool; `everybody` (n, d) in the order of `placed_rows`. Who arrived later is put on the same.

    The map is linear: its axes are found again from the points of those who were there first.
    """
    ends, placed = materials.starts, materials.placed_rows()
    cuts = np.searchsorted(placed, ends)

    def spread(points: npt.NDArray[np.float32], batch: int) -> npt.NDArray[np.float32]:
        """A point for every row of the batch; of a large pool, those who were not drawn have none of their own."""
        found = np.zeros((ends[batch + 1] - ends[batch], 2), dtype=np.float32)
        found[placed[cuts[batch] : cuts[batch + 1]] - ends[batch]] = points
        return found

    def later(batch: int) -> dict[str, npt.NDArray[Any]]:
        rows, step = everybody(), max(1, cuts[1] // ROWS)
        seen, points = rows[: cuts[1] : step].astype(np.float64), first["points"][placed[: cuts[1] : step]]
        axes = np.linalg.lstsq(np.column_stack([seen, np.ones(len(seen))]), points, rcond=None)[0]
        mine = rows[cuts[batch] : cuts[batch + 1]]
        return {"points": spread((mine @ axes[:-1] + axes[-1]).astype(np.float32), batch)}

    def begun() -> dict[str, npt.NDArray[Any]]:
        made = plane(everybody()[: cuts[1]])
        return {**made, "points": spread(made["points"], 0)}

    first = materials.remember(PLANE, begun)
    materials.remember_later(PLANE, later)


def _membership(engine: Mitigation, rows: torch.Tensor) -> Floats:
    """(n, g) how probably each row belongs to each group: by its answers where there are some, f_a elsewhere."""
    member = engine.membership(engine.pool.seen[rows])[0].double()
    member = member / member.sum(dim=1, keepdim=True)
    answered, groups = engine.answers[0].known()
    place = np.searchsorted(rows.numpy(), answered)
    inside = (place < len(rows)) & (rows.numpy()[np.minimum(place, len(rows) - 1)] == answered)
    write_answers(member, place[inside], groups[inside], engine.answers[0].trust()[inside])
    return np.asarray(member.numpy().clip(0, 1))
