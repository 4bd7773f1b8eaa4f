"""A frozen gradient boosting model on law school, corrected by `APODClassifier` with 100 random answers.

    python benchmarks/bench_frozen.py [--seeds 8] --data-dir data

The model is trained on half of the training part; the other half and the validation part, which it has not seen, go to
`fit`, with the recorded group of 50 random people per label. Judged on the test part, within the default limits and
within wider ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

from apod import APODClassifier
from apod.data import load_dataset, split_rows

LIMITS = ((0.01, 0.015), (0.015, 0.03))
"""What may be lost: accuracy, balanced accuracy."""


def gap(decided: Any, labels: Any, groups: Any) -> float:
    rates = [[decided[(labels == y) & (groups == g)].mean() for g in (0, 1)] for y in (0, 1)]
    return sum(abs(first - second) for first, second in rates)


def run(dataset: Any, seed: int) -> list[tuple[float, float, float, float]]:
    """Per pair of limits: gap and accuracy of the model, gap and accuracy after the correction."""
    split, rng = split_rows(dataset.key, len(dataset), dataset.task.split, seed), np.random.default_rng(seed)
    X, y, groups, test = dataset.features, dataset.labels, dataset.groups, split.test
    own = rng.permutation(split.train)
    first, rest = own[: len(own) // 2], np.concatenate([own[len(own) // 2 :], split.validation])
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features="from_dtype")
    model.fit(X.iloc[first], y[first])
    known = np.full(len(rest), None, dtype=object)
    for label in (0, 1):
        asked = rng.choice(np.flatnonzero(y[rest] == label), 50, replace=False)
        known[asked] = groups[rest[asked]].astype(str)
    before, found = model.predict(X.iloc[test]), []
    for accuracy, balanced in LIMITS:
        corrected = APODClassifier(
            FrozenEstimator(model), max_accuracy_loss=accuracy, max_balanced_loss=balanced, random_state=seed
        ).fit(X.iloc[rest], y[rest], sensitive_features=known)
        after = corrected.predict(X.iloc[test])
        each = [(gap(d, y[test], groups[test]), float((d == y[test]).mean())) for d in (before, after)]
        found.append((*each[0], *each[1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--data-dir", type=Path)
    told = parser.parse_args()
    dataset = load_dataset("law_school", data_dir=told.data_dir)
    found = np.array([run(dataset, seed) for seed in range(told.seeds)]).mean(axis=0)
    for (accuracy, balanced), (before, right, after, still) in zip(LIMITS, found, strict=True):
        print(
            f"limits {accuracy:g} and {balanced:g}: gap {before:.3f} -> {after:.3f} ({after / before:.2f} of itself), "
            f"accuracy {right:.4f} -> {still:.4f}"
        )


if __name__ == "__main__":
    main()
