"""The package against formulas computed elsewhere, in float64, by a slow and independent statement of the paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from apod.fairness.notions import NOTIONS
from apod.heads.bank import HeadBank
from apod.maxmin import Coverage
from apod.method.penalty import cell_weights, penalty_and_slope
from apod.method.pod import pod_slope
from apod.method.selection import SELECTORS, View, centred_accuracies, worst_first

CASES = 5


@pytest.fixture(params=range(CASES), ids=lambda n: f"vector{n}")
def vector(request: pytest.FixtureRequest, shared_dir: Path) -> dict[str, Any]:
    vectors = json.loads((shared_dir / "vectors" / "formulas.json").read_text())
    assert len(vectors) == CASES
    return vectors[request.param]


def test_pod_loss_and_gradient_equal_the_vectors_in_all_nine_cases(vector: dict[str, Any]) -> None:
    pod = vector["pod"]
    logits, y = torch.tensor(pod["logits"], dtype=torch.float64), torch.tensor(pod["y"])
    strength = torch.tensor([pod["strength"]], dtype=torch.float64)
    assert len(pod["cases"]) == 9
    for case in pod["cases"]:
        groups = torch.tensor(case["group"])
        known = groups >= 0
        membership = torch.nn.functional.one_hot(groups[known], int(groups.max()) + 1).double()
        cells = cell_weights(NOTIONS["equalized_odds"], y[known][None], membership[None])
        margin = logits[:, 1] - logits[:, 0]
        penalty, _ = penalty_and_slope(margin[known][None], cells, case["relaxation"])
        assert float(penalty) == pytest.approx(case["penalty"], abs=1e-9, rel=1e-9)
        cross_entropy = float(torch.nn.functional.cross_entropy(logits, y))
        assert cross_entropy + pod["strength"] * float(penalty) == pytest.approx(case["loss"], abs=1e-6)
        # the annotated stand behind the mini-batch once more: both shares of their gradient add up
        both = torch.cat([margin, margin[known]])[None]
        slope = pod_slope(both, y.double(), strength, cells, case["relaxation"])[0]
        total = slope[: len(y)].clone()
        total[known] += slope[len(y) :]
        np.testing.assert_allclose(torch.stack([-total, total], 1).numpy(), case["gradient"], atol=1e-6)


def test_whom_to_ask_equals_the_vectors(vector: dict[str, Any]) -> None:
    ais, expect = vector["ais"], vector["ais"]["expect"]
    labels, predicted, proxy = (np.array(ais[name]) for name in ("y", "pred", "proxy"))
    answered = np.array(ais["answered"])
    accuracies = centred_accuracies(labels, predicted, proxy, 2, ~answered)
    for name, value in expect["centred_accuracy"].items():
        group, label = map(int, name.split(","))
        assert accuracies[group, label] == pytest.approx(value, abs=1e-12)
    assert worst_first(accuracies)[0] == tuple(expect["subgroup"])
    coverage = Coverage(np.array(ais["embedding"]), np.flatnonzero(answered).tolist())
    view = View(labels, ~answered, lambda: (predicted.astype(float), np.eye(2)[proxy]), coverage)
    [choice] = SELECTORS["apod"](view, 1, np.random.default_rng(0))
    assert choice.row == expect["row"]
    assert (choice.reason["group"], choice.reason["label"]) == tuple(expect["subgroup"])
    assert choice.reason["distance"] == pytest.approx(expect["distance"], abs=1e-9)
    assert choice.probability == 1


def test_the_gradient_of_the_vectors_is_what_a_bank_descends(vector: dict[str, Any]) -> None:
    # a head that is the identity plus a bias: its bias gradient is the sum of the logit gradients
    pod = vector["pod"]
    case = pod["cases"][0]
    logits, y = torch.tensor(pod["logits"], dtype=torch.float64), torch.tensor(pod["y"])
    gradient = torch.tensor(case["gradient"], dtype=torch.float64)
    flat = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    bank = HeadBank(flat, (2, 2))
    bank.step(logits, None, [], lambda _: gradient[None], 1.0)
    expected = torch.cat([(logits.T @ gradient).reshape(-1), gradient.sum(0)])
    np.testing.assert_allclose(bank.gradient[0].numpy(), expected.numpy(), atol=1e-12)
    assert len(y) == len(gradient)
