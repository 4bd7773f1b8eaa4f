"""Pictures of a fitted classifier on matplotlib axes, in the manner of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from apod.data.columns import binary_labels
from apod.data.dataset import IntArray
from apod.errors import InputError
from apod.fairness.metrics import RATE_WORDS, RateName, group_counts
from apod.fairness.resampling import bootstrap
from apod.randomness import generator

if TYPE_CHECKING:
    from apod.classifier.estimator import APODClassifier

RATES: tuple[RateName, ...] = ("tpr", "fpr")


class GroupRatesDisplay:
    """Every group's true and false positive rate, with 95 % intervals, of one or more sets of predictions.

    Parameters
    ----------
    rates : DataFrame
        A row per set of predictions, group and rate: `predictions`, `group`, `rate`, `people`, `value`, `low`, `high`.

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, *, rates: pd.DataFrame) -> None:
        self.rates = rates

    @classmethod
    def from_predictions(
        cls,
        y_true: npt.ArrayLike,
        predictions: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
        *,
        sensitive_features: Sequence[Any],
        positive: object = None,
        ax: Any = None,
        random_state: int = 0,
    ) -> Self:
        """Of predicted labels (n,), or of several by name; people without a group (NaN, None) are left out."""
        labels = binary_labels("y_true", pd.Series(np.asarray(y_true)), positive)
        codes, names = pd.factorize(pd.Series(list(sensitive_features), dtype=object), sort=True)
        if len(names) < 2:
            raise InputError(f"sensitive_features names {len(names)} group(s): there must be at least two to compare.")
        sets = predictions if isinstance(predictions, Mapping) else {"predictions": predictions}
        rows: list[RateRow] = []
        for name, predicted in sets.items():
            decided = (np.asarray(predicted) == labels.values[1]).astype(np.int64)
            rows += _rates(name, labels.codes, decided, codes.astype(np.int64), [str(n) for n in names], random_state)
        return cls(rates=pd.DataFrame(rows)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: APODClassifier, X: Any, y: npt.ArrayLike, *, sensitive_features: Sequence[Any], ax: Any = None
    ) -> Self:
        """Of a fitted `APODClassifier` on people whose groups are known, beside itself without mitigation."""
        predictions = {"without mitigation": estimator.at(0.0).predict(X)}
        if estimator.selected_strength_ > 0:
            predictions["with mitigation"] = estimator.predict(X)
        return cls.from_predictions(
            y, predictions, sensitive_features=sensitive_features, positive=estimator.positive_, ax=ax
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw; gives the display."""
        self.ax_, self.figure_ = _axes(ax)
        sets = list(dict.fromkeys(self.rates["predictions"]))
        places = [f"{RATE_WORDS[rate]}, {group}" for rate in RATES for group in dict.fromkeys(self.rates["group"])]
        for number, name in enumerate(sets):
            mine = self.rates[self.rates["predictions"] == name]
            titles = mine["rate"].map(lambda rate: RATE_WORDS[rate])
            y = [
                -places.index(f"{title}, {group}") + 0.18 * ((len(sets) - 1) / 2 - number)
                for title, group in zip(titles, mine["group"], strict=True)
            ]
            reach = np.abs(mine[["low", "high"]].to_numpy() - mine[["value"]].to_numpy()).T
            self.ax_.errorbar(mine["value"], y, xerr=reach, fmt="o", capsize=3, label=name)
        self.ax_.set(yticks=[-place for place in range(len(places))], yticklabels=places, xlabel="rate")
        if len(sets) > 1:
            self.ax_.legend()
        return self


class TradeoffDisplay:
    """What every strength of a fitted classifier costs and brings; the one in use is marked.

    Parameters
    ----------
    tradeoff : DataFrame
        `APODClassifier.tradeoff_`.
    selected_strength : float

    Attributes
    ----------
    ax_ : Axes
    figure_ : Figure
    """

    ax_: Any
    figure_: Any

    def __init__(self, *, tradeoff: pd.DataFrame, selected_strength: float) -> None:
        self.tradeoff, self.selected_strength = tradeoff, selected_strength

    @classmethod
    def from_estimator(cls, estimator: APODClassifier, *, ax: Any = None) -> Self:
        """Of a fitted `APODClassifier`."""
        return cls(tradeoff=estimator.tradeoff_, selected_strength=estimator.selected_strength_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; gives the display. Of a correction the gap to expect, of heads what the validation part says."""
        self.ax_, self.figure_ = _axes(ax)
        table = self.tradeoff
        if "gap" in table.columns:
            x, y = 100 * table["accuracy_lost"], 100 * table["gap"]
            words = ("accuracy lost, points", "gap to expect, points")
            reach = 100 * np.abs(table[["gap_low", "gap_high"]].to_numpy() - table[["gap"]].to_numpy()).T
            self.ax_.errorbar(x, y, yerr=reach, fmt="o-", capsize=2, elinewidth=0.6, label="strengths, 95% intervals")
        else:
            x, y = table["validation_accuracy"], table["validation_fairness"]
            words = ("accuracy, validation part", "fairness by guessed groups")
            self.ax_.plot(x, y, "o-", label="strengths")
        chosen = int(np.argmin(np.abs(table["strength"].to_numpy() - self.selected_strength)))
        self.ax_.plot(x.iloc[chosen], y.iloc[chosen], "D", markersize=9, label=f"in use: {self.selected_strength:g}")
        self.ax_.set(xlabel=words[0], ylabel=words[1])
        self.ax_.legend()
        return self


class RateRow(TypedDict):
    """One group's rate by one set of predictions, with its interval."""

    predictions: str
    group: str
    rate: RateName
    people: int
    value: float
    low: float
    high: float


def _rates(
    name: str, labels: IntArray, decided: IntArray, codes: IntArray, groups: list[str], seed: int
) -> list[RateRow]:
    """The rates of one set of predictions, each with its interval; a rate of nobody is NaN."""
    counts = group_counts(labels, decided, codes, len(groups))
    found = bootstrap(counts, generator(seed, "group rates", name))
    return [
        {
            "predictions": name,
            "group": group,
            "rate": rate,
            "people": int(((codes == code) & (labels == (rate == "tpr"))).sum()),
            "value": float(found[rate].value[code]),
            "low": float(found[rate].low[code]),
            "high": float(found[rate].high[code]),
        }
        for rate in RATES
        for code, group in enumerate(groups)
    ]


def _axes(ax: Any) -> tuple[Any, Any]:
    if find_spec("matplotlib") is None:
        raise InputError("Matplotlib is not installed: pip install 'apod-fairness[bench]'.")
    import matplotlib.pyplot as plt

    ax = ax if ax is not None else plt.subplots()[1]
    return ax, ax.figure
