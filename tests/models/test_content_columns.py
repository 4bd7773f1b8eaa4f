"""Pictures, texts and ordinary columns side by side: every row keeps its own, and bad ones are counted."""

from __future__ import annotations

import io
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
