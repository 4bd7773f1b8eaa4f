"""Do the intervals hold on real people? Simulated audits on recorded tables, the truth known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from apod.audit.sampling import cell_means, cells_of, check_people
from apod.audit.shares import CellAnswers, components, cross_fitted, difference, estimate_shares
from apod.data import TableEncoder, load_dataset
from apod.fairness.metrics import RATES, evaluate

AUDITS, ANSWERS = 600, 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "meps", "german", "bank"])
def test_95_percent_intervals_from_a_hundred_random_answers_cover_93_percent(name: str, shared_dir: Path) -> None:
    dataset = load_dataset(name, data_dir=shared_dir / "data")
    known = dataset.groups >= 0
    encoded = TableEncoder().fit(dataset.features).transform(dataset.features)[known].astype(np.float64)
    labels, groups = dataset.labels[known], dataset.groups[known]
    train = np.arange(len(labels)) % 3 == 0
    model = LogisticRegression(max_iter=2000).fit(encoded[train], labels[train])
    inputs, labels, groups = components(encoded[~train]), labels[~train], groups[~train]
    decided = model.predict(encoded[~train])
    exact = evaluate(labels, decided, groups, dataset.group_names)
    first, last = (exact.groups[group] for group in dataset.group_names)
    truth = np.array([[first.tpr - last.tpr], [first.fpr - last.fpr]])
    plan = cells_of(check_people(labels, {"m": decided}, np.full(len(labels), -1), dataset.group_names), ["m"])
    rng, one_hot, covered = np.random.default_rng(0), np.eye(2)[groups], []
    for _ in range(AUDITS // 100):
        rows = np.stack([rng.choice(len(labels), ANSWERS, replace=False) for _ in range(100)])
        proxies = cross_fitted(inputs, rows, one_hot[rows], rng)
        own = np.take_along_axis(proxies, rows[..., None], axis=1)
        chance = np.full(rows.shape, ANSWERS / len(labels))
        sample = CellAnswers(plan.code[rows], one_hot[rows], own, chance)
        means = np.stack([cell_means(plan.code, one, 4) for one in proxies])
        drawn = estimate_shares(sample, plan.sizes, plan.labels, means).draw(800, rng)
        rates = [plan.views[0].rates(RATES[name], drawn)[..., 0, 0, :] for name in ("tpr", "fpr")]
        both = np.stack([difference(rate) for rate in rates])
        low, high = np.quantile(both, [0.025, 0.975], axis=-1)
        covered.append((low <= truth) & (truth <= high))
    share = np.concatenate(covered, axis=1).mean(axis=1)
    assert (share >= 0.93).all(), share
