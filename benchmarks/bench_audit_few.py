"""What does an audit of few answers say? Width of the gap's 95 % interval, and how far off its middle is.

    python benchmarks/bench_audit_few.py                    # compas, law_school, adult; 40 audits per line
    python benchmarks/bench_audit_few.py adult --audits 200

Real people and the decisions of a logistic regression. In every audit people are drawn evenly over the cells of label
and decision, their groups are revealed, and nothing else is known. The truth is the gap over all people.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression

from apod.audit import audit
from apod.data import load_dataset
from apod.data.encode import TableEncoder
from apod.fairness.metrics import evaluate
from apod.randomness import generator

TASKS = ("compas", "law_school", "adult")


def main() -> None:
    """Print a line per task and number of answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--audits", type=int, default=40)
    parser.add_argument("--answers", default="8,20,40,60,100,200")
    parser.add_argument("--data-dir", default=None)
    asked = parser.parse_args()
    print("| task | true gap | answers | covered | width | middle off by |\n| --- | --- | --- | --- | --- | --- |")
    for name in asked.tasks:
        data = load_dataset(name, data_dir=asked.data_dir)
        people = np.flatnonzero(data.groups >= 0)
        features, labels, groups = data.features.iloc[people], data.labels[people], data.groups[people]
        encoded = TableEncoder().fit(features).transform(features)
        decided = LogisticRegression(C=0.1, max_iter=300).fit(encoded, labels).predict(encoded)
        truth = evaluate(labels, decided, groups, data.group_names).gap
        cells = [np.flatnonzero(2 * labels + decided == cell) for cell in range(4)]
        for n in map(int, asked.answers.split(",")):
            low, high = [], []
            for number in range(asked.audits):
                rng = generator(number, "few answers", name, n)
                known, chance = np.full(len(labels), -1), np.full(len(labels), np.nan)
                for place, cell in enumerate(cells):
                    rows = rng.choice(cell, min(len(cell), n // 4 + (place < n % 4)), replace=False)
                    known[rows], chance[rows] = groups[rows], len(rows) / len(cell)
                found = audit(labels, {"model": decided}, known, data.group_names, probability=chance, seed=number)
                low.append(found.views["model"].gap.low)
                high.append(found.views["model"].gap.high)
            ends = np.array([low, high], dtype=float)
            covered = ((ends[0] <= truth) & (truth <= ends[1])).mean()
            off = np.abs(ends.mean(axis=0) - truth).mean()
            print(
                f"| {name} | {truth:.2f} | {n} | {covered:.2f} | {(ends[1] - ends[0]).mean():.2f} | {off:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
