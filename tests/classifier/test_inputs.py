"""What users hand in: any kind of table, any spelling of a gap, and one clear line where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from classifier_people import FAST, People
from hypothesis import given, settings
from hypothesis import strategies as st

from apod import APODClassifier
from apod.classifier import NoGroupsWarning
from apod.classifier.groups import SeveralAttributesWarning, known_groups
from apod.classifier.inputs import training_and_validation
from apod.errors import InputError

CELLS = ["b", "a", None, "b", None, "a"]
CODES, NAMES = [1, 0, -1, 1, -1, 0], ("a", "b")


def margins(people: People, groups: Any, X: Any = None) -> Any:
    """Decision values at strength 1."""
    X = people.X if X is None else X
    classifier = APODClassifier(**FAST | {"strength": 1.0}).fit(X, people.y, sensitive_features=groups)
    return classifier.decision_function(X)


@pytest.mark.parametrize("gap", [None, np.nan, float("nan"), pd.NA, pd.NaT], ids=["None", "nan", "NaN", "NA", "NaT"])
def test_every_kind_of_gap_is_the_same_gap(gap: Any, people: People, fitted: APODClassifier) -> None:
    groups = [gap if group is None else group for group in people.known]
    np.testing.assert_array_equal(margins(people, groups), fitted.at(1.0).decision_function(people.X))


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": lambda cells: np.array(cells, dtype=object),
    "numpy column": lambda cells: np.array(cells, dtype=object)[:, None],
    "masked": lambda cells: np.ma.array([c or "?" for c in cells], mask=[c is None for c in cells]),
    "pandas": pd.Series,
    "pandas string": lambda cells: pd.Series(cells, dtype="string"),
    "pandas category": lambda cells: pd.Series(cells, dtype="category"),
    "pandas, any index": lambda cells: pd.Series(cells, index=range(len(cells), 0, -1)),
    "pandas frame": lambda cells: pd.DataFrame({"group": cells}),
    "polars": pl.Series,
    "polars category": lambda cells: pl.Series(cells, dtype=pl.Categorical),
    "polars frame": lambda cells: pl.DataFrame({"group": cells}),
    "arrow": pa.array,
    "arrow table": lambda cells: pa.table({"group": cells}),
}


def group_codes(given: Any, n: int) -> tuple[Any, tuple[str, ...]]:
    found = known_groups(given, n)
    return found.codes, found.names


@pytest.mark.parametrize("kind", KINDS)
def test_groups_may_come_in_any_container(kind: str) -> None:
    codes, names = group_codes(KINDS[kind](CELLS), len(CELLS))
    assert (codes.tolist(), names) == (CODES, NAMES)


@pytest.mark.parametrize("cells", [[2, 1, None], np.array([2, 1, np.nan]), pd.Series([2, 1, None], dtype="Int64")])
def test_numbers_name_groups_however_a_gap_made_pandas_store_them(cells: Any) -> None:
    codes, names = group_codes(cells, 3)
    assert (codes.tolist(), names) == ([1, 0, -1], ("1", "2"))


@pytest.mark.parametrize("kind", [list, pd.Series, pl.Series])
def test_booleans_name_groups(kind: Callable[[list[Any]], Any]) -> None:
    codes, names = group_codes(kind([True, None, False]), 3)
    assert (codes.tolist(), names) == ([1, -1, 0], ("False", "True"))


def test_several_columns_are_several_attributes_and_missing_per_cell() -> None:
    frame = pd.DataFrame({"sex": ["f", "m", "f", None], "race": ["x,y", None, "x,y", "z"]})
    with pytest.warns(SeveralAttributesWarning, match="attributes of their own"):
        found = known_groups(frame, 4)
    assert (found.attribute, found.codes.tolist(), found.names) == ("sex", [0, 1, 0, -1], ("f", "m"))
    (race,) = found.further
    assert (race.name, race.codes.tolist(), race.names) == ("race", [0, -1, 0, 1], ("x,y", "z"))
    with pytest.warns(SeveralAttributesWarning):
        plain = known_groups(frame.to_numpy(), 4)
    assert (plain.attribute, plain.further[0].name) == ("attribute 1", "attribute 2")


@pytest.mark.filterwarnings("ignore::apod.classifier.groups.SeveralAttributesWarning")
def test_an_attribute_that_nobody_is_annotated_in_is_refused_unless_none_is() -> None:
    nobody = pd.DataFrame({"sex": [None] * 3, "race": [None] * 3})
    assert known_groups(nobody, 3).names == ()
    with pytest.raises(InputError, match="'race' of sensitive_features: leave it out"):
        known_groups(nobody.assign(sex=["f", "m", None]), 3)


SECRET = "Ruritanian"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([SECRET, None, SECRET, None], "All 2 annotated rows are of one group"),
        ([SECRET] * 3, "X has 4 rows and sensitive_features has 3"),
        ([], "X has 4 rows and sensitive_features has 0"),
        (np.array([SECRET, np.nan, "b", "b"]), "the text 'nan'"),
        ("nationality", "pass the values, not a column's name"),
        (pd.Series(pd.to_datetime(["2020", "2021", None, None])), "turn them into numbers or text"),
        ([object(), object(), None, None], "turn them into numbers or text"),
        ([SECRET, "", "b", "b"], "empty texts in 1 rows: use None or NaN"),
        (pd.Series([SECRET, " ", "", "b"]), "empty texts in 2 rows: use None or NaN"),
    ],
)
def test_unusable_groups_are_refused_and_no_message_tells_a_group(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        group_codes(groups, 4)
    assert SECRET not in str(refused.value)


def test_a_number_for_each_person_is_no_group() -> None:
    with pytest.raises(InputError, match="30 different groups in 30 annotated rows"):
        group_codes(np.linspace(18, 65, 30), 30)
    assert len(group_codes(list("abcdefghij"), 10)[1]) == 10  # so many may be real


def test_without_groups_nothing_warns_and_with_empty_ones_a_warning_says_so(people: People) -> None:
    plain = APODClassifier(**FAST).fit(people.X, people.y)  # warnings are errors here
    assert (plain.groups_, plain.selected_strength_, plain.tradeoff_["strength"].tolist()) == ((), 0.0, [0.0])
    with pytest.warns(NoGroupsWarning, match="Nobody's group is known"):
        np.testing.assert_array_equal(margins(people, [None] * 300), plain.decision_function(people.X))
    with pytest.warns(NoGroupsWarning):
        APODClassifier(**FAST | {"strength": 0.5}).fit(people.X, people.y)


@pytest.mark.parametrize("kind", ["numpy", "float32", "list", "polars", "arrow", "integer names"])
def test_numbers_give_the_same_classifier_from_any_table(kind: str, people: People, fitted: APODClassifier) -> None:
    X32 = people.X.astype(np.float32)
    tables = {
        "numpy": people.X.to_numpy(),
        "float32": X32,
        "list": people.X.to_numpy().tolist(),
        "polars": pl.DataFrame(dict(people.X)),
        "arrow": pa.table(dict(people.X)),
        "integer names": people.X.set_axis([0, 1], axis=1),
    }
    expected = margins(people, people.known, X32.astype(np.float64)) if kind == "float32" else None
    expected = fitted.at(1.0).decision_function(people.X) if expected is None else expected
    np.testing.assert_array_equal(margins(people, people.known, tables[kind]), expected)


def test_categories_come_from_pandas_and_polars_alike(people: People) -> None:
    where = np.where(people.X["neighbourhood"] > 0, "east", "west")
    frame = people.X.assign(where=where).drop(columns="neighbourhood")
    by_pandas = margins(people, people.known, frame)
    np.testing.assert_array_equal(margins(people, people.known, frame.astype({"where": "category"})), by_pandas)
    np.testing.assert_array_equal(margins(people, people.known, pl.DataFrame(dict(frame))), by_pandas)
    with pytest.raises(ValueError, match="could not convert string"):  # an array has no categories
        margins(people, people.known, frame.to_numpy())


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((0, 1), np.array),
        ((False, True), np.array),
        (("no", "yes"), np.array),
        (("no", "yes"), lambda cells: np.array(cells, dtype=object)),
        ((3, 7), lambda cells: np.array(cells, dtype=object)),
        ((0.0, 1.0), pl.Series),
        (("no", "yes"), pl.Series),
        (("no", "yes"), lambda cells: pd.Series(cells, dtype="category")),
        ((False, True), lambda cells: pd.Series(cells, dtype="boolean")),
    ],
)
def test_labels_may_be_any_two_values(names: Any, kind: Callable[[Any], Any], people: People) -> None:
    labels = [names[label] for label in people.y]
    classifier = APODClassifier(**FAST).fit(people.X, kind(labels), sensitive_features=people.known)
    expected = APODClassifier(**FAST).fit(people.X, people.y, sensitive_features=people.known).predict(people.X)
    assert classifier.classes_.tolist() == list(names)
    assert classifier.predict(people.X).tolist() == [names[label] for label in expected]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 0], "3 different values in 4 rows"),
        ([0.5, 1.5, 2.5, 0.5], "continuous"),
        ([1, 1, 1, 1], "1 class only"),
        (np.array(["a", None, "b", "a"], dtype=object), "missing labels"),
        ([0, 1, 0], "X has 4 rows and y has 3"),
        (None, "y is None"),
    ],
)
def test_unusable_labels_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        APODClassifier(**FAST).fit(np.eye(4), y)


def test_unusable_tables_are_refused(people: People, fitted: APODClassifier) -> None:
    hole = people.X.copy()
    hole.loc[3, "merit"] = np.inf
    with pytest.raises(InputError, match="Column 'merit' contains infinity"):
        fitted.predict(hole)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(people.X.rename(columns={"merit": "height"}))
    with pytest.raises(InputError, match=r"0 sample\(s\)"):
        fitted.predict(people.X.iloc[:0])
    with pytest.raises(ValueError, match="could not convert string"):
        APODClassifier(**FAST | {"body": "precomputed"}).fit(people.X.assign(word="x"), people.y)


def test_a_frame_and_its_array_are_the_same_rows_to_a_fitted_classifier(people: People, fitted: APODClassifier) -> None:
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        by_array = fitted.decision_function(people.X.to_numpy())
    np.testing.assert_array_equal(by_array, fitted.decision_function(people.X))
    of_array = APODClassifier(**FAST).fit(people.X.to_numpy(), people.y)
    with pytest.warns(UserWarning, match="has feature names"):
        by_frame = of_array.decision_function(people.X)
    np.testing.assert_array_equal(by_frame, of_array.decision_function(people.X.to_numpy()))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 2)), min_size=2, max_size=60),
    fraction=st.floats(0, 0.99),
    seed=st.integers(0, 5),
)
def test_the_two_parts_keep_labels_groups_and_annotations_where_they_belong(
    rows: list[tuple[int, int]], fraction: float, seed: int
) -> None:
    labels, groups = (np.array(column) for column in zip(*rows, strict=True))
    training, validation = training_and_validation(labels, groups, fraction, seed)
    assert sorted([*training, *validation]) == list(range(len(rows)))
    assert (np.diff(training) > 0).all()
    assert (np.diff(validation) > 0).all()
    for label in set(labels.tolist()):
        inside = np.flatnonzero(labels == label)
        wanted, drawn = int(fraction * len(inside)), validation[labels[validation] == label]
        free = (groups[inside] == -1).sum()
        assert len(drawn) <= wanted < len(inside)
        assert (groups[drawn] == -1).sum() == min(wanted, free)  # annotated rows only once the others are used up
        kept = {int(group) for group in groups[training[labels[training] == label]]} - {-1}
        assert kept == {int(group) for group in groups[inside]} - {-1}  # nobody's cell is emptied


def test_answers_to_questions_leave_both_parts_as_they_are(people: People) -> None:
    before = APODClassifier(**FAST).fit(people.X, people.y)
    after = APODClassifier(**FAST).fit(people.X, people.y, sensitive_features=people.known)
    assert (people.known != None).sum() == 40  # noqa: E711
    np.testing.assert_array_equal(before.training_rows_, after.training_rows_)


@pytest.mark.parametrize(("body", "value", "word"), [("contrastive", np.inf, "inf"), ("precomputed", np.nan, "NaN")])
@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
@pytest.mark.parametrize("row", [0, 150, 299])
def test_a_number_that_cannot_be_used_is_named_by_its_row_in_X(
    kind: Any, body: str, value: float, word: str, row: int, people: People
) -> None:
    hole = people.X[["merit"]].set_axis(range(1000, 1300)).assign(other=1.5)
    hole.iloc[row, 1] = value
    with pytest.raises(InputError, match=rf"{word}.* first in row {row} \(counting from 0\)"):
        APODClassifier(**FAST | {"body": body}).fit(kind(hole), people.y)


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_missing_numbers_are_welcome_in_fit_and_predict(kind: Any, people: People, tmp_path: Path) -> None:
    hole = people.X[["merit"]].assign(other=np.arange(300) % 7.0)
    hole.iloc[::5, 0] = np.nan
    fitted = APODClassifier(**FAST).fit(kind(hole), people.y, sensitive_features=people.known)
    fitted.save(tmp_path / "a.apod")
    again = APODClassifier.load(tmp_path / "a.apod")
    margins = fitted.decision_function(kind(hole))
    assert np.isfinite(margins).all()
    np.testing.assert_array_equal(again.decision_function(kind(hole)), margins)
    filled = hole.fillna(hole.iloc[fitted.training_rows_].median())
    elsewhere = hole["merit"].notna().to_numpy()
    np.testing.assert_array_equal(fitted.decision_function(kind(filled))[elsewhere], margins[elsewhere])


@pytest.mark.parametrize("what", ["y", "sensitive_features"])
def test_a_feature_that_is_the_label_or_the_group_once_more_is_refused(what: str, people: People) -> None:
    groups = np.where(np.arange(300) % 3 == 0, "a", "b")
    copy = pd.Series(people.y if what == "y" else groups).map(str).str.upper()
    with pytest.raises(InputError, match=f"Column 'copy' is {what} once more, row by row: leave it out of X"):
        APODClassifier(**FAST).fit(people.X.assign(copy=copy), people.y, sensitive_features=groups)
