"""Pictures, texts and ordinary columns side by side: every row keeps its own, and bad ones are counted."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from apod.data.contents import Content, Inline
from apod.data.dataset import Dataset
from apod.errors import InputError
from apod.models.content_columns import embed_dataset, packed_contents, saved_contents
from apod.models.embedder import EmbedderNames
from apod.models.hashed_text import fit_hashed_text

SMALL = EmbedderNames(size=(32, 32))
TEXTS = ["cook bakes bread", "pilot flies planes", "cook fries bread", "pilot lands planes"] * 6


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (12, 12), shade).save(file, "PNG")
    return file.getvalue()


def people(contents: tuple[Content, ...]) -> Dataset:
    n = len(TEXTS)
    return Dataset(
        name="people",
        features=pd.DataFrame({"age": np.arange(n)}),
        labels=np.arange(n) % 2,
        groups=np.arange(n) // 2 % 2,
        group_names=("a", "b"),
        rows=np.arange(n),
        contents=contents,
    )


def pictures(*bad: int) -> Content:
    cells = tuple(b"" if row in bad else png(10 * row) for row in range(len(TEXTS)))
    return Content("face", "picture", Inline(cells))


LETTERS = Content("letter", "text", Inline(tuple(TEXTS)))


def test_pictures_texts_and_columns_stand_side_by_side() -> None:
    found, made = embed_dataset(people((LETTERS, pictures())), SMALL)
    width = fit_hashed_text(TEXTS).width
    names = ["age", *(f"face.{n}" for n in range(1280)), *(f"letter.{n}" for n in range(width))]
    assert list(found.features.columns) == names
    alone, _ = embed_dataset(people((LETTERS,)), SMALL)
    assert (alone.features["letter.3"] == found.features["letter.3"]).all()
    assert found.contents == ()
    assert [own.column for own in made.columns] == ["face", "letter"]
    assert found.shown is not None
    assert found.shown["letter"].tolist() == TEXTS


def test_a_bad_picture_is_named_and_counted_or_left_out_on_request() -> None:
    raw = people((pictures(3, 7), LETTERS))
    said = r"2 of 24 cells of 'face' cannot be used: 2 because it is empty \(row 3, row 7\)"
    with pytest.raises(InputError, match=f"{said}. Replace them, or leave those rows out: --skip-bad"):
        embed_dataset(raw, SMALL)
    found, _ = embed_dataset(raw, SMALL, skip_bad=True)
    left = np.delete(np.arange(24), [3, 7])
    assert found.rows.tolist() == left.tolist()
    assert found.features["age"].tolist() == left.tolist()
    assert found.labels.tolist() == (left % 2).tolist()
    assert found.shown is not None
    assert found.shown["letter"].tolist() == [TEXTS[row] for row in left]
    assert any("Left out: 2 of 24" in note for note in found.notes)


def saved(picture: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def claiming(width: int, height: int) -> bytes:
    """A PNG of one row that says it is so large."""
    data = bytearray(png(0))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)


def test_all_kinds_of_bad_pictures_are_counted_by_reason_and_no_good_one_is_lost() -> None:
    noise, frames = Image.effect_noise((40, 40), 60), [Image.new("RGB", (12, 12), colour) for colour in ("red", "blue")]
    bad = {
        1: b"\x00" * 100,
        2: saved(noise, "JPEG")[:400],
        3: saved(noise, "PNG")[:-300],
        5: saved(Image.new("RGB", (1, 1)), "PNG"),
        8: claiming(9000, 9000),
        9: claiming(2**31 - 1, 2**31 - 1),
        11: b"\xff" * (64 * 2**20 + 1),
    }
    odd = {
        4: saved(Image.new("CMYK", (12, 12)), "JPEG"),
        6: saved(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        7: saved(Image.new("RGBA", (12, 12), (9, 9, 9, 0)), "PNG"),
    }
    cells = tuple({**bad, **odd}.get(row, png(10 * row)) for row in range(len(TEXTS)))
    raw = people((Content("face", "picture", Inline(cells)),))
    with pytest.raises(InputError) as refused:
        embed_dataset(raw, SMALL)
    said = str(refused.value)
    assert said.startswith("7 of 24 cells of 'face' cannot be used: ")
    for reason in (
        "3 because it does not decode: no picture, or cut off (row 1, row 2, row 3)",
        "1 because it has 1 x 1 pixels, fewer than 8 a side (row 5)",
        "1 because it has 9,000 x 9,000 pixels, more than 50,000,000 (row 8)",
        "1 because it has 67,108,865 bytes (row 11)",
    ):
        assert reason in said
    assert "row 9" in said
    found, _ = embed_dataset(raw, SMALL, skip_bad=True)
    assert found.rows.tolist() == [row for row in range(24) if row not in bad]
    assert np.isfinite(found.features.to_numpy(dtype=np.float64)).all()


def test_ten_megabytes_in_one_cell_and_control_characters_are_read_and_said() -> None:
    huge, odd = "cook bakes bread " * 600_000, "cook\x00\x07 bakes\x1b[31m bread\ud800"
    assert len(huge) > 10_000_000
    cells = (huge, odd, *TEXTS[2:])
    found, made = embed_dataset(people((replace(LETTERS, cells=Inline(cells)),)), SMALL)
    assert len(found) == 24
    letter = found.features.filter(like="letter.").to_numpy()
    assert np.isfinite(letter).all()
    short = made.columns[0].embedder.forward([made.columns[0].embedder.prepare(huge[:100_000].encode())])
    np.testing.assert_allclose(letter[0], short[0], atol=1e-6)
    notes = " ".join(found.notes)
    assert "is longer than 100,000 characters, of which the first are read in 1 row(s), first in row 0" in notes
    assert "holds control characters, which are read as blanks in 1 row(s), first in row 1" in notes


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(InputError, match="No row is left"):
        embed_dataset(people((pictures(*range(24)),)), SMALL, skip_bad=True)


def test_texts_outside_the_rows_to_learn_from_change_nothing() -> None:
    other = replace(LETTERS, cells=Inline((*TEXTS[:12], *["something else entirely"] * 12)))
    rows = [
        embed_dataset(people((content,)), SMALL, learn_from=lambda own: np.arange(12))[0].features.iloc[:12]
        for content in (LETTERS, other)
    ]
    pd.testing.assert_frame_equal(*rows)


def test_odd_texts_are_counted_in_notes() -> None:
    odd = replace(LETTERS, cells=Inline((None, "a\x00b", "long " * 30_000, *TEXTS[3:])))
    notes = " ".join(embed_dataset(people((odd,)), SMALL)[0].notes)
    for said in ("is empty in 1 row(s), first in row 0", "control characters", "longer than 100,000 characters"):
        assert said in notes


def test_an_ordinary_column_of_an_embedded_name_is_refused() -> None:
    raw = people((LETTERS,))
    raw = replace(raw, features=raw.features.rename(columns={"age": "letter.0"}))
    with pytest.raises(InputError, match=r"Column 'letter.0' has the name of an embedded one"):
        embed_dataset(raw, SMALL)


def test_what_embeds_can_be_saved_and_gives_new_people_the_same_numbers(tmp_path: Path) -> None:
    raw = people((pictures(), LETTERS))
    found, made = embed_dataset(raw, SMALL)
    again = saved_contents(*packed_contents(made))
    frame = again.embedded(raw.features, raw.contents)
    pd.testing.assert_frame_equal(frame, found.features)
    facts, arrays = packed_contents(made)
    facts[0]["fingerprint"] = "another"
    with pytest.raises(InputError, match="is not the one that the classifier was made with"):
        saved_contents(facts, arrays)
