"""Speed of counting and of bootstrap intervals, beside fairlearn's MetricFrame, in one run.

    python benchmarks/bench_metrics.py [--rows 200000] [--fairlearn-resamples 5] [--json]

fairlearn resamples rows, so it gets few resamples and its time per resample is scaled up; both compute accuracy,
TPR, FPR and selection rate per group (ours computes the fairness metrics besides).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import fairlearn.metrics as fl
import numpy as np
from sklearn.metrics import accuracy_score

from apod.fairness.metrics import fairness_score, group_counts
from apod.fairness.resampling import bootstrap, paired_bootstrap

RESAMPLES = 1000


def best(job: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of a few runs."""
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        job()
        took.append(time.perf_counter() - start)
    return min(took)


def population(rng: np.random.Generator, n: int, heads: tuple[int, ...] = ()) -> tuple[np.ndarray, ...]:
    """Labels, predictions of some heads, groups with one in twenty unknown."""
    y, group = rng.integers(0, 2, n), rng.integers(0, 2, n)
    pred = (rng.random((*heads, n)) < 0.2 + 0.5 * y + 0.1 * group).astype(np.int64)
    return y, pred, np.where(rng.random(n) < 0.05, -1, group)


def bootstrap_beside_fairlearn(rows: int, fairlearn_resamples: int) -> dict[str, float]:
    """Seconds of 1,000 resamples, ours measured and fairlearn's scaled up."""
    y, pred, group = population(np.random.default_rng(0), rows)
    known = group >= 0

    def ours() -> object:
        return bootstrap(group_counts(y, pred, group, 2), np.random.default_rng(1), resamples=RESAMPLES)

    def paired() -> object:
        return paired_bootstrap(y, pred, 1 - pred, group, 2, np.random.default_rng(1), resamples=RESAMPLES)

    def theirs(n_boot: int | None) -> float:
        start = time.perf_counter()
        fl.MetricFrame(
            metrics={
                "accuracy": accuracy_score,
                "tpr": fl.true_positive_rate,
                "fpr": fl.false_positive_rate,
                "selection_rate": fl.selection_rate,
            },
            y_true=y[known],
            y_pred=pred[known],
            sensitive_features=group[known],
            n_boot=n_boot,
            ci_quantiles=None if n_boot is None else [0.025, 0.975],
            random_state=0,
        )
        return time.perf_counter() - start

    per_resample = (theirs(fairlearn_resamples) - theirs(None)) / fairlearn_resamples
    seconds = best(ours)
    return {
        "rows": rows,
        "bootstrap_s": seconds,
        "paired_bootstrap_s": best(paired),
        "fairlearn_s_scaled": per_resample * RESAMPLES,
        "fairlearn_over_ours": per_resample * RESAMPLES / seconds,
    }


def counting() -> dict[str, float]:
    """Milliseconds to count and score 27 rounds x 9 heads x 15,000 rows."""
    rng = np.random.default_rng(2)
    y, pred, group = population(rng, 15_000, (27, 9))
    proxies = {"one": group, "per_head": rng.integers(0, 2, (9, 15_000)), "per_round_and_head": 1 - pred}
    out = {}
    for name, groups in proxies.items():
        seconds = best(lambda groups=groups: fairness_score("delta_eo", group_counts(y, pred, groups, 2)))
        out[f"count_ms_groups_{name}"] = seconds * 1e3
        out[f"count_rows_per_s_groups_{name}"] = pred.size / seconds
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--fairlearn-resamples", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = bootstrap_beside_fairlearn(options.rows, options.fairlearn_resamples) | counting()
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:45s} {value:>16,.4g}" if value < 1e4 else f"{name:45s} {value:>16,.0f}")


if __name__ == "__main__":
    main()
