"""What a campaign's heads achieve, measured at a refit: the trade-off, each group's rates, the bound.

There is no test part in a campaign, and almost nobody's group is known. So accuracy is that on the pool itself, and a
group's rates weigh every row by how probably it belongs to the group: by its answer where there is one, by f_a
elsewhere. The intervals say how much the rates would move with other people of the same kind; how wrong f_a is they do
not know. Estimates that know more may take the place of these under the same names, with another `basis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from apod.data.blocks import BLOCK, is_large
from apod.fairness.metrics import METRICS, RATES, GroupCounts, soft_group_counts
from apod.fairness.notions import EQUALIZED_ODDS, Notion, count_events, count_gap, ratio
from apod.jsonable import number
from apod.method.algorithm1 import Mitigation
from apod.method.outlook import look_ahead
from apod.randomness import generator

ROWS = 20_000  # measured on at most so many, drawn once
OUTLOOK_ROWS = 4_000  # of these, evenly spaced, for the look ahead
DRAWS = 400
NOTE = "Measured on the pool itself; groups are answers where there are some and proxies elsewhere."

Floats = npt.NDArray[np.float64]


def measure(engine: Mitigation, names: Sequence[str]) -> dict[str, Any]:
    """The outcome of a refit, as JSON."""
    rows = measured_rows(engine)
    embeddings, labels = engine.pool.embeddings[rows], engine.pool.labels[rows].numpy()
    predicted = (engine.heads.margins(embeddings) > 0).numpy()  # (K, n)
    member = _membership(engine, rows)  # (n, g)
    counts = soft_group_counts(labels, predicted, member)
    rng = generator(engine.pool.seed, "measure", engine.pool.dataset, engine.round)
    right = (predicted == labels).mean(axis=1)
    margin = 1.96 * np.sqrt(right * (1 - right) / len(labels))
    gap = count_gap(engine.notion, counts)
    low, high = gap_interval(counts, soft_group_counts(labels, predicted, member**2), rng, engine.notion)
    curve = [
        {
            "strength": head.strength,
            "accuracy": right[k],
            "low": max(0.0, right[k] - margin[k]),
            "high": min(1.0, right[k] + margin[k]),
            "gap": gap[k],
            "gap_low": low[k],
            "gap_high": high[k],
        }
        for k, head in enumerate(engine.plan.heads)
    ]
    told = engine.answers[0].known()[1]
    return {
        "round": engine.round,
        "basis": "proxy",
        "notion": engine.notion.name,
        "note": NOTE,
        "curve": curve,
        "rates": _rates(counts, names, np.bincount(told, minlength=len(names))),
        "bound": _bound(engine, names),
    }


def outlook(engine: Mitigation, people: int) -> list[dict[str, Any]]:
    """The gap to expect now, after more answers and after so many people in all, on the rows that are measured."""
    rows = measured_rows(engine)
    rows = rows[:: -(-len(rows) // OUTLOOK_ROWS)]  # each is weighed by every draw, for every number of answers
    ahead = look_ahead(engine, engine.heads, engine.pool.judged_on(rows), [people])
    return [expected.to_dict() for expected in ahead]


def _bound(engine: Mitigation, names: Sequence[str]) -> dict[str, Any] | None:
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


def gap_interval(
    counts: GroupCounts, squares: GroupCounts, rng: np.random.Generator, notion: Notion = EQUALIZED_ODDS
) -> tuple[Floats, Floats]:
    """A 95 % interval of every head's gap, from normal draws of each group's compared rates: (K,) each.

    `squares` are the counts of squared weights: with them, a rate's variance is that of a weighted mean.
    """
    (happened, people), (squared, all_squared) = count_events(notion, counts), count_events(notion, squares)
    rate = ratio(happened, people)  # (K, k, e, g); a group without anybody has none, and so has what rests on it
    variance = ratio((1 - rate) ** 2 * squared + rate**2 * (all_squared - squared), people**2)
    # the same draws for every head: heads err on much the same rows, and the curve should not jitter between them
    cells, events, groups = rate.shape[1:]
    noise = np.moveaxis(rng.standard_normal((DRAWS, 1, groups, cells, events)), 2, -1)
    drawn = np.clip(rate + noise * np.sqrt(variance), 0, 1)  # (draws, K, k, e, g)
    low, high = np.quantile(notion.gap(drawn), (0.025, 0.975), axis=0)
    value = count_gap(notion, counts)
    return np.minimum(low, value), np.maximum(high, value)


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


def _membership(engine: Mitigation, rows: torch.Tensor) -> Floats:
    """(n, g) how probably each row belongs to each group: told where somebody answered, f_a elsewhere."""
    member = engine.membership(engine.pool.seen[rows])[0].double().numpy()
    member = member / member.sum(axis=1, keepdims=True)
    told, groups = engine.answers[0].known()
    place = np.searchsorted(rows.numpy(), told)
    inside = (place < len(rows)) & (rows.numpy()[np.minimum(place, len(rows) - 1)] == told)
    member[place[inside]] = 0
    np.add.at(member, (place[inside], groups[inside]), engine.answers[0].trust()[inside])
    return np.asarray(np.clip(member, 0, 1))


def _rates(counts: GroupCounts, names: Sequence[str], told: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Each group's rates: by the unpenalised head before, by every head after."""
    values = {name: METRICS[name](counts) for name in RATES}  # (K, g)
    sizes, correct = counts.n, counts.tp + counts.tn
    with np.errstate(divide="ignore", invalid="ignore"):
        values["accuracy"] = np.where(sizes > 0, correct / sizes, np.nan)
    found = []
    for group, name in enumerate(names):
        heads = [{key: number(value[k, group]) for key, value in values.items()} for k in range(len(sizes))]
        size = round(float(sizes[0, group]), 1)
        found.append({"group": name, "size": size, "answers": int(told[group]), "before": heads[0], "after": heads})
    return found
