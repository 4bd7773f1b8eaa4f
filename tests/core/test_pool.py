"""What f_a reads: the inputs where it is told to, and everything that follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from apod import large
from apod import pool as pools
from apod.data import TableEncoder, make_example
from apod.mitigation import Mitigation, Plan
from apod.penalty import Penalty
from apod.pod import Training, pretrain_head
from apod.pool import MOST_INPUTS, Pool, inputs_for
from apod.prepare import prepare
from apod.settings import PRESETS

WIDTH, COLUMNS, TRAIN = 5, 3, 200


@pytest.fixture
def people() -> tuple[Pool, np.ndarray]:
    """Embeddings are noise; the first input column tells the group."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, TRAIN + 80)
    inputs = rng.standard_normal((len(groups), COLUMNS)) * [1, 10, 0.1] + 3 * np.outer(groups, [1, 0, 0])
    embeddings = rng.standard_normal((len(groups), WIDTH))
    labels = torch.from_numpy(rng.integers(0, 2, len(groups)))
    read, told = (torch.from_numpy(part.astype(np.float32)) for part in (inputs, embeddings))
    pool = Pool(
        "people", 0, told[:TRAIN], labels[:TRAIN], told[TRAIN:], labels[TRAIN:], 2,
        inputs=read[:TRAIN], validation_inputs=read[TRAIN:],
    )  # fmt: skip
    return pool, groups


def answered(pool: Pool, groups: np.ndarray, selector: str = "typical", over: str = "pool") -> Mitigation:
    training = Training(Penalty(over=over), (4,), epochs=1, proxy="laplace")
    mitigation = Mitigation(pool, Plan.shared([0.5], selector, 0.5), training)
    for row in range(12):
        mitigation.tell(0, row, int(groups[row]))
    mitigation.refit()
    return mitigation


def test_the_proxy_is_a_logistic_regression_on_the_standardised_inputs(people: tuple[Pool, np.ndarray]) -> None:
    pool, groups = people
    mitigation = answered(pool, groups)
    assert pool.inputs is not None
    scaler = StandardScaler().fit(pool.inputs.double().numpy())
    model = LogisticRegression(C=3 / COLUMNS, max_iter=1000)
    model.fit(scaler.transform(pool.inputs.double().numpy())[:12], groups[:12])
    for seen in (pool.seen, pool.validation_seen):
        expected = model.predict_proba(scaler.transform(seen.double().numpy()))
        np.testing.assert_allclose(mitigation.membership(seen)[0].numpy(), expected, atol=1e-4)
    right = mitigation.membership(pool.validation_seen)[0].argmax(dim=1).numpy() == groups[TRAIN:]
    assert right.mean() > 0.85  # the embeddings alone would be a coin toss


def test_without_inputs_everything_is_read_from_the_embeddings(people: tuple[Pool, np.ndarray]) -> None:
    pool = replace(people[0], inputs=None, validation_inputs=None)
    assert pool.seen is pool.embeddings
    assert pool.validation_seen is pool.validation
    assert np.shares_memory(pool.alike, pool.embeddings.numpy())


def test_both_count_the_same_in_who_is_like_whom(people: tuple[Pool, np.ndarray]) -> None:
    pool, _ = people
    assert pool.inputs is not None
    squares = []
    for part in (pool.embeddings.numpy(), pool.inputs.numpy()):
        own = cdist(part, part, "sqeuclidean")
        squares.append(2 * own / own.mean())  # the mean square of a distance is twice that from the middle
    np.testing.assert_allclose(cdist(pool.alike, pool.alike, "sqeuclidean"), sum(squares), rtol=1e-3, atol=1e-4)


def test_rows_of_one_part_stand_for_the_other(people: tuple[Pool, np.ndarray]) -> None:
    pool, _ = people
    assert pool.inputs is not None
    assert pool.validation_inputs is not None
    rows = torch.tensor([5, 2, 9])
    judged = pool.judged_on(rows)
    assert torch.equal(judged.validation_seen, pool.inputs[rows])
    assert torch.equal(judged.validation, pool.embeddings[rows])
    assert torch.equal(judged.validation_labels, pool.labels[rows])
    third = pool.every(3)
    assert torch.equal(third.validation_seen, pool.validation_inputs[::3])
    assert torch.equal(third.validation, pool.validation[::3])
    assert torch.equal(third.validation_labels, pool.validation_labels[::3])


@pytest.mark.parametrize("selector", ["typical", "apod"])
@pytest.mark.parametrize("over", ["pool", "annotated"])
def test_a_large_pool_with_inputs_is_scored_and_trained_as_a_small_one(
    people: tuple[Pool, np.ndarray], monkeypatch: pytest.MonkeyPatch, selector: str, over: str
) -> None:
    pool, groups = people
    whole = answered(pool, groups, selector, over)
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(large, "ROUND_STEPS", 1)  # of 256 rows: all of them, once, as an epoch
    swept = answered(pool, groups, selector, over)
    torch.testing.assert_close(swept.membership(pool.seen), whole.membership(pool.seen))
    monkeypatch.setattr(large, "LARGE", 10**9)
    swept.heads.parameters.copy_(whole.heads.parameters)  # steps differ in their draws; scores must not
    expected = whole.views()[0]
    monkeypatch.setattr(large, "LARGE", 100)
    view = swept.views()[0]
    np.testing.assert_allclose(view.positive, expected.positive, atol=1e-6)
    np.testing.assert_allclose(view.membership, expected.membership, atol=1e-6)
    assert [question.row for question in swept.ask(3)] == [question.row for question in whole.ask(3)]


def test_a_prepared_table_hands_its_encoded_columns_over_in_all_parts() -> None:
    data = make_example(300)
    prepared = prepare(data, replace(PRESETS["default"], body_epochs=1), 0)
    encoder = TableEncoder().fit(data.features.iloc[prepared.split.train])
    encoded = torch.from_numpy(encoder.transform(data.features))
    pool = prepared.pool
    for part, rows in (
        (pool.seen, prepared.split.train),
        (pool.validation_seen, prepared.split.validation),
        (prepared.test_seen, prepared.split.test),
    ):
        assert torch.equal(part, encoded[rows])
    paper = prepare(data, replace(PRESETS["paper"], body_epochs=1), 0)
    assert paper.pool.inputs is None
    assert torch.equal(paper.test_seen, paper.test)
    given = prepare(data, replace(PRESETS["default"], body="precomputed"), 0)
    assert given.pool.inputs is None


def test_a_table_too_wide_for_a_posterior_or_too_large_leaves_the_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inputs_for("inputs", np.zeros((2, MOST_INPUTS + 1), dtype=np.float32)) is None
    assert inputs_for("embeddings", np.zeros((2, 3), dtype=np.float32)) is None
    encoded = np.ones((2, MOST_INPUTS), dtype=np.float32)
    assert inputs_for("inputs", encoded) is encoded
    monkeypatch.setattr(pools, "MOST_CELLS", 2 * MOST_INPUTS - 1)
    assert inputs_for("inputs", encoded) is None


def test_few_people_pretrain_the_head_for_more_epochs_and_many_for_those_asked(
    people: tuple[Pool, np.ndarray],
) -> None:
    pool, _ = people
    at_least = Training(hidden=(4,), epochs=3, batch_size=64, head_steps=30)  # four steps an epoch
    np.testing.assert_array_equal(
        pretrain_head(pool, at_least), pretrain_head(pool, replace(at_least, epochs=8, head_steps=0))
    )
    enough = replace(at_least, epochs=9)
    np.testing.assert_array_equal(pretrain_head(pool, enough), pretrain_head(pool, replace(enough, head_steps=0)))
