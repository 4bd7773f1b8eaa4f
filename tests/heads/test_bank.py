"""The bank of heads against autograd and torch.optim.Adam, one head at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import reference
import torch
from torch import Tensor

from apod.fairness.notions import NOTIONS
from apod.heads.bank import Adam, HeadBank, initial_parameters, layer_views
from apod.heads.schedule import Schedule
from apod.method.penalty import CellWeights, cell_weights
from apod.method.pod import pod_slope

DEPTHS = {1: (5, 2), 2: (5, 7, 2), 3: (5, 6, 4, 2)}
ROWS = {
    "shared rows only": (12, 0, False),
    "own rows only": (0, 6, True),
    "both": (12, 6, True),
    "S shared": (12, 6, False),
}
STRENGTHS = (0.0, 0.3, 2.0)


class Setting:
    """Three heads with different starts and strengths; mini-batch and S, the latter shared or each head's own."""

    def __init__(self, depth: int, rows: str, dtype: torch.dtype, seed: int = 0, by_margin: bool = False) -> None:
        self.by_margin = by_margin  # which of the bank's two steps is taken
        self.sizes, (self.batch, self.annotated, self.separate) = DEPTHS[depth], ROWS[rows]
        rng = np.random.default_rng(seed)
        self.dtype, heads = dtype, len(STRENGTHS)
        starts = np.stack([initial_parameters(self.sizes, rng) for _ in STRENGTHS])
        self.starts = torch.as_tensor(starts, dtype=dtype)
        self.pool = torch.as_tensor(rng.normal(size=(40, self.sizes[0])), dtype=dtype)
        self.labels = torch.from_numpy(rng.integers(2, size=40))
        trajectories = heads if self.separate else 1
        self.own = torch.from_numpy(rng.integers(40, size=(trajectories, self.annotated)))
        groups = np.eye(2)[rng.integers(2, size=(trajectories, self.annotated))]
        self.membership = torch.as_tensor(groups, dtype=dtype)
        self.schedule = Schedule(
            n=40, hidden=self.sizes[1:-1], seed=seed, dataset="test", round=1, epochs=100,
            batch_size=max(self.batch, 1), own=self.annotated, dtype=dtype,
        )  # fmt: skip

    def cells(self, heads: Sequence[int]) -> CellWeights | None:
        if not self.annotated:
            return None
        chosen = list(heads) if self.separate else [0]
        return cell_weights(NOTIONS["equalized_odds"], self.labels[self.own][chosen], self.membership[chosen])

    def train_bank(self, steps: int, heads: Sequence[int] = (0, 1, 2)) -> HeadBank:
        bank = HeadBank(self.starts[list(heads)], self.sizes)
        self.advance(bank, 0, steps, heads)
        return bank

    def advance(self, bank: HeadBank, first: int, last: int, heads: Sequence[int] = (0, 1, 2)) -> None:
        strengths = torch.tensor(STRENGTHS, dtype=self.dtype)[list(heads)]
        cells = self.cells(heads)
        for number, step in enumerate(self.schedule):
            if not first <= number < last:
                continue
            rows = step.rows[: self.batch]
            labels = self.labels[rows].to(self.dtype)
            shared: Tensor | None = self.pool[rows]
            own: Tensor | None = None
            if self.annotated and self.separate:
                own = self.pool[self.own[list(heads)]]
            elif self.annotated:
                shared = torch.cat([self.pool[rows], self.pool[self.own[0]]])

            def slope(margin: Tensor, y: Tensor = labels) -> Tensor:
                if self.batch:
                    return pod_slope(margin, y, strengths, cells, "sigmoid")
                both = torch.cat([margin[:, :1], margin], 1)  # own rows only: no cross-entropy at all
                return pod_slope(both, y.new_zeros(1), strengths, cells, "sigmoid")[:, 1:]

            def logit_slope(logits: Tensor) -> Tensor:
                by_margin = slope(logits[..., 1] - logits[..., 0])
                return torch.stack([-by_margin, by_margin], dim=2)

            masks = step.masks if self.batch else [mask[len(step.rows) :] for mask in step.masks]
            rows_of_all = shared if self.batch else None
            if self.by_margin:
                bank.step_margins(rows_of_all, own, masks, slope, step.scale)
            else:
                bank.step(rows_of_all, own, masks, logit_slope, step.scale)

    def train_reference(self, head: int, steps: int) -> Tensor:
        trainer = reference.Trainer(self.starts[head], self.sizes, STRENGTHS[head])
        behind = None
        if self.annotated:
            own = self.own[head if self.separate else 0]
            behind = reference.Penalised(
                self.pool[own], self.labels[own], self.membership[head if self.separate else 0], relaxation="sigmoid"
            )
        for number, step in enumerate(self.schedule):
            if number == steps:
                break
            if self.batch:
                rows = step.rows
                trainer.step(self.pool[rows], self.labels[rows], step.masks, behind)
            else:
                self._penalty_alone(trainer, [mask[len(step.rows) :] for mask in step.masks], behind)
        return trainer.head.flat()

    @staticmethod
    def _penalty_alone(trainer: reference.Trainer, masks: Sequence[Tensor], behind: reference.Penalised | None) -> None:
        assert behind is not None
        logits = trainer.head(behind.embeddings, masks)
        loss = trainer.strength * reference.penalty(
            logits[:, 1] - logits[:, 0], behind.labels, behind.membership, "equalized_odds", "sigmoid"
        )
        trainer.optimiser.zero_grad()
        (loss + 0 * logits.sum()).backward()
        trainer.optimiser.step()


def gap(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max())


@pytest.mark.parametrize("by_margin", [False, True], ids=["by logit", "by margin"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"),
    [(torch.float64, 1, 1e-12), (torch.float64, 100, 1e-9), (torch.float32, 1, 1e-5)],
    ids=["float64, 1 step", "float64, 100 steps", "float32, 1 step"],
)
def test_the_bank_equals_the_autograd_reference(
    depth: int, rows: str, dtype: torch.dtype, steps: int, tolerance: float, by_margin: bool
) -> None:
    setting = Setting(depth, rows, dtype, by_margin=by_margin)
    bank = setting.train_bank(steps)
    assert gap(bank.parameters, setting.starts) > 1e-4 * (dtype == torch.float64)  # it did train
    for head in range(len(STRENGTHS)):
        assert gap(bank.parameters[head], setting.train_reference(head, steps)) < tolerance


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("dtype", "steps", "tolerance"),
    [(torch.float64, 100, 1e-9), (torch.float32, 1, 1e-5)],
    ids=["float64, 100 steps", "float32, 1 step"],
)
def test_a_head_alone_equals_itself_in_a_bank(
    depth: int, rows: str, dtype: torch.dtype, steps: int, tolerance: float
) -> None:
    setting = Setting(depth, rows, dtype)
    together = setting.train_bank(steps)
    reversed_ = setting.train_bank(steps, heads=(2, 1, 0))
    for head in range(len(STRENGTHS)):
        alone = setting.train_bank(steps, heads=(head,))
        assert gap(alone.parameters[0], together.parameters[head]) < tolerance
        assert gap(reversed_.parameters[2 - head], together.parameters[head]) < tolerance


def test_equal_heads_stay_equal_bit_for_bit() -> None:
    setting = Setting(3, "both", torch.float32)
    setting.starts[1] = setting.starts[0]
    setting.own[1], setting.membership[1] = setting.own[0], setting.membership[0]
    bank = HeadBank(setting.starts, setting.sizes)
    strengths, cells = torch.full((3,), 0.5), setting.cells((0, 1, 2))
    for step in list(setting.schedule)[:50]:
        y = setting.labels[step.rows].float()

        def slope(logits: Tensor, y: Tensor = y) -> Tensor:
            by_margin = pod_slope(logits[..., 1] - logits[..., 0], y, strengths, cells, "linear")
            return torch.stack([-by_margin, by_margin], dim=2)

        bank.step(setting.pool[step.rows], setting.pool[setting.own], step.masks, slope, step.scale)
    assert torch.equal(bank.parameters[0], bank.parameters[1])
    assert not torch.equal(bank.parameters[0], bank.parameters[2])


@pytest.mark.parametrize("depth", DEPTHS)
def test_prediction_has_no_dropout_and_equals_a_plain_network(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = Setting(depth, "shared rows only", torch.float64)
    bank = setting.train_bank(30)
    monkeypatch.setattr("apod.heads.bank._EVALUATION_ROWS", 7)  # blocks that do not divide the rows
    logits = bank.logits(setting.pool)
    assert torch.equal(logits, bank.logits(setting.pool))
    for head in range(len(STRENGTHS)):
        network = reference.Head(bank.parameters[head], setting.sizes).eval()
        expected = network(setting.pool).detach()
        assert gap(logits[head], expected) < 1e-12
        assert gap(bank.margins(setting.pool, [head])[0], expected[:, 1] - expected[:, 0]) < 1e-12
    assert gap(bank.logits(setting.pool, [2, 0]), logits[[2, 0]]) < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_restored_bank_goes_on_bit_for_bit(dtype: torch.dtype) -> None:
    setting = Setting(3, "both", dtype)
    straight = setting.train_bank(40)
    saved = setting.train_bank(25).state()
    assert saved["parameters"].dtype == (np.float32 if dtype == torch.float32 else np.float64)
    kept = {name: array.copy() for name, array in saved.items()}
    resumed = HeadBank(torch.zeros_like(setting.starts), setting.sizes)
    resumed.restore(saved)
    setting.advance(resumed, 25, 40)
    assert torch.equal(resumed.parameters, straight.parameters)
    for name, array in saved.items():
        assert np.array_equal(array, kept[name])  # a saved state is a copy, not a view
        assert np.array_equal(resumed.state()[name], straight.state()[name])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("correct_square_first", [False, True])
def test_adam_equals_torchs(dtype: torch.dtype, tolerance: float, correct_square_first: bool) -> None:
    rng = np.random.default_rng(0)
    start = torch.as_tensor(rng.normal(size=(2, 9)), dtype=dtype)
    mine, theirs = start.clone(), torch.nn.Parameter(start.clone())
    adam = Adam(mine, lr=0.01, correct_square_first=correct_square_first)
    optimiser = torch.optim.Adam([theirs], lr=0.01)
    for scale in np.logspace(-6, 3, 60):
        gradient = torch.as_tensor(rng.normal(scale=scale, size=(2, 9)), dtype=dtype)
        gradient[0, 0] = 0
        adam.step(mine, gradient)
        theirs.grad = gradient.clone()
        optimiser.step()
    assert gap(mine, theirs.detach()) < tolerance


def test_layers_are_views_of_the_flat_parameters_in_the_stated_order() -> None:
    flat = torch.arange(2 * 23.0).view(2, 23)
    first, second = layer_views(flat, (3, 4, 1))[0], layer_views(flat, (3, 4, 1))[1]
    assert first.weight[0].flatten().tolist() == list(range(12))
    assert first.bias[1].flatten().tolist() == [23 + i for i in range(12, 16)]
    assert second.weight.shape == (2, 4, 1)
    assert second.bias[0].item() == 20
    first.weight[0, 0, 0] = -1
    assert flat[0, 0] == -1


def test_initial_parameters_have_the_range_of_torchs_linear_layers() -> None:
    flat = initial_parameters((100, 50, 2), np.random.default_rng(0))
    assert flat.shape == (100 * 50 + 50 + 50 * 2 + 2,)
    first, last = flat[: 100 * 50 + 50], flat[100 * 50 + 50 :]
    assert 0.099 < np.abs(first).max() <= 0.1
    assert 0.12 < np.abs(last).max() <= 1 / np.sqrt(50)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        spread = float(torch.nn.Linear(100, 50).weight.detach().std())
    assert np.std(first) == pytest.approx(spread, rel=0.03)


def test_replicated_heads_are_independent_copies() -> None:
    bank = HeadBank.replicate(np.arange(6.0), 3, (2, 2), torch.float64)
    assert len(bank) == 3
    bank.parameters[0] += 1
    assert bank.parameters[1].tolist() == list(range(6))
    assert [w.shape for w in bank.weights(1)] == [(2, 2)]
    np.testing.assert_array_equal(bank.weights(1)[0], [[0, 1], [2, 3]])


def test_the_memory_of_a_closed_unit_ends_at_zero_instead_of_denormal_numbers() -> None:
    parameters, once = torch.zeros(1, 3), torch.tensor([[1e-3, -1e-12, 0.0]])
    adam = Adam(parameters)
    adam.step(parameters, once)
    smallest = torch.finfo(torch.float32).tiny
    for _ in range(2000):
        adam.step(parameters, torch.zeros_like(once))
        assert not ((adam.mean != 0) & (adam.mean.abs() < smallest)).any()
    assert (adam.mean == 0).all()  # 0.9^2000 of it is nothing a single can hold
    torch.testing.assert_close(adam.square[0, 0], torch.tensor(1e-9 * 0.999**2000), rtol=1e-3, atol=0)


def test_a_parameter_without_any_gradient_stays_and_its_square_is_never_zero() -> None:
    """The square root of zero takes many times as long as that of another number."""
    parameters = torch.tensor([[0.3, 0.3]])
    adam = Adam(parameters)
    for _ in range(200):
        adam.step(parameters, torch.tensor([[1e-3, 0.0]]))
        assert (adam.square > 0).all()
    assert parameters[0, 1] == torch.tensor(0.3)
    assert adam.square[0, 1].sqrt() + 1e-8 * 0.001**0.5 == torch.tensor(1e-8 * 0.001**0.5)  # lost in Adam's first scale
