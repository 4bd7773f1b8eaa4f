"""Dialects of text files: what is recognised, what an option says, and what is refused in a line."""

from __future__ import annotations

import gzip
import random
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from apod.data.files import read_table
from apod.data.text_files import RECOGNISED, Dialect, dialect, read_text
from apod.errors import InputError

CELLS = pd.DataFrame({"name": ["Zoë", "Jürgen", "Ann"], "income": ["1.234,5", "7,25", None], "hired": ["0", "1", "0"]})


def write(path: Path, sep: str = ",", encoding: str = "utf-8") -> Path:
    CELLS.to_csv(path, sep=sep, index=False, encoding=encoding)
    return path


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_the_usual_separators_are_recognised(sep: str, tmp_path: Path) -> None:
    pd.testing.assert_frame_equal(read_table(write(tmp_path / "p.csv", sep)), CELLS, check_dtype=False)


@pytest.mark.parametrize(("said", "sep"), [("tab", "\t"), ("\\t", "\t"), ("^", "^"), ("space", " "), (";", ";")])
def test_a_separator_can_be_named(said: str, sep: str, tmp_path: Path) -> None:
    found = read_table(write(tmp_path / "p.csv", sep), dialect(said))
    pd.testing.assert_frame_equal(found, CELLS, check_dtype=False)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "mac_roman", "utf-8-sig"])
def test_an_encoding_can_be_named(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", encoding=encoding)
    pd.testing.assert_frame_equal(read_table(path, dialect(encoding=encoding)), CELLS, check_dtype=False)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_an_encoding_with_a_mark_is_recognised(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "\t", encoding)
    pd.testing.assert_frame_equal(read_table(path), CELLS, check_dtype=False)


def test_another_encoding_is_refused_with_the_option_that_names_it(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", encoding="cp1252")
    with pytest.raises(InputError, match="not UTF-8 text: name its encoding, as --encoding cp1252"):
        read_table(path)
    with pytest.raises(InputError, match=r"not text in utf-8: name another --encoding|not UTF-8"):
        read_table(path, dialect(encoding="utf8"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": ";;"}, "--sep is ';;'"),
        ({"sep": ""}, "--sep is ''"),
        ({"sep": "\n"}, "--sep"),
        ({"decimal": "'"}, "--decimal"),
        ({"encoding": "klingon"}, "--encoding is 'klingon', which does not exist"),
        ({"encoding": "rot13"}, "which does not exist"),
        ({"encoding": "a\x00"}, "which does not exist"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dialect(**options)


def test_nothing_said_is_the_recognised_dialect() -> None:
    assert dialect() == Dialect()


def test_a_column_name_may_hold_a_line_break(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(b'"a\nb","c\rd",e\n1,2,3\n4,5,6\n')
    found = read_table(tmp_path / "p.csv")
    assert found.to_dict("list") == {"a\nb": ["1", "4"], "c\rd": ["2", "5"], "e": ["3", "6"]}


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__dot__", "."), text)
    return path


def test_a_zip_archive_of_one_table_is_that_table(tmp_path: Path) -> None:
    text = CELLS.to_csv(index=False)
    path = zipped(tmp_path / "p.csv.zip", folder__dot__csv=text, readme__dot__md="about")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._folder.csv", "junk")
    pd.testing.assert_frame_equal(read_table(path), CELLS, check_dtype=False)


def test_a_zip_archive_of_another_number_of_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds 2 text tables"):
        read_table(zipped(tmp_path / "p.zip", a__dot__csv="x", b__dot__csv="y"))
    with pytest.raises(InputError, match="holds 0 text tables"):
        read_table(zipped(tmp_path / "q.zip", a__dot__png="x"))
    (tmp_path / "r.zip").write_bytes(b"no archive")
    with pytest.raises(InputError, match="no zip archive that can be read"):
        read_table(tmp_path / "r.zip")


TEXT = b"age,hired\n" + b"31,1\n45,0\n" * 50


def packed(path: Path) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("people.csv", TEXT)
    else:
        path.write_bytes(gzip.compress(TEXT))
    return path


@pytest.mark.parametrize("name", ["people.zip", "people.csv.gz"])
def test_a_packed_table_that_unpacks_to_too_much_is_refused(name: str, tmp_path: Path) -> None:
    path = packed(tmp_path / name)
    assert len(read_text(path, RECOGNISED, limit=len(TEXT))) == 100
    with pytest.raises(InputError, match=r"people\..* unpacks to more than .* GiB: if it is meant to, unpack it yours"):
        read_text(path, RECOGNISED, limit=len(TEXT) - 1)


def test_a_zip_archive_that_lies_about_its_size_gets_nothing_past_the_limit(tmp_path: Path) -> None:
    path = packed(tmp_path / "people.zip")
    data, size = path.read_bytes(), len(TEXT).to_bytes(4, "little")
    assert data.count(size) == 2  # before the member, and in the directory
    path.write_bytes(data.replace(size, (40).to_bytes(4, "little")))
    with pytest.raises(InputError, match=r"people\.zip cannot be read \(Bad CRC-32 .*\): save it again"):
        read_table(path)


def test_a_damaged_member_of_a_zip_archive_is_refused_in_a_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("people.csv", TEXT)
    data = (tmp_path / "p.zip").read_bytes()
    (tmp_path / "p.zip").write_bytes(data.replace(b"45,0", b"46,0", 1))
    with pytest.raises(InputError, match=r"p\.zip cannot be read \(Bad CRC-32 .*\): save it again"):
        read_table(tmp_path / "p.zip")


def test_random_bytes_are_said_to_be_no_text(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_bytes(random.Random(1).randbytes(20_000))
    with pytest.raises(InputError, match=r"p\.csv is not a text file"):
        read_table(tmp_path / "p.csv")
