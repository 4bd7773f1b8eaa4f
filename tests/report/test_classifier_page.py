"""The report of a fitted classifier says what the classifier says, and shows itself in a notebook."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import numpy as np
import pytest

from apod import APODClassifier, make_example, report
from apod.report import of

PEOPLE = make_example(300, seed=1)
FEW = np.where(np.arange(300) < 40, np.array(PEOPLE.group_names, dtype=object)[PEOPLE.groups], None)


@pytest.fixture(scope="module")
def fitted() -> APODClassifier:
    return APODClassifier(random_state=0).fit(PEOPLE.features, PEOPLE.labels, sensitive_features=FEW)


def test_the_page_has_the_choice_its_reason_and_every_strength(fitted: APODClassifier) -> None:
    page = of(fitted).html
    assert report.of is of
    assert unescape(page).count(fitted.selected_because_ or "") == 1
    assert fitted.selection_ is not None
    before = fitted.selection_.before
    assert before is not None
    assert before.high - before.low > 0.8  # so few answers leave nearly everything open, and the page says so
    assert "not known yet" in page
    assert f"All of {100 * before.low:.1f} to {100 * before.high:.1f} fits the answers" in page
    for strength in fitted.tradeoff_["strength"]:
        assert f"{strength:.3g}</th>" in page
    assert page.count('class="marked"') == 1
    assert "http" not in page.replace("http-equiv", "")


def test_heads_have_a_page_too() -> None:
    heads = APODClassifier(body="contrastive", strengths=(0.5,), body_epochs=1, epochs=1, random_state=0)
    page = of(heads.fit(PEOPLE.features, PEOPLE.labels, sensitive_features=FEW)).html
    assert "Fairness by guessed groups" in page


def test_a_notebook_shows_it_in_a_frame_and_a_file_holds_it(fitted: APODClassifier, tmp_path: Path) -> None:
    shown = of(fitted)
    inline = shown._repr_html_()
    assert inline.startswith("<iframe")
    assert unescape(inline.split('srcdoc="')[1]).startswith(shown.html[:200])
    assert shown.save(tmp_path / "page.html").read_text() == shown.html
