"""What the default preset achieves: its head against the plain one, per task, over many seeds, on the test part.

    python benchmarks/bench_default.py --seeds 20 --data-dir ../shared/data --out out/default

Each run is the whole of `apod run` (body, questions, refits, choice of the head); the recorded groups answer. Finished
runs are kept in --out and not repeated. --selector stratified asks random people instead, everything else the same.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from apod.data import load_dataset
from apod.run import run_experiment
from apod.settings import PRESETS

FROZEN = {"adult": 0.102, "meps": 0.035, "loan": 0.017, "german": 0.075, "bank": 0.054}
"""Gap of POD with all groups known, docs/replication.md: five seeds, chosen on the validation part."""
MEASURES = ("accuracy", "balanced_accuracy", "gap")


def one_run(task: str, seed: int, selector: str, data_dir: Path | None, out: Path) -> dict[str, dict[str, float]]:
    """Vanilla's and the selected head's figures of one run, from the file it left or computed now."""
    kept = out / f"{selector}-{task}-{seed}.json"
    if not kept.exists():
        settings = replace(PRESETS["default"], selector=selector)
        result = run_experiment(load_dataset(task, data_dir=data_dir), settings, seed=seed).result
        found = {name: {m: result[name][m] for m in (*MEASURES, "strength")} for name in ("vanilla", "selected")}
        kept.write_text(json.dumps(found))
        print(f"{task} {seed}: gap {found['vanilla']['gap']:.3f} to {found['selected']['gap']:.3f}", flush=True)
    saved: dict[str, dict[str, float]] = json.loads(kept.read_text())
    return saved


def line(task: str, runs: list[dict[str, dict[str, float]]]) -> str:
    """One row of the table."""
    before, after = (np.array([[run[name][m] for m in MEASURES] for run in runs]) for name in ("vanilla", "selected"))
    change = after - before
    error = change.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.full(3, np.nan)
    kept = np.mean([run["selected"]["strength"] == 0 for run in runs])
    gain = before[:, 2].mean() - FROZEN[task]
    closed = f"{-change[:, 2].mean() / gain:.0%}" if gain >= 0.02 else "vanilla counts as fair"
    cells = [f"{m[0]:.3f} / {m[1]:.3f} / {m[2]:.3f}" for m in (before.mean(axis=0), after.mean(axis=0))]
    moved = f"{change[:, 2].mean():+.3f} +- {error[2]:.3f}"
    return f"| {task} | {len(runs)} | {cells[0]} | {cells[1]} | {moved} | {closed} | {kept:.0%} |"


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="adult,meps,loan,german,bank")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--selector", default=PRESETS["default"].selector)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/default"))
    told = parser.parse_args()
    told.out.mkdir(parents=True, exist_ok=True)
    table = [
        "| task | seeds | plain: accuracy, balanced, gap | selected | change of the gap | closed | plain head kept |"
    ]
    table.append("| --- " * 7 + "|")
    for task in told.tasks.split(","):
        runs = [one_run(task, seed, told.selector, told.data_dir, told.out) for seed in range(told.seeds)]
        table.append(line(task, runs))
    print("\n".join(table))


if __name__ == "__main__":
    main()
