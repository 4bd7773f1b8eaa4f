"""One answer and the next question, samplings of the posterior included, beside one bare product over the pool.

    python benchmarks/bench_asking.py [--rows 7540,1000000] [--answers 60] [--json]

The pool is simulated: 48 columns that f_a reads, groups that show in one of them. The bare product is everybody's
membership by 128 draws, without the logistic function: what no way to score a pool by draws can do without.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
from scipy.special import expit, logit

from apod.fairness.notions import EQUALIZED_ODDS
from apod.method.correction_choice import Limits
from apod.method.correction_fit import Population, fit_correction, make_population
from apod.method.posterior import People
from apod.method.questions import Asking
from apod.randomness import generator

GOALS = {7540: 0.1, 1_000_000: 1.0}
"""Seconds for one answer and the next question."""
COLUMNS, DRAWS = 48, 128


def simulated(rows: int) -> tuple[Population, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
    groups = (rng.random(rows) < expit(1.5 * inputs[:, 1])).astype(np.int64)
    eta = expit(1.6 * inputs[:, 0].astype(np.float64) + inputs[:, 1] - 0.4)
    labels = (rng.random(rows) < eta).astype(np.int64)
    people = People(inputs, labels, (eta > 0.5).astype(np.int64), logit(eta))
    return make_population(EQUALIZED_ODDS, people, eta, 0.5, rows, 2, 0), groups


def seconds_per_answer(population: Population, groups: np.ndarray, count: int) -> float:
    asking = Asking(population, population.people.labels, 0)
    start = time.perf_counter()
    for number in range(count):
        (choice,) = asking.choose(1, (), generator(0, "questions", number))
        asking.add_answer(choice.row, np.eye(2)[groups[choice.row]])
    return (time.perf_counter() - start) / count


def measure(rows: int, count: int) -> dict[str, float]:
    population, groups = simulated(rows)
    weights = np.random.default_rng(1).standard_normal((DRAWS, population.columns.shape[1]), dtype=np.float32)
    start = time.perf_counter()
    for first in range(0, rows, 100_000):
        weights @ population.columns[first : first + 100_000].T
    product = time.perf_counter() - start
    each = seconds_per_answer(population, groups, count)
    found = {"rows": rows, "answer_seconds": each, "product_seconds": product, "products": each / product}
    if rows <= 20_000:
        answers = {row: np.eye(2)[groups[row]] for row in range(100)}
        start = time.perf_counter()
        fit_correction(population, answers, Limits(), 0)
        found["refit_seconds"] = time.perf_counter() - start
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=list(GOALS))
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    found = [measure(rows, told.answers) for rows in told.rows]
    if told.json:
        print(json.dumps(found))
    for own in [] if told.json else found:
        refit = f", a refit with 100 answers {own['refit_seconds']:.2f} s" if "refit_seconds" in own else ""
        print(
            f"{own['rows']:,.0f} rows: one answer and the next question {own['answer_seconds']:.3f} s "
            f"({own['products']:.1f} bare products of {own['product_seconds']:.3f} s){refit}"
        )
    sys.exit(any(own["answer_seconds"] > GOALS.get(int(own["rows"]), np.inf) for own in found))


if __name__ == "__main__":
    main()
