"""A user's own file: what becomes of each column, and one clear line for everything that can be wrong."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apod.data import UNKNOWN, Dataset, TableEncoder, load_dataset
from apod.errors import InputError

PEOPLE = """id,age,city,gender,hired
7,31,Ulm,female,yes
8,45,,male,no
9,27,Jena,,no
10,60,Ulm,male,yes
11,33,Jena,diverse,no
"""


@pytest.fixture
def write(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str | bytes, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def load(path: Path, **settings: object) -> Dataset:
    return load_dataset(path, **{"label": "hired", **settings})  # type: ignore[arg-type]


def test_label_groups_and_features_of_a_csv_file(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write(PEOPLE), sensitive="gender")
    assert people.name == "people"
    assert people.labels.tolist() == [1, 0, 0, 1, 0]
    assert people.label_names == ("no", "yes")
    assert people.group_names == ("diverse", "female", "male")  # the largest last
    assert people.groups.tolist() == [1, 2, UNKNOWN, 2, 0]
    assert list(people.features.columns) == ["age", "city"]
    assert people.features["age"].tolist() == [31, 45, 27, 60, 33]
    assert people.rows.tolist() == [0, 1, 2, 3, 4]
    assert people.notes == ("Column 'id' is an identifier: not a feature.",)
    assert (people.task.split, people.task.embedding, people.task.hidden) == ((0.6, 0.2, 0.2), 64, (32,))
    assert people.task.metric == "delta_eo"
    assert TableEncoder().fit(people.features).feature_names_ == ("age", "city=Jena", "city=Ulm", "city=missing")


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("people.csv", lambda text: text),
        ("people.CSV", lambda text: text),
        ("people.csv.gz", lambda text: gzip.compress(text.encode())),
        ("people.tsv", lambda text: text.replace(",", "\t")),
        ("people.csv", lambda text: text.replace(",", ";")),
        ("people.csv", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
        ("people.csv", lambda text: text.replace("Ulm", '"Ulm"').replace("age,", '"age" ,') + "\n\n"),
    ],
    ids=["csv", "CSV", "gz", "tsv", "semicolons", "byte order mark, Windows line ends", "quotes, blank lines"],
)
def test_every_dialect_gives_the_same_dataset(write, tmp_path: Path, name: str, pack) -> None:  # type: ignore[no-untyped-def]
    plain = load(write(PEOPLE, "plain.csv"), sensitive="gender")
    other = load(write(pack(PEOPLE), name), sensitive="gender")
    assert other.name == "people"
    pd.testing.assert_frame_equal(other.features, plain.features)
    assert np.array_equal(other.labels, plain.labels)
    assert np.array_equal(other.groups, plain.groups)


def test_parquet_gives_the_same_dataset(write, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    frame = pd.read_csv(write(PEOPLE))
    frame.index = pd.Index([5, 6, 7, 8, 9])  # a stored pandas index is no feature
    frame.to_parquet(tmp_path / "people.parquet")
    ours, plain = (
        load(tmp_path / "people.parquet", sensitive="gender"),
        load(tmp_path / "people.csv", sensitive="gender"),
    )
    pd.testing.assert_frame_equal(ours.features, plain.features, check_categorical=False)
    assert np.array_equal(ours.labels, plain.labels)
    assert np.array_equal(ours.groups, plain.groups)
    assert ours.group_names == plain.group_names


def test_a_cell_with_a_line_break_is_one_cell(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write('hired,note,age\n1,"two\nlines",3\n0,"one, line",4\n'))
    assert people.features["note"].tolist() == ["two\nlines", "one, line"]


def test_a_string_path_is_a_path_too(write) -> None:  # type: ignore[no-untyped-def]
    assert len(load_dataset(str(write(PEOPLE)), label="hired")) == 5


@pytest.mark.parametrize(
    ("values", "negative", "positive"),
    [
        (["0", "1"], "0", "1"),
        (["1", "2"], "2", "1"),  # 1 is the positive one
        (["0", "1.0"], "0", "1"),
        (["-1", "1"], "-1", "1"),
        (["9", "10"], "9", "10"),  # as numbers, not as text
        (["True", "False"], "False", "True"),
        (["Yes", "No"], "No", "Yes"),
        (["<=50K", ">50K"], "<=50K", ">50K"),
        (["good", "bad"], "bad", "good"),
    ],
)
def test_which_label_counts_as_1(write, values: list[str], negative: str, positive: str) -> None:  # type: ignore[no-untyped-def]
    rows = "".join(f"{values[i % 2]},{i}\n" for i in range(6))
    people = load(write(f"hired,x\n{rows}"))
    assert people.label_names == (negative, positive)
    spelled = [values[i % 2] for i in range(6)]
    one = values[0] if values[0] in (positive, f"{positive}.0") else values[1]
    assert people.labels.tolist() == [int(cell == one) for cell in spelled]


def test_the_positive_label_can_be_named(write) -> None:  # type: ignore[no-untyped-def]
    path = write("hired,x\nhired,1\nrejected,2\nhired,3\n")
    assert load(path).label_names == ("hired", "rejected")
    assert load(path, positive="hired").labels.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="did you mean 'hired'"):
        load(path, positive="hirred")


def test_labels_of_a_typed_file_may_be_booleans_or_numbers(tmp_path: Path) -> None:
    for values in ([True, False, True], [1.0, 0.0, 1.0], [2, 1, 2]):
        pd.DataFrame({"hired": values, "x": [1, 2, 3]}).to_parquet(tmp_path / "a.parquet")
        expected = [0, 1, 0] if values == [2, 1, 2] else [1, 0, 1]
        assert load(tmp_path / "a.parquet").labels.tolist() == expected


def test_the_reference_group_is_last_when_asked_for(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write(PEOPLE), sensitive="gender", reference="female")
    assert people.group_names == ("diverse", "male", "female")
    assert people.groups.tolist() == [2, 1, UNKNOWN, 1, 0]


def test_given_group_names_fix_the_groups_and_their_order(write) -> None:  # type: ignore[no-untyped-def]
    names = ["male", "diverse", "female", "other"]
    people = load(write(PEOPLE), sensitive="gender", group_names=names)
    assert people.group_names == tuple(names)
    assert people.groups.tolist() == [2, 0, UNKNOWN, 0, 1]
    nobody = load(write(PEOPLE), group_names=["male", "female"], drop=["gender"])
    assert nobody.group_names == ("male", "female")
    assert (nobody.groups == UNKNOWN).all()


def test_without_groups_nobody_has_one(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write(PEOPLE))
    assert people.group_names == ()
    assert (people.groups == UNKNOWN).all()


def test_dropped_columns_are_no_features(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write(PEOPLE), sensitive="gender", drop=["age"])
    assert list(people.features.columns) == ["city"]
    assert "Column 'age' is left out, as asked." in people.notes


def test_identifiers_constants_and_row_numbers_are_no_features_and_noted(tmp_path: Path) -> None:
    n = 30
    frame = pd.DataFrame(
        {
            "hired": [i % 2 for i in range(n)],
            "ID": range(n),
            "email": [f"p{i}@example.org" for i in range(n)],
            "country": "X",
            "empty": None,
            "score": np.arange(n) / 7,  # a number that differs in every row is a feature
        }
    )
    frame.to_csv(tmp_path / "a.csv")  # with pandas' nameless column of row numbers
    pd.read_csv(tmp_path / "a.csv").to_csv(tmp_path / "b.csv", index=False)  # now called Unnamed: 0
    people = load(tmp_path / "a.csv")
    assert list(load(tmp_path / "b.csv").features.columns) == ["score"]
    assert list(people.features.columns) == ["score"]
    assert [note.split("'")[1] for note in people.notes] == ["ID", "email", "country", "empty"]


def test_a_typed_category_stays_one_though_it_looks_like_a_number(tmp_path: Path) -> None:
    frame = pd.DataFrame({"hired": [1, 0, 1], "code": ["1", "2", "1"], "n": ["1", "2", "3"]})
    frame.astype({"code": "category"}).to_parquet(tmp_path / "a.parquet")
    features = load(tmp_path / "a.parquet").features
    assert isinstance(features["code"].dtype, pd.CategoricalDtype)
    assert features["n"].tolist() == [1, 2, 3]


def test_groups_are_told_apart_without_blanks_around_them(write) -> None:  # type: ignore[no-untyped-def]
    people = load(write("hired,s,x\n1, a,1\n0,a ,2\n1,b,3\n0,  ,4\n1,,5\n"), sensitive="s")
    assert people.group_names == ("b", "a")
    assert people.groups.tolist() == [1, 1, 0, UNKNOWN, UNKNOWN]


def test_more_categories_than_the_encoder_tells_apart_are_noted(write) -> None:  # type: ignore[no-untyped-def]
    rows = "".join(f"{i % 2},w{i % 300}\n" for i in range(600))
    (note,) = load(write(f"hired,word\n{rows}")).notes
    assert note == "Column 'word' has 300 categories: only the 256 most frequent count."


LONG = "hired,x,s\n" + "".join(f"{i % 2},{3 * i},{'aab'[i % 3]}\n" for i in range(40))

BAD: dict[str, tuple[str | bytes, dict[str, object], str]] = {
    "empty file": ("", {}, "people.csv is empty"),
    "blank file": ("\n", {}, "people.csv is empty"),
    "header only": ("hired,x\n", {}, "has a header but no rows"),
    "no label named": (
        PEOPLE,
        {"label": None},
        r"Say which column of people\.csv is the label \(--label\): those with two values are city, hired",
    ),
    "missing label column": (PEOPLE, {"label": "hirde"}, r"no column 'hirde' in people\.csv: did you mean 'hired'\?"),
    "missing sensitive column": (PEOPLE, {"sensitive": "sexe"}, "no column 'sexe' in people.csv: it has id, age, city"),
    "missing dropped column": (PEOPLE, {"drop": ["agee"]}, r"no column 'agee' in people\.csv: did you mean 'age'\?"),
    "label is sensitive": (PEOPLE, {"sensitive": "hired"}, "cannot be both the label and the sensitive attribute"),
    "label dropped": (PEOPLE, {"drop": ["hired"]}, "'hired' cannot be both the label and left out"),
    "header without line end": ("hired,x", {}, "has a header but no rows"),
    "binary file": (b"\x00\x01\x02", {}, "people.csv is not a text file"),
    "open quotation mark": ('hired,"x\n1,2\n0,3\n', {}, r"cannot be read \(a quotation mark is never closed\)"),
    "multi-class label": ("hired,x\na,1\nb,2\nc,3\n", {}, r"3 different values in 3 rows.*at most 20 labels"),
    "numbers as label": (
        "hired,x\n1.5,1\n2.5,2\n3.5,3\n",
        {},
        "at most 20 labels can be compared: merge them into a few bands",
    ),
    "one label": ("hired,x\na,1\na,2\n", {}, "one value only; a label has two at least"),
    "missing label": ("hired,x\n1,1\n,2\n0,3\nNA,4\n", {}, "'hired' has 2 missing cell.*first in data row 2"),
    "repeated column": ("hired,x,x\n1,1,2\n0,2,3\n", {}, "Column name 'x' occurs more than once"),
    "repeated id": ("hired,Id,x\n1,5,2\n0,6,3\n1,5,4\n", {}, r"Column 'Id' repeats an identifier in data row 3 \(1 in"),
    "infinity": (LONG.replace("0,18,", "0,-inf,"), {}, r"'x' has an infinite value .*data row 7"),
    "text among numbers": (LONG.replace("0,18,", "0,six,"), {}, r"'x' has text in data row 7: 'six' \(1 in all\)"),
    "too many cells": ("hired,x\n1,2\n0,3,4\n", {}, r"people\.csv, row 2: 3 cells under 2 column names"),
    "too few cells": ("hired,x,y\n1,2,3\n0,3\n", {}, r"people\.csv, row 2: 2 cells under 3 column names"),
    "no feature": ("hired,x\n1,5\n0,5\n", {}, "No column is left to learn from"),
    "nameless column": ("hired,\n1,a\n0,b\n", {}, "A column has no name"),
    "nameless columns": ("hired,,\n1,a,b\n0,b,c\n", {}, "2 columns without a name"),
    "not text": (b"hired,x\n1,\xff\xfe\n0,b\n", {}, "people.csv (cannot be read|is not UTF-8)"),
    "bad bytes in header": (b"hired,\xff\n1,2\n0,3\n", {}, "people.csv is not UTF-8 text"),
    "one group": (
        PEOPLE.replace("female", "male").replace("diverse", "male"),
        {"sensitive": "gender"},
        r"1 group\(s\)",
    ),
    "no group": ("hired,s,x\n1,,1\n0,,2\n", {"sensitive": "s"}, r"'s' records 0 group\(s\)"),
    "a group per person": (LONG, {"sensitive": "x"}, "'x' has 40 different groups in 40 rows"),
    "reference unknown": (
        PEOPLE,
        {"sensitive": "gender", "reference": "femal"},
        "no group 'femal': did you mean 'fema",
    ),
    "control character in a group": (
        LONG.replace(",a", ",a\x1b[2J"),
        {"sensitive": "s"},
        "'s' has a value with a contr",
    ),
    "NUL in a named group": (PEOPLE, {"group_names": ["a", "b\x00"]}, "list of groups has a value with a control char"),
    "control character in a label": (LONG.replace("\n1,", "\n1\x07,"), {}, "'hired' has a value with a control char"),
    "reference without groups": (PEOPLE, {"reference": "female"}, "A reference group needs groups"),
    "one group named": (PEOPLE, {"group_names": ["a"]}, "Name at least two groups"),
    "a group named twice": (PEOPLE, {"group_names": ["a", "a"]}, "Name at least two groups, each once"),
    "unnamed group": (
        PEOPLE,
        {"sensitive": "gender", "group_names": ["male", "diverse"]},
        r"1 row\(s\) with a group other",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(case: str, write) -> None:  # type: ignore[no-untyped-def]
    text, settings, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        load(write(text), **settings)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file '.*absent\.csv'"):
        load(tmp_path / "absent.csv")
    with pytest.raises(InputError, match=r"There is no file 'absent\.csv'"):
        load_dataset("absent.csv", label="y")
    with pytest.raises(InputError, match=r"holds no \.parquet file"):
        load(tmp_path)


def test_an_unknown_or_broken_type_is_refused(write) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=r"people\.xls is of no known type: save it as \.csv"):
        load(write(b"PK", "people.xls"))
    with pytest.raises(InputError, match=r"people\.parquet cannot be read"):
        load(write(b"PAR1 not really", "people.parquet"))
    with pytest.raises(InputError, match=r"people\.csv\.gz cannot be read"):
        load(write(PEOPLE, "people.csv.gz"))
    with pytest.raises(InputError, match=r"people\.csv\.gz cannot be read"):
        load(write(gzip.compress(LONG.encode())[:-20], "people.csv.gz"))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], [2], [3]]), "'x' holds values that are neither"),
        (pa.array([1.0, float("inf"), 3.0]), "'x' has an infinite value"),
    ],
)
def test_what_a_typed_file_cannot_have_as_a_feature(column: pa.Array, message: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"hired": [0, 1, 0], "x": column, "z": [1, 2, 3]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "a.parquet")
    assert list(load(tmp_path / "a.parquet", drop=["x"]).features.columns) == ["z"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([date(1970, 1, 2), date(1971, 1, 1), None]), [1, 365, None]),
        (pa.array([0, 43_200, 86_400], pa.timestamp("s")), [0, 0.5, 1]),
        (pa.array([1.0, None, 3.0]), [1, None, 3]),
        (pa.array([True, None, False]), [1, None, 0]),
    ],
)
def test_typed_dates_are_days_and_gaps_stay_gaps(column: pa.Array, expected: list[float], tmp_path: Path) -> None:
    pq.write_table(pa.table({"hired": [0, 1, 0], "x": column}), tmp_path / "a.parquet")
    people = load(tmp_path / "a.parquet")
    found = people.features["x"].to_numpy(dtype=float, na_value=np.nan)
    np.testing.assert_array_equal(found, np.array(expected, dtype=float))
    assert any("1 missing number" in note for note in people.notes) == (None in expected)


def test_a_parquet_file_with_a_repeated_column_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([0, 1])] * 3, names=["hired", "x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="'x' occurs more than once"):
        load(tmp_path / "a.parquet")


def complaint(path: Path, **settings: object) -> str | None:
    try:
        load(path, **settings)
    except InputError as error:
        return str(error)
    return None


SECRET = "hired,x,s\n" + "".join(f"{i % 2},{i},{('zebra', 'okapi', '7')[i % 3]}\n" for i in range(60))


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (SECRET + "1,61,zebra,4\n", {}),
        (SECRET + "1,zebra\n", {}),
        (SECRET + "1,oops,zebra\n", {}),
        (SECRET.encode() + b"1,61,zebra\xff\n", {}),
        (SECRET.replace("okapi", "zebra").replace(",7\n", ",zebra\n"), {}),
        (SECRET + ",61,zebra\n", {}),
        (SECRET, {"group_names": ["giraffe", "lion"]}),
        (SECRET.replace("okapi", "7"), {"group_names": ["7", "8"]}),
        ("hired,x,s\n" + "".join(f"{i % 2},{i},zebra{i}\n" for i in range(60)), {}),
    ],
)
def test_no_message_ever_tells_a_persons_group(write, text: str | bytes, settings: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    message = complaint(write(text), sensitive="s", **settings)
    assert message is not None
    assert "zebra" not in message
    assert "okapi" not in message


@given(
    cells=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=8), min_size=2, max_size=30
    )
)
@settings(max_examples=100, deadline=None)
def test_any_text_loads_or_is_refused_in_one_line(cells: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "a.csv"
    pd.DataFrame({"hired": [i % 2 for i in range(len(cells))], "x": cells, "z": range(len(cells))}).to_csv(
        path, index=False
    )
    message = complaint(path)
    if message is not None:
        assert "\n" not in message
        return
    people = load(path)
    assert len(people) == len(cells)
    assert np.isfinite(TableEncoder().fit_transform(people.features)).all()


@pytest.mark.parametrize("spelled", [("female", "male"), ("W", "M"), ("0", "1")])
def test_a_copy_of_the_sensitive_column_is_no_feature(spelled: tuple[str, str], write) -> None:  # type: ignore[no-untyped-def]
    rows = [(i % 2, i * i % 7, int(i * i % 5 == 1)) for i in range(60)]
    lines = [f"{y},{x},{('female', 'male')[s]},{spelled[s]}" for y, x, s in rows]
    lines[4] = lines[4].replace("female", "")  # not on record: nothing to compare
    text = "\n".join(["hired,x,gender,sex", *lines, ""])
    with pytest.raises(InputError, match=r"Column 'sex' is 'gender' once more.*--drop sex"):
        load(write(text), sensitive="gender")
    assert list(load(write(text), sensitive="gender", drop=["sex"]).features) == ["x"]
    lines[7] = f"1,3,female,{spelled[1]}"  # one person differs: a feature like any other
    assert list(load(write("\n".join(["hired,x,gender,sex", *lines, ""])), sensitive="gender").features) == ["x", "sex"]
