"""Texts without a download: what is alike lies close, and nothing but hashes of shared n-grams is kept."""

from __future__ import annotations

import numpy as np
import pytest

from apod.errors import InputError
from apod.models.hashed_text import HashedText, clean_text, fit_hashed_text

COOKS = ["the cook fries fish", "a cook bakes fresh bread", "the baker bakes bread", "cooks fry and bake fish"]
PILOTS = ["the pilot lands a plane", "a pilot flies planes", "planes land at night", "the plane flies at night"]
CHINESE = ["厨师煎鱼和面包", "厨师烤面包和鱼", "飞行员驾驶飞机", "飞机由飞行员驾驶"]


def embed(embedder: HashedText, texts: list[str]) -> np.ndarray:
    return embedder.forward([embedder.prepare(text.encode()) for text in texts])


def nearest(rows: np.ndarray) -> list[int]:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    alike = unit @ unit.T
    np.fill_diagonal(alike, -1)
    return alike.argmax(axis=1).tolist()


@pytest.mark.parametrize("texts", [COOKS + PILOTS, CHINESE * 3], ids=["words", "no blanks"])
def test_texts_about_the_same_are_nearest_to_each_other(texts: list[str]) -> None:
    half = len(COOKS) if texts[0] == COOKS[0] else None
    embedder = fit_hashed_text(texts * 3)
    for row, other in enumerate(nearest(embed(embedder, texts[:8] if half else CHINESE))):
        middle = half or 2
        assert (row < middle) == (other < middle)


def test_the_reduction_is_the_exact_svd_of_the_weighted_counts() -> None:
    texts = (COOKS + PILOTS) * 2
    embedder = fit_hashed_text(texts)
    rows = embed(embedder, texts)
    singular = np.linalg.norm(rows, axis=0)  # columns of U S
    gram = rows @ rows.T
    values = np.sqrt(np.linalg.eigvalsh(gram)[::-1][: len(singular)].clip(0))
    np.testing.assert_allclose(np.sort(singular)[::-1], values, atol=1e-4)
    np.testing.assert_allclose(np.diag(gram), 1, atol=1e-4)  # full rank: nothing of a text is lost


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    embedder = fit_hashed_text((COOKS + PILOTS) * 3)
    assert (embed(embedder, COOKS)[2] == embed(embedder, COOKS[2:3])[0]).all()


def test_an_empty_text_and_one_of_strange_words_are_zeros() -> None:
    assert not embed(fit_hashed_text((COOKS + PILOTS) * 3), ["", "\x00\x01", "☃☃☃☃☃"]).any()


def test_control_characters_case_and_width_do_not_matter() -> None:
    assert clean_text("The\x00 ＣＯＯＫ\n\x1b[31mfries") == "the cook [31mfries"


def test_ten_megabytes_in_one_cell_are_read_at_the_beginning_alone() -> None:
    embedder = fit_hashed_text((COOKS + PILOTS) * 3)
    long = ("the cook fries fish " * 5000)[:100_000] + "the pilot lands a plane " * 400_000
    assert len(long) > 9_000_000
    np.testing.assert_allclose(embed(embedder, [long]), embed(embedder, [long[:100_000]]))


def test_it_is_the_same_from_its_arrays_which_hold_no_words() -> None:
    embedder = fit_hashed_text((COOKS + PILOTS) * 3)
    again = HashedText.from_arrays(embedder.arrays())
    assert again.fingerprint == embedder.fingerprint
    assert (embed(again, PILOTS) == embed(embedder, PILOTS)).all()
    assert b"pilot" not in b"".join(array.tobytes() for array in embedder.arrays().values())
    with pytest.raises(InputError, match="damaged"):
        HashedText.from_arrays({**embedder.arrays(), "weights": embedder.weights[:-1]})


def test_texts_that_share_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="no words are shared"):
        fit_hashed_text(["", "", "", ""])
