"""What f_a reads: the inputs where it is told to, and everything that follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from apod.data import TableEncoder, blocks, make_example
from apod.errors import InputError
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import draw_round, pretrain_head
from apod.method.pool import Pool
from apod.method.prepare import prepare
from apod.method.proxy import inputs_for
from apod.method.settings import PRESETS
from support.training import paper_penalty, paper_training

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


def answered(pool: Pool, groups: np.ndarray, selector: str = "typical") -> Mitigation:
    training = paper_training(penalty=paper_penalty(over="pool"), hidden=(4,), epochs=1, proxy="laplace")
    mitigation = Mitigation(pool, Plan.shared([0.5], selector, 0.5), training)
    for row in range(12):
        mitigation.add_answer(0, row, int(groups[row]))
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
    rows = np.array([3, 1])
    np.testing.assert_array_equal(pool.likeness[rows], pool.embeddings.numpy()[rows])


def test_both_count_the_same_in_who_is_like_whom(people: tuple[Pool, np.ndarray]) -> None:
    pool, _ = people
    assert pool.inputs is not None
    squares = []
    for part in (pool.embeddings.numpy(), pool.inputs.numpy()):
        own = cdist(part, part, "sqeuclidean")
        squares.append(2 * own / own.mean())  # the mean square of a distance is twice that from the middle
    everybody = pool.likeness[np.arange(TRAIN)]
    np.testing.assert_allclose(cdist(everybody, everybody, "sqeuclidean"), sum(squares), rtol=1e-3, atol=1e-4)


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


def test_a_draw_of_a_large_pool_takes_the_inputs_along(
    people: tuple[Pool, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, groups = people
    mitigation = answered(pool, groups)
    monkeypatch.setattr(blocks, "LARGE", 100)
    monkeypatch.setattr(blocks, "ROUND_STEPS", 2)
    drawn = draw_round(pool, paper_training(hidden=(4,), batch_size=40), 3)
    assert drawn.rows is not None
    assert pool.inputs is not None
    assert len(drawn.rows) == 80
    assert torch.equal(drawn.pool.seen, pool.inputs[torch.from_numpy(drawn.rows)])
    assert torch.equal(drawn.pool.embeddings, pool.embeddings[torch.from_numpy(drawn.rows)])
    seen = mitigation.membership(pool.seen)[0, torch.from_numpy(drawn.rows)]
    told = [(place, row) for place, row in enumerate(drawn.rows.tolist()) if row < 12]
    for place, row in told:
        seen[place] = torch.eye(2)[groups[row]]
    torch.testing.assert_close(mitigation._pool_membership([0, 0], drawn)[0], seen)
    assert told


@pytest.mark.parametrize("selector", ["typical", "apod"])
def test_a_large_pool_with_inputs_is_scored_as_a_small_one(
    people: tuple[Pool, np.ndarray], monkeypatch: pytest.MonkeyPatch, selector: str
) -> None:
    pool, groups = people
    mitigation = answered(pool, groups, selector)
    expected, asked = mitigation.views()[0], [question.row for question in mitigation.ask(3)]
    monkeypatch.setattr(blocks, "LARGE", 100)
    view = mitigation.views()[0]
    np.testing.assert_allclose(view.positive, expected.positive, atol=1e-6)
    np.testing.assert_allclose(view.membership, expected.membership, atol=1e-6)
    assert [question.row for question in mitigation.ask(3)] == asked


def test_a_pool_has_inputs_of_both_parts_or_of_none(people: tuple[Pool, np.ndarray]) -> None:
    with pytest.raises(InputError, match="both parts or of none"):
        replace(people[0], validation_inputs=None)


def test_a_prepared_table_hands_its_encoded_columns_over_in_all_parts() -> None:
    data = make_example(300)
    prepared = prepare(data, replace(PRESETS["heads"], body_epochs=1), 0)
    encoder = TableEncoder().fit(data.features.iloc[prepared.split.train])
    encoded = torch.from_numpy(encoder.transform(data.features))
    pool = prepared.pool
    for part, rows in (
        (pool.seen, prepared.split.train),
        (pool.validation_seen, prepared.split.validation),
        (prepared.seen_of_test, prepared.split.test),
    ):
        assert torch.equal(part, encoded[rows])
    paper = prepare(data, replace(PRESETS["paper"], body_epochs=1), 0)
    assert paper.pool.inputs is None
    assert torch.equal(paper.seen_of_test, paper.test)
    given = prepare(data, replace(PRESETS["heads"], body="precomputed"), 0)
    assert given.pool.inputs is None


def test_a_table_too_wide_for_a_posterior_or_too_large_leaves_the_embeddings() -> None:
    encoded = np.ones((2, 1023), dtype=np.float32)
    assert inputs_for("inputs", encoded, 2) is encoded
    assert inputs_for("embeddings", encoded, 2) is None
    assert inputs_for("inputs", np.ones((2, 1024), dtype=np.float32), 2) is None
    assert inputs_for("inputs", encoded, 3) is None
    assert inputs_for("inputs", encoded[:, :340], 3) is not None  # 341 weights for each of three groups
    assert inputs_for("inputs", encoded, 2, most_cells=2 * 1023 - 1) is None


def test_few_people_pretrain_the_head_for_more_epochs_and_many_for_those_asked(
    people: tuple[Pool, np.ndarray],
) -> None:
    pool, _ = people
    at_least = paper_training(hidden=(4,), epochs=3, batch_size=64, head_steps=30)  # four steps an epoch
    np.testing.assert_array_equal(
        pretrain_head(pool, at_least), pretrain_head(pool, replace(at_least, epochs=8, head_steps=0))
    )
    enough = replace(at_least, epochs=9)
    np.testing.assert_array_equal(pretrain_head(pool, enough), pretrain_head(pool, replace(enough, head_steps=0)))
