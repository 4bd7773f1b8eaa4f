"""One rule says which label is the positive one, whoever asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apod import APODClassifier, Campaign
from apod.audit.table import AuditColumns, read_audit
from apod.data import load_dataset
from apod.data.columns import binary_labels, table_labels
from apod.errors import InputError, UnknownName

CASES = [
    (["Yes", "no"], "Yes"),  # sorted, "Yes" comes first
    (["N", "y"], "y"),
    (["bad", "good"], "good"),
    ([0, 1], 1),
    ([1, 2], 1),
    ([9, 10], 10),
    ([-1.0, 1.0], 1.0),
    ([False, True], True),
]


def table(values: list[object]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    features = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    return features.assign(label=pd.Series([values[row % 2] for row in range(40)]))


@pytest.mark.parametrize(("values", "positive"), CASES)
@pytest.mark.parametrize("turned", [False, True])
def test_tables_campaigns_audits_and_fit_choose_the_same_positive_label(
    values: list[object], positive: object, turned: bool, tmp_path: Path
) -> None:
    frame = table(values[::-1] if turned else values)
    truth = (frame["label"] == positive).astype(int).tolist()
    path = tmp_path / "people.parquet"
    frame.assign(model=truth, group=["f", "m"] * 20).to_parquet(path)

    assert load_dataset(path, label="label", drop=["model", "group"]).labels.tolist() == truth

    audited = read_audit(path, AuditColumns("label", ("model",), features=()))
    assert audited.labels.tolist() == truth

    options = {"groups": ["p", "q"], "budget": 3, "refit": "demand"}
    with Campaign.create(tmp_path / "a.db", frame[["a", "b"]], frame["label"], **options) as one:
        assert one.materials.labels().tolist() == truth
    with Campaign.create_from_table(tmp_path / "b.db", path, label="label", drop=["model", "group"], **options) as two:
        assert two.materials.labels().tolist() == truth

    fitted = APODClassifier(body="contrastive", rounds=1, epochs=1, body_epochs=1, random_state=0).fit(
        frame[["a", "b"]], frame["label"]
    )
    assert fitted.positive_ == positive
    assert fitted.classes_.tolist() == sorted(values)


def test_the_positive_label_of_fit_can_be_chosen_and_changes_what_tpr_means_not_who_is_predicted_what() -> None:
    frame = table(["bad", "good"])
    groups = ["f", "f", "m", "m"] * 10
    heads: dict[str, Any] = {"body": "contrastive", "strengths": (0.5,), "rounds": 1, "epochs": 1, "body_epochs": 1}
    good, bad = (
        APODClassifier(**heads, positive=positive, strength=0.5, random_state=0).fit(
            frame[["a", "b"]], frame["label"], sensitive_features=groups
        )
        for positive in ("good", "bad")
    )
    assert (good.positive_, bad.positive_) == ("good", "bad")
    assert good.classes_.tolist() == bad.classes_.tolist() == ["bad", "good"]
    for one in (good, bad):
        annotated = frame.iloc[one.training_rows_]
        mine = np.array(groups)[one.training_rows_] == "f"
        true = (annotated["label"] == one.positive_).to_numpy() & mine
        recognised = (one.predict(annotated[["a", "b"]]) == one.positive_)[true].mean()
        assert one.tradeoff_.set_index("strength").loc[0.5, "tpr_f"] == pytest.approx(recognised)
        decided = one.decision_function(frame[["a", "b"]]) > 0
        assert (one.predict(frame[["a", "b"]]) == one.classes_[decided.astype(int)]).all()
    with pytest.raises(UnknownName, match="goood"):
        APODClassifier(positive="goood").fit(frame[["a", "b"]], frame["label"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series([1, "1", 1], dtype=object), "both as a number and as text"),
        (pd.Series(["a", "b", "c"]), "3 different values in 3 rows"),
        (pd.Series(["a", "b", "c"] * 10), r"3 distinct values \(a, b, c\); a binary label has two"),
        (pd.Series(["a", "a"]), "one value only"),
        (pd.Series(["a", "b\x1b[31m"]), "control character"),
    ],
)
def test_what_is_no_binary_label_is_refused_in_a_line(column: pd.Series[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        binary_labels("y", column)


def test_more_than_two_labels_stand_in_ascending_order_numbers_by_size() -> None:
    found = table_labels("y", pd.Series([10, 9, 100] * 10))
    assert found.names == ("9", "10", "100")
    assert found.values == (9, 10, 100)
    assert found.codes[:3].tolist() == [1, 0, 2]
    texts = table_labels("y", pd.Series(["low", "high", "none"] * 10))
    assert texts.names == texts.values == ("high", "low", "none")


@pytest.mark.parametrize(
    ("column", "positive", "message"),
    [
        (pd.Series(["a", "b", "c"] * 10), "a", "3 labels, none of which is the positive one: leave --positive out"),
        (pd.Series(["a"] * 50 + ["b"] * 50 + ["c"] * 3), None, r"'c' in 3 row\(s\), and a label needs at least 10"),
        (pd.Series(range(100)).repeat(20), None, "100 different values in 2000 rows, and at most 20 labels"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused_in_a_line(
    column: pd.Series[object], positive: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        table_labels("y", column, positive)
    assert "\n" not in str(caught.value)
