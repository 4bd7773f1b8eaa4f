"""The body: frozen, row-wise embeddings; pre-training that does what it says, by seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from apod.errors import CheckpointError, InputError
from apod.models.contrastive import Adam, cross_entropy, nt_xent, shuffled_batches
from apod.models.perceptron import (
    Body,
    EmbeddingBody,
    ModuleBody,
    PerceptronBody,
    corrupted_sources,
    pretrain_body,
)
from apod.randomness import generator


def clustered_table(n: int, seed: int = 0) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Rows of four hidden kinds; six numbers and two one-hot columns follow the kind."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, n)
    centres = rng.normal(size=(4, 6)) * 1.5
    numbers = centres[kind] + rng.normal(size=(n, 6))
    first = np.eye(4)[np.where(rng.random(n) < 0.8, kind, rng.integers(0, 4, n))]
    second = np.eye(5)[np.where(rng.random(n) < 0.7, kind, rng.integers(0, 5, n))]
    X = np.hstack([numbers, first, second]).astype(np.float32)
    return X, [*range(6), *[6] * 4, *[7] * 5], kind


def random_perceptron(d: int, width: int) -> PerceptronBody:
    rng = np.random.default_rng(5)
    return PerceptronBody(rng.normal(size=(width, d)).astype(np.float32), rng.normal(size=width).astype(np.float32))


def all_bodies(d: int) -> list[Body]:
    torch_module = torch.nn.Sequential(torch.nn.Linear(d, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.5))
    return [random_perceptron(d, 7), ModuleBody(torch_module), EmbeddingBody(d)]


# --- what every body promises ---


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


def test_perceptron_is_a_linear_layer_with_relu() -> None:
    body = random_perceptron(6, 7)
    X = np.random.default_rng(0).normal(size=(40, 6))
    expected = np.maximum(X @ body.weight.astype(np.float64).T + body.bias, 0)
    np.testing.assert_allclose(body.embed(X), expected, atol=1e-5)


def test_perceptron_weights_cannot_be_changed_afterwards() -> None:
    weight, bias = np.ones((2, 3), dtype=np.float32), np.zeros(2, dtype=np.float32)
    body = PerceptronBody(weight, bias)
    weight[:] = 7
    body.state()["weight"][:] = 9
    assert (body.embed(np.ones((1, 3))) == 3).all()
    with pytest.raises(ValueError, match="read-only"):
        body.weight[0, 0] = 5


def test_perceptron_survives_saving() -> None:
    body = random_perceptron(6, 7)
    again = PerceptronBody.from_state(body.state())
    X = np.random.default_rng(0).normal(size=(40, 6))
    assert np.array_equal(body.embed(X), again.embed(X))


@pytest.mark.parametrize(
    "state", [{"weight": np.ones((2, 3))}, {"weight": np.ones((2, 3)), "bias": np.ones(3)}, {"w": 1, "b": 2}]
)
def test_a_damaged_perceptron_state_is_refused(state: dict[str, np.ndarray]) -> None:
    with pytest.raises(CheckpointError):
        PerceptronBody.from_state(state)


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


# --- losses, optimiser, batches ---


def brute_force_nt_xent(Z: np.ndarray, t: float) -> float:
    """The loss as its definition reads: one softmax per view over all other views."""
    half = len(Z) // 2
    losses = []
    for i, z in enumerate(Z):
        cosine = [z @ other / np.linalg.norm(z) / np.linalg.norm(other) for other in Z]
        partner = i + half if i < half else i - half
        others = sum(np.exp(cosine[j] / t) for j in range(len(Z)) if j != i)
        losses.append(-np.log(np.exp(cosine[partner] / t) / others))
    return float(np.mean(losses))


def finite_differences(value: object, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (value(up) - value(down)) / (2 * step)  # type: ignore[operator]
    return gradient


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 5), st.sampled_from([0.1, 0.5, 1.0, 3.0]), st.integers(0, 10**6))
def test_nt_xent_and_its_gradient_are_those_of_the_definition(half: int, width: int, t: float, seed: int) -> None:
    Z = np.random.default_rng(seed).normal(size=(2 * half, width)) * 3
    loss, gradient = nt_xent(torch.tensor(Z), t)
    assert float(loss) == pytest.approx(brute_force_nt_xent(Z, t), rel=1e-9, abs=1e-9)
    expected = finite_differences(lambda z: brute_force_nt_xent(z, t), Z)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=2e-6 * max(1, np.abs(expected).max()))


def test_nt_xent_of_a_zero_projection_is_finite() -> None:
    Z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    Z[2] = 0
    loss, gradient = nt_xent(Z)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient[[0, 1, 3, 4, 5]]).all()


def test_cross_entropy_gradient_by_finite_differences() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(7, 3)), rng.integers(0, 3, 7)

    def value(z: np.ndarray) -> float:
        return float(np.mean([np.log(np.exp(row).sum()) - row[y] for row, y in zip(z, labels, strict=True)]))

    loss, gradient = cross_entropy(torch.tensor(logits), torch.tensor(labels))
    assert float(loss) == pytest.approx(value(logits))
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, logits), atol=1e-8)


def test_adam_takes_torchs_steps() -> None:
    rng = np.random.default_rng(0)
    start = [torch.tensor(rng.normal(size=shape)) for shape in ((3, 4), (4,))]
    theirs = [p.clone().requires_grad_() for p in start]
    reference, ours = torch.optim.Adam(theirs, lr=0.01), Adam(start, lr=0.01)
    for _ in range(20):
        gradients = [torch.tensor(rng.normal(size=p.shape)) for p in start]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        reference.step()
        ours.step(gradients)
    for mine, parameter in zip(ours.parameters, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), parameter.detach().numpy(), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 40), st.integers(2, 15), st.integers(0, 100))
def test_an_epoch_shows_every_row_once_but_for_a_lonely_last_one(n: int, size: int, seed: int) -> None:
    batches = list(shuffled_batches(np.random.default_rng(seed), n, size, least=2))
    rows = np.concatenate([*batches, np.zeros(0, dtype=np.int64)])
    assert len(np.unique(rows)) == len(rows) == (n - 1 if n % size == 1 else n)
    assert all(2 <= len(batch) <= size for batch in batches)


# --- corrupted views ---


def test_corruption_takes_other_rows_at_the_given_rate() -> None:
    n, columns = 50, 8
    rows = np.tile(np.arange(n), 200)
    sources = corrupted_sources(np.random.default_rng(0), rows, n, columns, rate=0.6)
    swapped = sources != rows[:, None]
    error = np.sqrt(0.6 * 0.4 / swapped.size)
    assert abs(swapped.mean() - 0.6) < 4 * error, "a donor is never the row itself, so swaps are seen at the rate"
    assert sources.min() >= 0
    assert sources.max() < n
    # Columns are swapped independently of each other, and donors are spread evenly.
    assert np.abs(np.corrcoef(swapped.T) - np.eye(columns)).max() < 0.05
    donors = np.bincount(sources[swapped], minlength=n)
    assert abs(donors / donors.sum() - 1 / n).max() < 5 * np.sqrt(1 / n / donors.sum())


class RecordingPerceptronInput(Exception):
    """Carries the first batch out of a training step."""


def first_views(X: np.ndarray, blocks: list[int], batch_size: int, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The first two-view batch the training sees, taken where the step receives it."""
    import apod.models.perceptron

    def stop(adam: Adam, x: torch.Tensor, objective: object) -> torch.Tensor:
        raise RecordingPerceptronInput(x)

    monkeypatch.setattr(apod.models.perceptron, "_two_layer_step", stop)
    with pytest.raises(RecordingPerceptronInput) as caught:
        pretrain_body(X, width=4, blocks=blocks, batch_size=batch_size, epochs=1, seed=0, name="views")
    return np.asarray(caught.value.args[0])


def test_views_hold_only_values_of_their_column_and_one_hot_stays_one_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, blocks, _ = clustered_table(300)
    shuffle = np.random.default_rng(3).permutation(X.shape[1])  # a block's columns need not stand side by side
    X, block = X[:, shuffle], np.array(blocks)[shuffle]
    views = first_views(X, list(block), 256, monkeypatch)
    assert views.shape == (512, X.shape[1])
    for column in range(X.shape[1]):
        assert np.isin(views[:, column], X[:, column]).all()
    for categorical in (6, 7):
        assert (views[:, block == categorical].sum(axis=1) == 1).all()
    # The numbers are all different, so a row's own columns can be counted: 40 % of them, in both views.
    batch = generator(0, "body", "views", "contrastive", "epoch", 0).permutation(300)[:256]
    kept = views[:, block < 6] == np.tile(X[batch][:, block < 6], (2, 1))
    assert abs(kept.mean() - 0.4) < 4 * np.sqrt(0.4 * 0.6 / kept.size)
    assert (views[:256] != views[256:]).any(axis=1).mean() > 0.95, "the two views are drawn independently"


# --- pre-training ---


@pytest.mark.parametrize("method", ["contrastive", "cross_entropy"])
def test_same_seed_same_bits_and_torchs_own_generator_is_left_alone(method: str) -> None:
    X, blocks, kind = clustered_table(400)
    before = torch.get_rng_state()

    def train(seed: int, name: str = "t") -> PerceptronBody:
        return pretrain_body(X, width=8, blocks=blocks, labels=kind, method=method, epochs=3, seed=seed, name=name)

    first = train(0)
    torch.manual_seed(99)
    again = train(0)
    torch.set_rng_state(before)
    assert np.array_equal(first.weight, again.weight)
    assert np.array_equal(first.bias, again.bias)
    assert first.history == again.history
    assert not np.array_equal(first.weight, train(1).weight)
    assert not np.array_equal(first.weight, train(0, "u").weight)


def test_contrastive_pretraining_reads_no_label() -> None:
    X, blocks, kind = clustered_table(300)
    with_labels = pretrain_body(X, width=8, blocks=blocks, labels=kind, epochs=2, seed=0, name="t")
    without = pretrain_body(X, width=8, blocks=blocks, epochs=2, seed=0, name="t")
    assert np.array_equal(with_labels.weight, without.weight)


def test_a_pretraining_step_is_the_autograd_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step of the whole network, against torch's layers, autograd and Adam."""
    X, blocks, _ = clustered_table(200)
    trained = pretrain_body(X, width=8, blocks=blocks, batch_size=256, epochs=1, seed=0, name="views")
    views = torch.tensor(first_views(X, blocks, 256, monkeypatch))
    rng = generator(0, "body", "views", "contrastive", "start")
    layers = []
    for inputs, outputs in ((X.shape[1], 8), (8, 8)):
        reach = 1 / np.sqrt(inputs)
        layer = torch.nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(rng.uniform(-reach, reach, (outputs, inputs))))
            layer.bias.copy_(torch.tensor(rng.uniform(-reach, reach, outputs)))
        layers.append(layer)
    network = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1]).double()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    unit = torch.nn.functional.normalize(network(views.double()), dim=1)
    similarity = (unit @ unit.T).masked_fill(torch.eye(400, dtype=torch.bool), -torch.inf)
    loss = torch.nn.functional.cross_entropy(similarity, torch.arange(400).roll(200))
    loss.backward()
    optimiser.step()
    assert trained.history == (pytest.approx(float(loss.detach()), abs=1e-5),)
    np.testing.assert_allclose(trained.weight, layers[0].weight.detach().numpy(), atol=2e-5)
    np.testing.assert_allclose(trained.bias, layers[0].bias.detach().numpy(), atol=2e-5)


def probe_accuracy(body: PerceptronBody, X: np.ndarray, kind: np.ndarray) -> float:
    """A logistic regression on the embeddings of few labelled rows, tried on the rest."""
    H = body.embed(X)
    probe = LogisticRegression(C=1.0, max_iter=2000).fit(H[:60], kind[:60])
    return float(probe.score(H[60:], kind[60:]))


def test_contrastive_pretraining_makes_an_embedding_that_separates_the_kinds() -> None:
    X, blocks, kind = clustered_table(2000)
    noise = np.random.default_rng(8).normal(size=(2000, 20)).astype(np.float32)  # columns that say nothing
    X, blocks = np.hstack([X, noise]), [*blocks, *range(8, 28)]
    trained = pretrain_body(X, width=8, blocks=blocks, epochs=60, seed=0, name="t")
    start = generator(0, "body", "t", "contrastive", "start")
    reach = 1 / np.sqrt(X.shape[1])
    untrained = PerceptronBody(start.uniform(-reach, reach, (8, X.shape[1])), start.uniform(-reach, reach, 8))
    assert trained.history[-1] < trained.history[0] - 0.1
    assert probe_accuracy(trained, X, kind) > probe_accuracy(untrained, X, kind) + 0.1


def test_cross_entropy_pretraining_learns_the_labels() -> None:
    X, blocks, kind = clustered_table(1000)
    body = pretrain_body(
        X, width=16, blocks=blocks, labels=kind, method="cross_entropy", epochs=40, lr=1e-2, seed=0, name="t"
    )
    assert body.history[0] > np.log(4) * 0.7
    assert body.history[-1] < 0.35
    assert probe_accuracy(body, X, kind) > 0.9


def test_progress_is_reported_after_every_epoch() -> None:
    X, blocks, _ = clustered_table(50)
    seen: list[tuple[int, int]] = []
    pretrain_body(X, width=4, blocks=blocks, epochs=3, seed=0, name="t", progress=lambda a, b, _: seen.append((a, b)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_torch_has_its_threads_back_afterwards() -> None:
    X, blocks, _ = clustered_table(50)
    before = torch.get_num_threads()
    pretrain_body(X, width=4, blocks=blocks, epochs=1, seed=0, name="t")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": [0, 1]}, "one raw column per encoded one"),
        ({"method": "cross_entropy"}, "needs labels"),
        ({"method": "cross_entropy", "labels": [1] * 50}, "1 kind"),
        ({"method": "cross_entropy", "labels": [0, 1]}, "2 labels"),
        ({"method": "autoencoder"}, "no pre-training 'autoencoder'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 1}, "at least two"),
        ({"X": np.zeros((1, 15))}, "at least two"),
        ({"lr": float("nan")}, "lr is nan"),
    ],
)
def test_unusable_settings_are_refused(change: dict[str, object], message: str) -> None:
    X, blocks, _ = clustered_table(50)
    arguments = {"X": X, "width": 4, "blocks": blocks, "seed": 0, "name": "t", "epochs": 1} | change
    with pytest.raises(InputError, match=message):
        pretrain_body(**arguments)
