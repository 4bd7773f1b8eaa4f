"""The perceptron body: a linear layer with ReLU, pre-trained as said, by seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from apod.errors import CheckpointError, InputError
from apod.models.perceptron import CorruptedViews, PerceptronBody, corrupted_sources, pretrain_body
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


def test_views_hold_only_values_of_their_column_and_one_hot_stays_one_hot() -> None:
    X, blocks, _ = clustered_table(300)
    shuffle = np.random.default_rng(3).permutation(X.shape[1])  # a block's columns need not stand side by side
    X, block = X[:, shuffle], np.array(blocks)[shuffle]
    rng = np.random.default_rng(4)
    batch = rng.permutation(300)[:256]
    views = CorruptedViews(X, block).pair(rng, batch).numpy()
    assert views.shape == (512, X.shape[1])
    for column in range(X.shape[1]):
        assert np.isin(views[:, column], X[:, column]).all()
    for categorical in (6, 7):
        assert (views[:, block == categorical].sum(axis=1) == 1).all()
    # The numbers are all different, so a row's own columns can be counted: 40 % of them, in both views.
    kept = views[:, block < 6] == np.tile(X[batch][:, block < 6], (2, 1))
    assert abs(kept.mean() - 0.4) < 4 * np.sqrt(0.4 * 0.6 / kept.size)
    assert (views[:256] != views[256:]).any(axis=1).mean() > 0.95, "the two views are drawn independently"


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


def test_a_pretraining_step_is_the_autograd_step() -> None:
    """The first step of the whole network, against torch's layers, autograd and Adam."""
    X, blocks, _ = clustered_table(200)
    trained = pretrain_body(X, width=8, blocks=blocks, batch_size=256, epochs=1, seed=0, name="views")
    epoch = generator(0, "body", "views", "contrastive", "epoch", 0)
    views = CorruptedViews(X, blocks).pair(epoch, epoch.permutation(200))
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
