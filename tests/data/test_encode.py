"""The encoder against scikit-learn's, and the tables it takes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from apod.data import TableEncoder, as_frame
from apod.data.dataset import is_number
from apod.errors import CheckpointError, InputError

TABLE = pd.DataFrame(
    {
        "age": [20, 30, 40, 70],
        "job": ["clerk", None, "baker", "clerk"],
        "member": [True, False, True, True],
        "region": pd.Categorical([3, 1, 3, 1], categories=[1, 2, 3]),
    }
)


def test_equals_scikit_learns_scaler_and_one_hot_encoder() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.normal(5, 3, 200),
            "b": rng.choice(list("xyz"), 200),
            "c": rng.pareto(1, 200),
            "d": rng.choice(["u", "v"], 200),
        }
    )
    oracle = ColumnTransformer(
        [("s", StandardScaler(), ["a"]), ("o", OneHotEncoder(sparse_output=False), ["b"]),
         ("t", StandardScaler(), ["c"]), ("p", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["d"])]
    ).fit(frame[:150])  # fmt: skip
    frame.loc[199, "d"] = "unseen"
    encoder = TableEncoder().fit(frame[:150])
    np.testing.assert_allclose(encoder.transform(frame), oracle.transform(frame), rtol=1e-5, atol=1e-5)
    assert encoder.feature_names_ == ("a", "b=x", "b=y", "b=z", "c", "d=u", "d=v")
    assert encoder.blocks_.tolist() == [0, 1, 1, 1, 2, 3, 3]
    assert encoder.n_features_in_ == 4


def test_missing_numbers_are_the_median_of_the_fitted_rows_and_a_column_says_where() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(5, 3, (200, 3))
    values[rng.random((200, 3)) < 0.2] = np.nan
    values[:150, 2] = rng.normal(size=150)  # no gap among the rows of fit: no column of its own
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(values[:150])
    filled = imputer.transform(values)  # 3 numbers, then the flags of the first 2
    scaled = StandardScaler().fit(filled[:150, :3]).transform(filled[:, :3])
    expected = np.stack([scaled[:, 0], filled[:, 3], scaled[:, 1], filled[:, 4], scaled[:, 2]], axis=1)
    encoder = TableEncoder().fit(values[:150])
    np.testing.assert_allclose(encoder.transform(values), expected, rtol=1e-5, atol=1e-5)
    assert encoder.feature_names_ == ("x0", "x0=missing", "x1", "x1=missing", "x2")
    assert encoder.blocks_.tolist() == [0, 0, 1, 1, 2]
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert np.array_equal(again.transform(values), encoder.transform(values))
    with pytest.raises(InputError, match=r"'x0' contains NaN .* first in row"):
        TableEncoder(gaps=False).fit(values)


def test_a_column_that_is_empty_in_the_fitted_rows_is_flagged_and_zero() -> None:
    column = np.array([[np.nan], [np.nan], [7.0]])
    assert TableEncoder().fit(column[:2]).transform(column).tolist() == [[0, 1], [0, 1], [7, 0]]


def test_an_encoder_saved_before_gaps_were_welcome_is_read_and_refuses_them() -> None:
    saved = {"format": 1, "max_categories": 5, "columns": [{"name": "a", "mean": 1.0, "scale": 2.0}]}
    encoder = TableEncoder.from_dict(saved)
    assert encoder.transform(pd.DataFrame({"a": [5.0]})).tolist() == [[2]]
    with pytest.raises(InputError, match="'a' contains NaN"):
        encoder.transform(pd.DataFrame({"a": [np.nan]}))


def test_missing_categories_have_their_own_column_and_unused_ones_none() -> None:
    encoder = TableEncoder().fit(TABLE)
    assert encoder.feature_names_ == ("age", "job=baker", "job=clerk", "job=missing", "member", "region=1", "region=3")
    assert encoder.transform(TABLE)[:, 1:4].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert encoder.transform(TABLE).dtype == np.float32


def test_categories_only_other_rows_have_are_unknown() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b", "z"])})
    encoder = TableEncoder().fit(frame[:2])  # the dtype still lists z
    assert encoder.feature_names_ == ("c=a", "c=b")
    assert encoder.transform(frame).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_only_the_most_frequent_categories_get_a_column() -> None:
    frame = pd.DataFrame({"c": ["a"] * 3 + ["b"] * 2 + ["d"] * 2 + ["e"]})
    encoder = TableEncoder(max_categories=2).fit(frame)
    assert encoder.feature_names_ == ("c=a", "c=b")
    assert encoder.transform(frame)[-1].tolist() == [0, 0]


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-300, 1e300, -123456.789])
def test_a_constant_column_becomes_zero(value: float) -> None:
    column = np.full((7, 1), value)
    assert (TableEncoder().fit_transform(column) == 0).all()


@given(arrays(np.float64, (6, 3), elements=st.floats(-1e150, 1e150)))
@settings(max_examples=200, deadline=None)
def test_scaled_columns_have_mean_0_and_deviation_1_or_are_constant(values: np.ndarray) -> None:
    encoded = TableEncoder().fit_transform(values).astype(np.float64)
    assert np.isfinite(encoded).all()
    for column, original in zip(encoded.T, values.T, strict=True):
        spread = np.ptp(original / max(np.abs(original).max(), 1e-300))
        if spread > 1e-6:
            assert abs(column.mean()) < 1e-4
            assert abs(column.std() - 1) < 1e-4


def test_survives_json_bit_for_bit() -> None:
    encoder = TableEncoder().fit(TABLE)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert np.array_equal(again.transform(TABLE), encoder.transform(TABLE))
    assert again.feature_names_ == encoder.feature_names_
    assert again.blocks_.tolist() == encoder.blocks_.tolist()


@pytest.mark.parametrize(
    "damaged",
    [{}, {"format": 3}, {"format": 2}, {"format": 1}, {"format": 1, "max_categories": 5, "columns": [{"name": "a"}]}],
)
def test_a_damaged_saved_encoder_is_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(CheckpointError):
        TableEncoder.from_dict(damaged)


def test_columns_are_found_by_name_and_those_of_arrays_by_position() -> None:
    encoder = TableEncoder().fit(TABLE)
    assert np.array_equal(encoder.transform(TABLE[TABLE.columns[::-1]]), encoder.transform(TABLE))
    assert np.array_equal(encoder.transform(TABLE.astype(object).to_numpy()), encoder.transform(TABLE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="age"), "X has 3 features, but TableEncoder is expecting 4"),
        (lambda frame: frame.rename(columns={"age": "years"}), "X lacks column 'age'"),
        (lambda frame: frame.assign(age=["x", "y", "z", "u"]), "'age' held numbers .* now holds text"),
        (lambda frame: frame.assign(age=[1, 2, 3, np.inf]), r"'age' contains infinity \(inf\)"),
        (lambda frame: frame.assign(age=[1, 2, 3, 1e300]), "'age' has a value too large"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(InputError, match=message):
        encoder.transform(change(TABLE))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "Reshape your data"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (np.zeros((2, 2), dtype=complex), "Complex data not supported"),
        (sparse.csr_matrix((2, 2)), "sparse"),
        ([[1, 2], [3]], "rows differ in length"),
        ([[{"a": 1}, 2.0]], "neither numbers nor text"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "array of datetime64"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2021-01-01"])}), "'day' is of type datetime64"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs more than once"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "'1' occurs more than once"),
        (pd.DataFrame({"a": [[1], [2]]}), "neither numbers nor text"),
    ],
)
def test_what_is_no_table_is_refused(X: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TableEncoder().fit(X)


def test_an_unfitted_encoder_says_so() -> None:
    with pytest.raises(InputError, match="not fitted"):
        TableEncoder().transform(TABLE)


COLUMNS = {"age": [20, 30, 40, 70], "job": ["clerk", None, "baker", "clerk"], "member": [True, False, True, True]}
PLAIN = pd.DataFrame(COLUMNS)


class OnlyInterchange:
    """A table that knows the dataframe interchange protocol and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __dataframe__(self, allow_copy: bool = True) -> object:
        return self._table.__dataframe__(allow_copy=allow_copy)


class OnlyToPandas:
    def to_pandas(self) -> pd.DataFrame:
        return PLAIN


@pytest.mark.parametrize(
    "X",
    [
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).with_columns(pl.col("job").cast(pl.Categorical)),
        pa.Table.from_pandas(PLAIN, preserve_index=False),
        OnlyInterchange(pa.table(COLUMNS)),
        OnlyToPandas(),
        PLAIN.astype(object),
        PLAIN.convert_dtypes(),
    ],
    ids=["polars", "polars categorical", "arrow", "interchange", "to_pandas", "objects", "nullable"],
)
def test_every_kind_of_table_encodes_the_same(X: object) -> None:
    columns = list(as_frame(X).columns)
    encoder = TableEncoder().fit(PLAIN[columns])
    assert np.array_equal(encoder.transform(X), encoder.transform(PLAIN[columns]))
    assert TableEncoder().fit(X).to_dict() == encoder.to_dict()


def test_arrays_get_numbered_columns_and_the_callers_frame_stays_as_it_was() -> None:
    assert list(as_frame(np.eye(2)).columns) == ["x0", "x1"]
    mixed = as_frame(np.array([[1, "a"], [2, "b"]], dtype=object))
    assert [is_number(mixed[name]) for name in mixed] == [True, False]
    mine = pd.DataFrame({0: [1, 2], 1: np.array([3, 4], dtype=object)})
    copy = mine.copy()
    as_frame(mine)
    pd.testing.assert_frame_equal(mine, copy)
    assert list(mine.columns) == [0, 1]


def test_columns_that_differ_in_a_number_at_the_end_are_an_embedding_and_categories_are_none() -> None:
    numbers = {f"{stem}{n}": [0.5, 1.5 + n] for stem in ("face.", "letter.") for n in range(40)}
    few = {f"q{n}": [1.0, 2.0] for n in range(60)}
    frame = pd.DataFrame({"age": [30, None], **few, **numbers, "code": ["1", "2"]})
    encoder = TableEncoder().fit(frame)
    names = np.array(encoder.feature_names_)
    blocks = encoder.embedded_blocks()
    assert [list(names[block.places]) for block in blocks] == [
        [f"{stem}{n}" for n in range(40)] for stem in ("face.", "letter.")
    ]
    np.testing.assert_allclose(blocks[0].deviations, (1 + np.arange(40)) / 2)
    assert len(TableEncoder().fit(np.eye(2, 200)).embedded_blocks()) == 1
    assert len(TableEncoder().fit(np.eye(2, 199)).embedded_blocks()) == 0
    wide = TableEncoder().fit(pd.DataFrame({"code": [f"{n}" for n in range(60)]}))
    assert wide.embedded_blocks() == []
