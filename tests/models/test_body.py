"""Every body is frozen and row-wise; a user's module and ready embeddings are taken as they are, or refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from apod.errors import InputError
from apod.models.body import Body, EmbeddingBody, ModuleBody
from apod.models.perceptron import PerceptronBody


def random_perceptron(d: int, width: int) -> PerceptronBody:
    rng = np.random.default_rng(5)
    return PerceptronBody(rng.normal(size=(width, d)).astype(np.float32), rng.normal(size=width).astype(np.float32))


def all_bodies(d: int) -> list[Body]:
    torch_module = torch.nn.Sequential(torch.nn.Linear(d, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.5))
    return [random_perceptron(d, 7), ModuleBody(torch_module), EmbeddingBody(d)]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_row_is_embedded_the_same_whatever_stands_beside_it(kind: int) -> None:
    body = all_bodies(6)[kind]
    X = np.random.default_rng(0).normal(size=(2500, 6)).astype(np.float32)
    together = body.embed(X)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_allclose(body.embed(X[order]), together[order], atol=1e-6)
    for row in (0, 1023, 1024, 2499):
        np.testing.assert_allclose(body.embed(X[row : row + 1])[0], together[row], atol=1e-6)
    assert together.dtype == np.float32
    assert together.shape == (2500, body.width)
    assert body.embed(X[:0]).shape == (0, body.width)
    assert isinstance(body, Body)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_embedding_twice_gives_the_same_bits(kind: int) -> None:
    body = all_bodies(6)[kind]
    X = np.random.default_rng(0).normal(size=(300, 6))
    assert np.array_equal(body.embed(X), body.embed(X))


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full((3, 6), np.nan), "NaN"),
        (np.full((3, 6), 1e300), "beyond float32"),
        (np.zeros(6), "1 dimension"),
        (np.full((3, 6), "tall", dtype=object), "not a number"),
    ],
)
def test_unusable_rows_are_refused(kind: int, bad: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        all_bodies(6)[kind].embed(bad)


def test_read_only_rows_are_taken() -> None:
    X = np.ones((3, 6), dtype=np.float32)
    X.flags.writeable = False
    for body in all_bodies(6):
        assert len(body.embed(X)) == 3


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match="5 columns and the body takes 6"):
        random_perceptron(6, 7).embed(np.zeros((2, 5)))
    with pytest.raises(InputError, match="5 columns and the body takes 6"):
        EmbeddingBody(6).embed(np.zeros((2, 5)))


def test_training_the_users_module_further_leaves_the_body_as_it_was() -> None:
    module = torch.nn.Linear(3, 2)
    body = ModuleBody(module)
    before = body.embed(np.ones((1, 3)))
    with torch.no_grad():
        module.weight += 1
    assert np.array_equal(body.embed(np.ones((1, 3))), before)
    assert module.weight.requires_grad, "the user's own module stays trainable"


class Returns(torch.nn.Module):
    def __init__(self, out: object) -> None:
        super().__init__()
        self.out = out

    def forward(self, x: torch.Tensor) -> object:
        return self.out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (torch.zeros(2), "one embedding per row"),
        (torch.zeros(2, 3, 4), "one embedding per row"),
        (torch.zeros(5, 3), "one embedding per row"),
        ((torch.zeros(2, 3),), "returned tuple"),
        (torch.full((2, 3), torch.nan), "NaN"),
        (torch.zeros(2, 4), "4 columns, not the 3"),
    ],
)
def test_a_module_with_unusable_output_is_refused(out: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModuleBody(Returns(out), width=3).embed(np.zeros((2, 3)))


def test_a_modules_width_is_known_once_given_or_used() -> None:
    body = ModuleBody(torch.nn.Linear(3, 2))
    with pytest.raises(InputError, match="not known yet"):
        _ = body.width
    body.embed(np.zeros((1, 3)))
    assert body.width == ModuleBody(torch.nn.Linear(3, 2), width=2).width == 2
