"""A campaign over more rows than anybody would copy: created, twenty answers, a classifier; time and memory by phase.

    python benchmarks/bench_large_campaign.py              # 12 million rows of 64 numbers: 3 GB; needs 15 GB of disk
    python benchmarks/bench_large_campaign.py --rows 1200000 --json
    python benchmarks/bench_large_campaign.py --rows 1000000 --add 1000000   # rows that arrive later; goal: 120 s

The people are generated: embeddings around clusters, a label that leans towards one of two groups, groups that only
the answers tell. Everything is written to a temporary folder (set TMPDIR where it is small) and gone afterwards. Peak
memory is what the process holds of its own: not pages of mapped files, which the system takes back when it needs them.
Goals: within 24 GB, in minutes (20 at most), and a classifier better than chance.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from apod.campaign import Campaign
from apod.campaign.growth import AddOptions
from apod.data.blocks import steps_per_round
from bench_coverage import Memory

STEP = 100_000


def write_people(folder: Path, rows: int, width: int, prefix: str = "") -> None:
    """Embeddings, labels and the groups that answers will tell, as .npy files."""
    rng = np.random.default_rng(0)
    matrix = np.lib.format.open_memmap(folder / f"{prefix}x.npy", mode="w+", dtype=np.float32, shape=(rows, width))
    labels, groups = np.empty(rows, np.int8), np.empty(rows, np.int8)
    centres = 2 * rng.standard_normal((100, width), dtype=np.float32)
    leaning, belonging = (rng.standard_normal(width, dtype=np.float32) for _ in range(2))
    for start in range(0, rows, STEP):
        here = slice(start, min(start + STEP, rows))
        block = rng.standard_normal((here.stop - here.start, width), dtype=np.float32)
        block += centres[rng.integers(0, 100, len(block))]
        matrix[here] = block
        groups[here] = block @ belonging + 4 * rng.standard_normal(len(block)) > 6
        labels[here] = block @ leaning + 4 * groups[here] + 8 * rng.standard_normal(len(block)) > 0
    matrix.flush()
    np.save(folder / f"{prefix}y.npy", labels)
    np.save(folder / f"{prefix}g.npy", groups)


class Phases:
    """Seconds and peak memory of every part."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._since = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with Memory(self._since) as memory:
            yield
        took = {"seconds": time.perf_counter() - start, "peak_gb": memory.bytes / 1e9}
        self.found[name] = {key: round(value, 2) for key, value in took.items()}
        print(f"  {name:44s} {took['seconds']:8.1f} s   {took['peak_gb']:6.2f} GB", file=sys.stderr, flush=True)


def grow(campaign: Campaign, folder: Path, names: np.ndarray[Any, Any], phases: Phases) -> float:
    """Add the rows that came later, and ask the next question, which knows them; seconds of both."""
    start = time.perf_counter()
    with phases.phase("campaign add"):
        done = campaign.owner.add(folder / "later_x.npy", options=AddOptions(label=str(folder / "later_y.npy")))
    campaign.owner.extend(campaign.status().budget + 1)
    with phases.phase("refit on everybody, the next question"):
        question = campaign.ask()
    took = time.perf_counter() - start
    assert question is not None
    assert len(campaign.materials) == done.total
    campaign.tell(question, "one" if question.row >= len(names) else str(names[question.row]))
    return took


def run(folder: Path, answers: int, preset: str, phases: Phases, added: int) -> dict[str, Any]:
    with phases.phase("campaign new"):
        campaign = Campaign.create_from_table(
            folder / "campaign.db",
            folder / "x.npy",
            label=str(folder / "y.npy"),
            groups=["one", "other"],
            budget=answers,
            refit="demand",
            engine_options={"preset": preset},
        )
    names = np.array(["one", "other"])[np.load(folder / "g.npy")]
    times = []
    with campaign:
        with phases.phase("build the engine"):
            campaign.engine()
        with phases.phase(f"{answers} answers"):
            while True:
                start = time.perf_counter()
                question = campaign.ask()
                if question is None:
                    break
                campaign.tell(question, str(names[question.row]))
                times.append(time.perf_counter() - start)
        grown = grow(campaign, folder, names, phases) if added else None
        with phases.phase("classifier"):
            classifier = campaign.classifier()
    with phases.phase("predict the first million"):
        some = np.load(folder / "x.npy", mmap_mode="r")[:1_000_000]
        right = classifier.predict(some).astype(str) == np.load(folder / "y.npy")[:1_000_000].astype(str)
    found = {"answers": len(times), "seconds_per_answer": round(float(np.median(times)), 2), "accuracy": right.mean()}
    return found if grown is None else found | {"added": added, "seconds_to_add": round(grown, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--preset", default="default", help="default: a model is corrected; heads")
    parser.add_argument("--add", type=int, default=0, help="rows that arrive after the answers")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-campaign-"))
    phases = Phases()
    start = time.perf_counter()
    try:
        if shutil.disk_usage(folder).free < 5 * 4 * given.rows * given.width:
            raise SystemExit(
                f"bench_large_campaign needs five times the matrix in {folder.parent}: set TMPDIR or --rows."
            )
        with phases.phase("write the people (not part of it)"):
            write_people(folder, given.rows, given.width)
            if given.add:
                write_people(folder, given.add, given.width, "later_")
        os.sync()
        start = time.perf_counter()
        found = run(folder, given.answers, given.preset, phases, given.add)
    finally:
        shutil.rmtree(folder)
    took, peak = time.perf_counter() - start, max(one["peak_gb"] for one in phases.found.values())
    met = (
        found.get("seconds_to_add", 0) <= 120
        and took <= 20 * 60
        and peak <= 24
        and found["accuracy"] > 0.55
        and found["answers"] == given.answers
    )
    found |= {"rows": given.rows, "width": given.width, "seconds": round(took, 1), "peak_gb": peak}
    found |= {"steps_per_round": steps_per_round(given.rows, 10, 256), "phases": phases.found, "goals_met": bool(met)}
    print(f"  {'all of it':44s} {took:8.1f} s   {peak:6.2f} GB   goals {'met' if met else 'MISSED'}", file=sys.stderr)
    print(f"  one answer and the next question: {found['seconds_per_answer']} s", file=sys.stderr)
    if given.add:
        print(f"  {given.add} rows added, the next question included: {found['seconds_to_add']} s", file=sys.stderr)
    print(f"  accuracy of the classifier: {found['accuracy']:.3f}", file=sys.stderr)
    if given.json:
        print(json.dumps(found))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
