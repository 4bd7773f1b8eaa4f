"""Do the intervals that a campaign shows cover? Simulated campaigns on tables whose groups are on record.

    python benchmarks/bench_campaign_coverage.py --data-dir DATA --tasks adult,compas --seeds 0-9

Each campaign is over some people of a table, drawn anew with the seed. Records answer its questions, asked four at a
time. After 40 and after 100 answers the gap to expect, of the base model and at the operating point, as dashboard,
`apod status` and report show it, is compared with the gap on the recorded groups of all the campaign's people.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from apod.campaign import Campaign, GroupAnswer
from apod.campaign.correction_engine import CorrectionEngine, CorrectionModel
from apod.data import load_dataset
from apod.fairness.metrics import evaluate
from apod.randomness import generator

TASKS = ("adult", "meps", "compas", "law_school", "bank")
MOMENTS = (40, 100)
BATCH = 4


@dataclass(frozen=True)
class Seen:
    """What a campaign showed after so many answers, and what is so: base model, operating point."""

    answers: int
    strength: float
    covers: tuple[bool, bool]
    widths: tuple[float, float]
    gaps: tuple[float, float]


def simulate(task: str, seed: int, rows: int, folder: Path | None) -> list[Seen]:
    """One campaign of 100 answers."""
    data = load_dataset(task, data_dir=folder)
    known = np.flatnonzero(data.groups >= 0)
    chosen = np.sort(generator(seed, "people of a campaign", task).choice(known, min(rows, len(known)), replace=False))
    groups = data.groups[chosen]
    with tempfile.TemporaryDirectory() as inside:
        options = {"groups": list(data.group_names), "budget": MOMENTS[-1], "seed": seed, "refit": "demand"}
        made = Campaign.create(f"{inside}/c.db", data.features.iloc[chosen], data.labels[chosen], **options)
        with made as campaign:
            engine = CorrectionEngine(campaign.materials)
            answers: list[GroupAnswer] = []
            model: CorrectionModel | None = None
            found = []
            while len(answers) < MOMENTS[-1]:
                asked = {answer.row for answer in answers}
                for proposal in engine.propose(model, answers, asked, BATCH):
                    answers.append(GroupAnswer(proposal.row, int(groups[proposal.row])))
                if model is None or len(answers) in MOMENTS:
                    model = engine.fit(answers, None)
                if model is not None and len(answers) in MOMENTS:
                    found.append(compare(engine, model, groups, len(answers)))
    return found


def compare(engine: CorrectionEngine, model: CorrectionModel, groups: np.ndarray, answers: int) -> Seen:
    """The intervals shown, and the recorded gap over everybody."""
    people, pool = engine.population.people, engine.base.pool.people
    decided = engine.decided(model, pool, model.strength)
    names = [str(code) for code in range(engine.population.n_groups)]
    views = []
    for which, own in (("base", people.decisions), ("selected", decided)):
        gap = evaluate(people.labels, own, groups, names, warn=False).gap
        low, high = model.outcome["estimate"][which]["interval"]
        views.append((low <= gap <= high, high - low, gap))
    covers, widths, gaps = (tuple(column) for column in zip(*views, strict=True))
    return Seen(answers, model.strength, covers, widths, gaps)


def main() -> None:
    """Run and print a line per table and moment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--rows", type=int, default=3000)
    told = parser.parse_args()
    first, last = map(int, told.seeds.split("-"))
    everything: list[Seen] = []
    for task in told.tasks.split(","):
        started, found = time.perf_counter(), []
        for seed in range(first, last + 1):
            found += simulate(task, seed, told.rows, told.data_dir)
        everything += found
        for moment in MOMENTS:
            show(task, [one for one in found if one.answers == moment])
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    for moment in MOMENTS:
        show("all", [one for one in everything if one.answers == moment])


def show(task: str, found: list[Seen]) -> None:
    """How often both intervals cover, how wide they are, and the gaps."""
    covers = np.array([one.covers for one in found]).mean(axis=0)
    widths = np.median([one.widths for one in found], axis=0)
    gaps = np.mean([one.gaps for one in found], axis=0)
    acted = np.mean([one.strength > 0 for one in found])
    print(
        f"{task:11} {found[0].answers:4} answers, {len(found)} campaigns: base covered {covers[0]:.0%}, width "
        f"{widths[0]:.2f}, gap {gaps[0]:.3f}; operating point covered {covers[1]:.0%}, width {widths[1]:.2f}, gap "
        f"{gaps[1]:.3f}; corrected {acted:.0%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
