"""Columns embedded: what a row depends on, what is kept, what an interruption costs, what is said of bad cells."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from apod.data.contents import Content, FilesIn, Inline, Kind
from apod.errors import InputError
from apod.models.embedder import FloatArray
from apod.models.embedding import KeptEmbeddings, embed_content
from apod.models.picture_embedder import ModulePictures


class LetterCounts:
    """Counts letters: the truth can be counted by hand."""

    kind: Kind = "text"
    name, width, batch, size = "letters", 2, 4, None

    def __init__(self, fingerprint: str = "letters") -> None:
        self.fingerprint, self.seen = fingerprint, list[str]()

    def prepare(self, data: bytes) -> str:
        if data == b"bad":
            raise InputError("it is bad")
        return data.decode()

    def forward(self, cells: Sequence[str]) -> FloatArray:
        self.seen += cells
        return np.array([[cell.count("a"), cell.count("b")] for cell in cells], dtype=np.float32)


def letters(*texts: str) -> Content:
    return Content("letter", "text", Inline(texts))


def png(colour: tuple[int, int, int], size: tuple[int, int] = (20, 24)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


class MeanColour(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=(2, 3))


def test_rows_come_in_the_order_of_the_cells() -> None:
    texts = ["a" * (n % 5) + "b" * (n % 3) for n in range(50)]
    found = embed_content(LetterCounts(), letters(*texts))
    assert found.rows.tolist() == [[n % 5, n % 3] for n in range(50)]


def test_cells_of_the_same_bytes_in_a_batch_are_computed_once() -> None:
    embedder = LetterCounts()
    assert embed_content(embedder, letters("ab", "ab", "ab")).computed == 1
    assert embedder.seen == ["ab"]


def test_kept_rows_are_not_computed_again_wherever_they_stand(tmp_path: Path) -> None:
    first = embed_content(LetterCounts(), letters("a", "bb", "aab"), tmp_path)
    again = LetterCounts()
    second = embed_content(again, letters("aab", "b", "a"), tmp_path)
    assert again.seen == ["b"]
    assert second.rows.tolist() == [first.rows[2].tolist(), [0, 1], first.rows[0].tolist()]


def test_another_embedder_does_not_read_what_the_first_kept(tmp_path: Path) -> None:
    embed_content(LetterCounts(), letters("a"), tmp_path)
    assert embed_content(LetterCounts("other"), letters("a"), tmp_path).computed == 1


def test_what_was_done_before_an_interruption_is_kept(tmp_path: Path) -> None:
    texts = ["a" * n for n in range(1, 41)]

    def stop(done: int, total: int, text: str) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_content(LetterCounts(), letters(*texts), tmp_path, stop)
    found = embed_content(LetterCounts(), letters(*texts), tmp_path)
    assert found.computed == 20
    assert found.rows[:, 0].tolist() == list(range(1, 41))


def test_a_damaged_file_of_kept_rows_is_left_out_said_and_computed_again(tmp_path: Path) -> None:
    embed_content(LetterCounts(), letters("a", "b"), tmp_path)
    (file,) = (tmp_path / "letters").iterdir()
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    found = embed_content(LetterCounts(), letters("a", "b"), tmp_path)
    assert (found.computed, found.rows.tolist()) == (2, [[1, 0], [0, 1]])
    assert found.notes == ("1 damaged file(s) of kept embeddings were left out.",)


def test_kept_rows_are_for_their_owner_and_name_nobody(tmp_path: Path) -> None:
    content = Content("face", "picture", FilesIn(tmp_path, ("grace.png",)))
    (tmp_path / "grace.png").write_bytes(png((9, 9, 9)))
    embedder = ModulePictures(MeanColour(), size=(16, 16))
    embed_content(embedder, content, tmp_path / "kept")
    (file,) = (tmp_path / "kept" / embedder.fingerprint).iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert b"grace" not in file.read_bytes()


def test_progress_ends_with_all_rows() -> None:
    heard: list[tuple[int, int]] = []
    embed_content(
        LetterCounts(), letters("a", "bad", "b"), progress=lambda done, total, text: heard.append((done, total))
    )
    assert heard[0] == (0, 3)
    assert heard[-1] == (3, 3)


def test_bad_cells_are_counted_and_named_by_kind() -> None:
    content = letters("a", "bad", "b", "bad")
    found = embed_content(LetterCounts(), content)
    assert found.unusable == {1: "it is bad", 3: "it is bad"}
    assert found.names(content) == "2 of 4 cells of 'letter' cannot be used: 2 because it is bad (row 1, row 3)"


def test_an_embedder_reads_its_own_kind_of_cells_alone() -> None:
    with pytest.raises(InputError, match="letters reads texts, and column 'face' holds pictures"):
        embed_content(LetterCounts(), Content("face", "picture", Inline((b"",))))


@pytest.mark.parametrize("place", ["folder", "zip", "tar", "tar.gz", "bytes"])
def test_pictures_are_read_from_wherever_they_lie(place: str, tmp_path: Path) -> None:
    pictures = {f"deep/{n}.png": png((n, 2 * n, 3 * n)) for n in (10, 20, 30)}
    names = tuple(pictures)
    if place == "bytes":
        content = Content("face", "picture", Inline(tuple(pictures.values())))
    else:
        content = Content("face", "picture", FilesIn(packed(place, pictures, tmp_path), names))
    found = embed_content(ModulePictures(MeanColour(), size=(16, 16), mean=(0, 0, 0), deviation=(1, 1, 1)), content)
    expected = np.array([[n, 2 * n, 3 * n] for n in (10, 20, 30)]) / 255
    np.testing.assert_allclose(found.rows, expected, atol=1e-6)


def packed(place: str, pictures: dict[str, bytes], folder: Path) -> Path:
    if place == "folder":
        (folder / "deep").mkdir()
        for name, data in pictures.items():
            (folder / name).write_bytes(data)
        return folder
    path = folder / f"faces.{place}"
    if place == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name, data in pictures.items():
                zipped.writestr(name, data)
        return path
    with tarfile.open(path, "w:gz" if place == "tar.gz" else "w") as packed:
        for name, data in pictures.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return path


def test_the_kept_rows_of_an_embedder_can_be_looked_up_by_content(tmp_path: Path) -> None:
    embedder = LetterCounts()
    kept = KeptEmbeddings(embedder, tmp_path)
    kept.add(["00" * 16], np.array([[1, 2]], dtype=np.float32))
    kept.flush()
    again = KeptEmbeddings(embedder, tmp_path)
    assert "00" * 16 in again
    assert again["00" * 16].tolist() == [1, 2]
