"""Displays show what was counted, on axes that are given or new."""

from __future__ import annotations

import numpy as np
import pytest

from apod import APODClassifier, GroupRatesDisplay, TradeoffDisplay, make_example
from apod.errors import InputError

pytest.importorskip("matplotlib").use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

PEOPLE = make_example(400, seed=1)
NAMES = np.array(PEOPLE.group_names, dtype=object)[PEOPLE.groups]


@pytest.fixture(scope="module")
def fitted() -> APODClassifier:
    told = NAMES.copy()
    told[40:] = None
    return APODClassifier(random_state=0).fit(PEOPLE.features, PEOPLE.labels, sensitive_features=told)


@pytest.fixture(autouse=True)
def _closed():  # type: ignore[no-untyped-def]
    yield
    plt.close("all")


def test_every_groups_rates_are_those_counted_by_hand() -> None:
    rng = np.random.default_rng(0)
    decided = np.where(rng.random(400) < 0.3, 1 - PEOPLE.labels, PEOPLE.labels)
    words = np.array(["no", "yes"])
    known = np.where(np.arange(400) % 5 == 0, None, NAMES)
    shown = GroupRatesDisplay.from_predictions(words[PEOPLE.labels], words[decided], sensitive_features=known)
    for row in shown.rates.itertuples():
        mine = (known == row.group) & (PEOPLE.labels == (row.rate == "tpr"))
        assert row.people == mine.sum()
        assert row.value == pytest.approx(decided[mine].mean())
        assert row.low <= row.value <= row.high
        spread = 1.96 * np.sqrt(row.value * (1 - row.value) / mine.sum())
        assert row.high - row.low == pytest.approx(2 * spread, rel=0.35)
    assert len(shown.rates) == 4
    assert [tick.get_text() for tick in shown.ax_.get_yticklabels()] == [
        f"{rate}, {group}" for rate in ("TPR", "FPR") for group in sorted(PEOPLE.group_names)
    ]


def test_a_fitted_classifier_stands_beside_itself_without_mitigation(fitted: APODClassifier) -> None:
    shown = GroupRatesDisplay.from_estimator(fitted, PEOPLE.features, PEOPLE.labels, sensitive_features=NAMES)
    sets = ["without mitigation", *(["with mitigation"] if fitted.selected_strength_ else [])]
    assert list(dict.fromkeys(shown.rates["predictions"])) == sets
    base = fitted.at(0.0).predict(PEOPLE.features)
    first = shown.rates.iloc[0]
    mine = (first["group"] == NAMES) & (PEOPLE.labels == 1)
    assert first["value"] == pytest.approx(base[mine].mean())


def test_the_tradeoff_is_drawn_with_the_strength_in_use(fitted: APODClassifier) -> None:
    _, ax = plt.subplots()
    shown = TradeoffDisplay.from_estimator(fitted, ax=ax)
    assert shown.ax_ is ax
    assert shown.figure_ is ax.figure
    chosen = fitted.tradeoff_[fitted.tradeoff_["strength"] == fitted.selected_strength_].iloc[0]
    marked = ax.lines[-1]
    assert marked.get_xdata()[0] == pytest.approx(100 * chosen["accuracy_lost"])
    assert marked.get_ydata()[0] == pytest.approx(100 * chosen["gap"])


def test_one_group_is_nothing_to_compare() -> None:
    with pytest.raises(InputError, match="names 1 group"):
        GroupRatesDisplay.from_predictions(PEOPLE.labels, PEOPLE.labels, sensitive_features=["a"] * 400)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apod.classifier.displays.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Matplotlib is not installed: pip install 'apod-fairness\[bench\]'"):
        GroupRatesDisplay.from_predictions(PEOPLE.labels, PEOPLE.labels, sensitive_features=NAMES)
