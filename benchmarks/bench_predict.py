"""How many rows a second `apod predict` decides about, its model's own time and the rest apart.

    python benchmarks/bench_predict.py

Adult, written as CSV three times over: reading the file, scoring, deciding, writing. Goal: 10,000 rows a second beyond
the model's own time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from apod import APODClassifier, load_dataset
from apod.classifier.deployment import decide, read_people
from apod.data.cells import write_cells

GOAL = 10_000


def main() -> None:
    data = load_dataset("adult")
    groups = np.full(len(data.labels), None, dtype=object)
    groups[:60] = np.array(data.group_names, dtype=object)[data.groups[:60]]
    classifier = APODClassifier(strength=0.2, random_state=0)
    classifier.fit(data.features[:8000], data.labels[:8000], sensitive_features=groups[:8000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.csv"
        pd.concat([data.features] * 3).to_csv(path, index=False)
        start = time.perf_counter()
        people, ids = read_people(classifier, path)
        read = time.perf_counter()
        found = decide(classifier, people, ids)
        decided = time.perf_counter()
        columns = [found.table[name].tolist() for name in found.table.columns]
        (Path(folder) / "out.csv").write_bytes(write_cells(list(found.table.columns), zip(*columns, strict=True)))
        written = time.perf_counter()
    classifier.at(0.0).decision_function(people)
    model = time.perf_counter() - written
    rest = written - start - model
    rate = len(people) / rest
    steps = f"read {read - start:.2f} s, decide {decided - read:.2f} s, write {written - decided:.2f} s"
    print(f"{len(people)} rows by {classifier.model_}: {steps}; the model itself takes {model:.2f} s")
    print(f"{rate:,.0f} rows a second beyond the model's own time (goal {GOAL:,})")
    sys.exit(rate < GOAL)


if __name__ == "__main__":
    main()
