"""Which pictures a table names, and where they may lie."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from apod.data.contents import Content, FilesIn, Inline, holds_pictures, named_pictures, picture_cells, picture_names
from apod.errors import InputError


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    folder = tmp_path / "faces"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.jpg", "b.PNG", "deep/c.jpeg", ".hidden.jpg", "notes.txt"):
        (folder / name).write_bytes(name.encode())
    return folder


def read(cells: FilesIn | Inline, row: int) -> bytes:
    with cells.opened() as reading:
        return reading(row)


def test_pictures_are_found_at_any_depth_and_nothing_else_is(faces: Path) -> None:
    assert picture_names(faces) == ["a.jpg", "b.PNG", "deep/c.jpeg"]
    assert holds_pictures(faces)
    assert not holds_pictures(faces.parent / "none")


def test_the_column_that_names_pictures_is_found_by_what_is_in_it(faces: Path) -> None:
    frame = pd.DataFrame({"hair": ["wavy", "not", "wavy"], "photo": ["c.jpeg", "a.jpg", "b.PNG"], "age": [1, 2, 3]})
    column, cells = named_pictures(faces, frame, None)
    assert (column, cells.names) == ("photo", ("deep/c.jpeg", "a.jpg", "b.PNG"))
    assert read(cells, 0) == b"deep/c.jpeg"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["a.jpg", "lost.jpg", "gone.jpg"], "2 of 3 rows name no picture of faces in column 'photo', first data row 2"),
        (["a.jpg", "b.PNG", "a.jpg"], "1 rows of column 'photo' name a picture that an earlier row has"),
    ],
)
def test_rows_without_a_picture_of_their_own_are_refused(faces: Path, cells: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        named_pictures(faces, pd.DataFrame({"photo": cells}), "photo")


def test_a_table_that_names_no_pictures_says_how_to(faces: Path) -> None:
    with pytest.raises(InputError, match="No column names the pictures of faces"):
        named_pictures(faces, pd.DataFrame({"photo": ["x", "y"]}), None)


def test_paths_that_lead_out_and_pipes_are_not_read(faces: Path) -> None:
    secret = faces.parent / "secret.jpg"
    secret.write_bytes(b"secret")
    (faces / "link.jpg").symlink_to(secret)
    os.mkfifo(faces / "pipe.jpg")
    cells = picture_cells("photo", pd.Series(["../secret.jpg", "link.jpg", "pipe.jpg", "lost.jpg"]), faces)
    reasons = ["leads out", "leads out", "it is no file", "no such file"]
    for row, why in enumerate(reasons):
        with pytest.raises(InputError, match=why):
            read(cells, row)  # type: ignore[arg-type]


def test_bytes_of_a_table_are_read_as_they_are(faces: Path) -> None:
    for values in ([b"1", b"2"], [{"bytes": b"1", "path": None}, {"bytes": b"2", "path": "x"}]):
        assert read(picture_cells("photo", pd.Series(values), faces), 1) == b"2"  # type: ignore[arg-type]
    with pytest.raises(InputError, match="neither bytes nor paths"):
        picture_cells("photo", pd.Series([b"1", 2]), faces)
    with pytest.raises(InputError, match="no picture in 1 row"):
        picture_cells("photo", pd.Series([b"1", None]), faces)


def test_a_member_that_says_it_is_huge_is_refused_unread(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "faces.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("huge.png", bytes(65 * 2**20))
    content = Content("face", "picture", FilesIn(tmp_path / "faces.zip", ("huge.png", "lost.png")))
    with content.cells.opened() as reading:
        with pytest.raises(InputError, match="it has 68,157,440 bytes"):
            reading(0)
        with pytest.raises(InputError, match="no such file"):
            reading(1)


def test_an_archive_that_is_cut_off_is_named(tmp_path: Path) -> None:
    for name in ("faces.zip", "faces.tar", "faces.tgz"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut")
        with pytest.raises(InputError, match=f"{name} is not a whole archive"):
            picture_names(tmp_path / name)
