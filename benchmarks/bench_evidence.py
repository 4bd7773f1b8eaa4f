"""Do the bounds of a gap and the intervals of impact ratios hold? 2,000 simulated populations each, truth known.

python benchmarks/bench_evidence.py
"""

from __future__ import annotations

import argparse

import numpy as np

from apod.audit.bounds import audited_bounds
from apod.audit.sampling import People, check_people
from apod.fairness.counts import group_counts
from apod.fairness.impact import counted_intervals
from apod.fairness.notions import EQUALIZED_ODDS, count_gap
from apod.randomness import generator

SILENT = (0.0, 0.3)
"""How often the last group gives no answer; the others always answer, so silence is informative."""


def population(rng: np.random.Generator, groups: int, silent: float) -> tuple[People, dict[str, float]]:
    """200 to 3,000 people, 5 to 40 % of every cell of label and first decision drawn; the gaps of both decisions."""
    n = int(rng.integers(200, 3000))
    group = rng.choice(groups, size=n, p=rng.dirichlet(np.full(groups, 2.0)))
    labels = (rng.random(n) < rng.uniform(0.1, 0.7, groups)[group]).astype(np.int64)
    decided = {
        name: (rng.random(n) < rng.uniform(0.02, 0.98, (groups, 2))[group, labels]).astype(np.int64)
        for name in ("before", "after")
    }
    told, chance = np.full(n, -1), np.full(n, np.nan)
    share = rng.uniform(0.05, 0.4)
    for cell in range(4):
        rows = rng.permutation(np.flatnonzero(labels * 2 + decided["before"] == cell))
        asked = rows[: max(1, int(len(rows) * share))]
        chance[asked] = len(asked) / max(1, len(rows))
        answers = asked[rng.random(len(asked)) >= silent * (group[asked] == groups - 1)]
        told[answers] = group[answers]
    names = tuple("abcdefgh"[:groups])
    truth = {
        name: float(count_gap(EQUALIZED_ODDS, group_counts(labels, one, group, groups)))
        for name, one in decided.items()
    }
    return check_people(labels, decided, told, names, chance), truth


def bounds_hold(populations: int, groups: int, silent: float, seed: int) -> tuple[float, float]:
    """Share of the populations whose true gap is within its bounds, and the bounds' mean width."""
    held, widths = [], []
    for number in range(populations):
        people, truth = population(generator(seed, "evidence", groups, str(silent), number), groups, silent)
        for name, gap in truth.items():
            found = audited_bounds(EQUALIZED_ODDS, people, name)
            if not np.isnan(gap) and found.low is not None and found.high is not None:
                held.append(found.low - 1e-12 <= gap <= found.high + 1e-12)
                widths.append(found.high - found.low)
    return float(np.mean(held)), float(np.mean(widths))


def ratios_hold(populations: int, groups: int, seed: int) -> tuple[float, float]:
    """The lowest coverage of any group's impact ratio over several kinds of rates, and the mean one."""
    found = []
    kinds = {"apart": (0.05, 0.6), "rare": (0.01, 0.05), "alike": (0.3, 0.3)}
    for kind, (low, high) in kinds.items():
        rng = generator(seed, "impact", groups, kind)
        rates, people = rng.uniform(low, high, groups), rng.integers(30, 1000, groups)
        held = np.zeros(groups)
        for _ in range(populations):
            ends = counted_intervals(rng.binomial(people, rates), people, rng)
            truth = rates / rates.max()
            held += (ends[0] <= truth + 1e-12) & (truth <= ends[1] + 1e-12)
        found.append(held / populations)
    return float(np.min(found)), float(np.mean(found))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    print("| bounds of the gap: groups | no answer in the last group | true gap within | mean width |")
    print("| --- | --- | --- | --- |")
    for groups in (2, 3, 4):
        for silent in SILENT:
            held, width = bounds_hold(told.populations, groups, silent, told.seed)
            print(f"| {groups} | {silent:.0%} | {held:.4f} | {width:.2f} |", flush=True)
    print("\n| impact ratios: groups | lowest coverage of a group | mean |\n| --- | --- | --- |")
    for groups in (2, 3, 5, 7):
        lowest, mean = ratios_hold(told.populations, groups, told.seed)
        print(f"| {groups} | {lowest:.3f} | {mean:.3f} |", flush=True)


if __name__ == "__main__":
    main()
