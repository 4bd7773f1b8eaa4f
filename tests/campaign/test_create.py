"""What a campaign is made from, and what an annotator sees of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import standin

from apod.campaign import Campaign
from apod.data import blocks
from apod.data.columns import looks_like_person_names
from apod.data.own import holds_groups
from apod.errors import InputError
from apod.testing.engines import GROUPS, Workshop, pool

FIRST = ["Ada", "Grace", "Alan", "Emmy", "Kurt", "Mary", "John", "Rosa", "Ivan", "Lise"]
LAST = ["Lovelace", "Hopper", "Turing", "Noether", "Gödel", "O'Brien", "von Neumann", "Parks", "Petrov", "Meitner"]


def people(rows: int = 40) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "applicant": [f"{FIRST[i % 10]} {LAST[(i // 10 + i) % 10]}" for i in range(rows)],
            "surname": [LAST[i % 10] for i in range(rows)],
            "age": [20 + i for i in range(rows)],
            "town": ["Ulm" if i % 3 else "Bad Aibling" for i in range(rows)],
            "sex": [("f", "m")[i % 2] for i in range(rows)],
            "hired": [("no", "yes")[i % 5 == 0] for i in range(rows)],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def from_table(table: Path, **options: object) -> Campaign:
    settings = {"label": "hired", "groups": ["f", "m"], "budget": 5, "sensitive": "sex", "engine": standin.build}
    return Campaign.create_from_table(table.with_suffix(".db"), table, **{**settings, **options})  # type: ignore[arg-type]


def test_a_table_shows_all_but_label_names_of_persons_and_the_recorded_group(table: Path) -> None:
    with from_table(table) as campaign:
        assert campaign.settings.show == ("age", "town")
        assert campaign.shown(3) == ("3", {"age": "23", "town": "Bad Aibling"})
        assert list(campaign.materials.features().columns) == ["age", "town"]  # type: ignore[union-attr]
        assert campaign.settings.label_names == ("no", "yes")
        assert campaign.materials.labels().tolist() == [int(i % 5 == 0) for i in range(40)]


def test_hidden_columns_are_not_even_stored(table: Path) -> None:
    with from_table(table) as campaign:
        everything = b"".join(path.read_bytes() for path in campaign.files.folder.rglob("*") if path.is_file())
    assert b"Bad Aibling" in everything
    assert b"Lovelace" not in everything


def test_columns_can_be_asked_for_and_the_label_too(table: Path) -> None:
    campaign = from_table(table, show=["surname", "age"], show_label=True, id_column="applicant")
    with campaign:
        campaign._factory = lambda materials: _Fixed()  # type: ignore[assignment, return-value]
        question = campaign.ask()
        assert question is not None
        assert question.display.keys() == {"surname", "age"}
        assert question.label == ("no", "yes")[question.row % 5 == 0]
        assert question.row_id == people().applicant[question.row]
    with pytest.raises(InputError, match="'salary'"):
        from_table(table, show=["salary"], name="other")


@pytest.mark.parametrize(
    ("column", "said"), [("sex", "recorded group"), ("hired", "says the label"), ("taken", "label")]
)
def test_neither_the_recorded_group_nor_the_label_is_shown_by_asking_for_the_column(
    table: Path, column: str, said: str
) -> None:
    frame = people()
    frame["taken"] = frame["hired"].map({"no": "sent away", "yes": "taken"})
    frame.to_csv(table, index=False)
    with pytest.raises(InputError, match=said) as caught:
        from_table(table, show=["age", column], drop=["taken"])
    assert "\n" not in str(caught.value)
    if column != "sex":
        with from_table(table, show=["age", column], drop=["taken"], show_label=True) as campaign:
            assert campaign.settings.show == ("age", column)


def test_a_refused_campaign_leaves_nothing_of_the_people_behind(table: Path) -> None:
    frame = people()
    frame["gender"] = frame["sex"]
    frame.to_csv(table, index=False)
    folder = table.with_suffix(".db.files")
    with pytest.raises(InputError, match="gender"):
        from_table(table)
    assert not folder.exists()
    with from_table(table, drop=["gender"]) as campaign:
        assert folder.stat().st_mode & 0o777 == 0o700
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(InputError, match="gender"):
            from_table(table, name="other")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert campaign.shown(3)[1] == {"age": "23", "town": "Bad Aibling"}


class _Fixed:
    def propose(self, model: object, answers: object, unavailable: set[int], k: int) -> list[object]:
        from apod.campaign import Proposal

        return [Proposal(row, {"rule": "fixed"}, "audit", 0.25) for row in range(40) if row not in unavailable][:k]

    def fit(self, answers: object, start: object) -> None:
        return None


def test_purpose_and_probability_are_stored_with_every_question(table: Path) -> None:
    with from_table(table, refit="demand") as campaign:
        campaign._factory = lambda materials: _Fixed()  # type: ignore[assignment, return-value]
        question = campaign.ask()
        campaign.tell(question, "f")  # type: ignore[arg-type]
        assert campaign.owner.probabilities("audit") == {0: 0.25}
        assert campaign.owner.answers() == ()
        assert [answer.row for answer in campaign.owner.answers("audit")] == [0]
        assert campaign.status().by_purpose == {"audit": 1}


def test_the_label_is_hidden_under_any_name() -> None:
    labels = np.arange(40) % 2
    frame = pd.DataFrame({"age": range(40), "outcome": ["taken" if y else "sent away" for y in labels]})
    from apod.campaign.create import _is_label

    assert _is_label(frame["outcome"], labels)
    assert not _is_label(frame["age"], labels)
    assert not _is_label(pd.Series(labels).sample(frac=1, random_state=1), labels)


def test_a_recoded_copy_of_the_recorded_group_is_refused_as_a_feature(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 200)
    table = pd.DataFrame({"hired": rng.integers(0, 2, 200), "sex": sex, "years": rng.normal(size=200)})
    table["code"] = (sex == "f").astype(int)
    table.to_csv(tmp_path / "people.csv", index=False)
    settings = {"label": "hired", "groups": ["f", "m"], "budget": 5, "sensitive": "sex", "engine": standin.build}
    with pytest.raises(InputError, match="'code' is 'sex' once more"):
        Campaign.create_from_table(tmp_path / "c.db", tmp_path / "people.csv", **settings)
    Campaign.create_from_table(tmp_path / "c.db", tmp_path / "people.csv", drop=["code"], **settings).close()


def test_the_sensitive_attribute_itself_is_refused_as_a_feature(on_sqlite: Workshop, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": range(40), "secret": [GROUPS[i % 2].upper() for i in range(40)]})
    with pytest.raises(InputError, match="'secret'"):
        Campaign.create(tmp_path / "x.db", frame, np.arange(40) % 2, groups=GROUPS, budget=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("title", "values", "expected"),
    [
        ("first_name", ["x"] * 5, True),
        ("lastName", ["x"] * 5, True),
        ("Name", ["x"] * 5, True),
        ("company_name", ["Acme"] * 5, False),
        ("who", [f"{a} {b}" for a in FIRST for b in LAST], True),
        ("who", [f"{b}, {a}" for a in FIRST for b in LAST], True),
        ("occupation", ["Exec managerial", "Tech support", "Craft repair"] * 10, False),
        ("native-country", ["United-States", "Puerto-Rico"] * 10, False),
        ("town", ["New York", "Los Angeles"] * 20, False),
        ("note", [f"was late on day {i}" for i in range(30)], False),
        ("age", list(range(30)), False),
        ("username_length", [1, 2, 3, 4, 5], False),
    ],
)
def test_columns_that_name_persons_are_recognised(title: str, values: list[object], expected: bool) -> None:
    assert looks_like_person_names(title, pd.Series(values)) is expected


def test_a_column_of_group_names_is_recognised() -> None:
    assert holds_groups(pd.Series(["F", " m", None]), ["f", "m"])
    assert not holds_groups(pd.Series(["f", "x"]), ["f", "m"])
    assert not holds_groups(pd.Series([0, 1]), ["0", "1"])


def test_an_array_without_a_table_shows_its_numbers(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    question = campaign.ask()
    assert question is not None
    features = np.asarray(campaign.materials.features())
    assert list(question.display.values()) == features[question.row].tolist()


def test_every_value_of_a_table_is_shown_as_it_is(on_sqlite: Workshop) -> None:
    frame = pd.DataFrame(
        {
            "text": [f'"{i}"\n\u2028</script> 🦄\x00' for i in range(200)],
            "number": [i / 7 for i in range(200)],
            "gap": [None if i % 2 else i for i in range(200)],
            "flag": [bool(i % 2) for i in range(200)],
            "day": pd.date_range("2020-01-01", periods=200),
        }
    )
    campaign = on_sqlite.create(display=frame)
    for row in (0, 1, 99, 199):
        _, shown = campaign.shown(row)
        assert shown["text"] == frame.text[row]
        assert shown["number"] == pytest.approx(row / 7, rel=1e-14)
        assert shown["gap"] == (None if row % 2 else row)
        assert shown["flag"] is bool(row % 2)
        assert shown["day"].startswith(str(frame.day[row].date()))


def test_a_table_of_features_comes_back_with_its_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1.5, -2.0, 3.0, 4.0], "c": ["x", None, "y", "x"], "b": [True, False, True, True]})
    with Campaign.create(tmp_path / "x.db", frame, [0, 1, 0, 1], groups=GROUPS, budget=2) as campaign:
        found = campaign.materials.features()
    assert list(found.columns) == ["n", "c", "b"]  # type: ignore[union-attr]
    assert found["n"].tolist() == [1.5, -2.0, 3.0, 4.0]
    assert found["c"].tolist()[0] == "x"
    assert found["c"].isna().tolist() == [False, True, False, False]
    assert found["b"].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_pictures_are_found_by_path_and_only_in_their_folder(on_sqlite: Workshop, tmp_path: Path) -> None:
    frame = pd.DataFrame({"picture": [f"faces/{row}.jpg" for row in range(200)], "age": range(200)})
    pictures = {"image_column": "picture", "image_root": str(tmp_path)}
    question = on_sqlite.create(display=frame, show=["age"], **pictures).ask()
    assert question is not None
    assert question.image == str(tmp_path / "faces" / f"{question.row}.jpg")
    assert question.display == {"age": question.row}


def test_missing_legal_basis_and_guidelines_are_reminded_of_and_never_block(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create()
    assert len(campaign.status().reminders) == 2
    full = on_sqlite.create(name="full", legal_basis="Art. 9(2)(a): consent", guidelines="Ask kindly.")
    status = full.status()
    assert (status.reminders, status.legal_basis, status.guidelines) == ((), "Art. 9(2)(a): consent", "Ask kindly.")


@pytest.mark.parametrize("labels", [[0] * 200, list(range(200)), [0, 1] * 50, [0, None] * 100])
def test_labels_must_be_two_and_one_per_row(on_sqlite: Workshop, tmp_path: Path, labels: list[object]) -> None:
    with pytest.raises(InputError):
        Campaign.create(tmp_path / "x.db", np.zeros((200, 2)), labels, groups=GROUPS, budget=3)


def test_postgresql_needs_a_folder_for_its_matrices() -> None:
    with pytest.raises(InputError, match="APOD_FILES"):
        Campaign.create("postgresql://127.0.0.1/x", np.zeros((4, 2)), [0, 1, 0, 1], groups=GROUPS, budget=2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.7e308])
@pytest.mark.parametrize("form", ["table", "matrix", "large matrix"])
def test_a_pool_with_a_number_nobody_can_scale_is_refused_with_its_column(
    value: float, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = pool(200)
    features[:, 2] = -np.abs(value) if np.isfinite(value) else features[:, 2]
    features[7, 2] = value
    given = pd.DataFrame(features).add_prefix("x") if form == "table" else features
    if form == "large matrix":
        monkeypatch.setattr(blocks, "LARGE", 100)
    body = {"body": "precomputed"} if np.isnan(value) else {}  # elsewhere a missing number is welcome
    with pytest.raises(InputError, match="Column 'x2'"):
        Campaign.create(tmp_path / "x.db", given, labels, groups=GROUPS, budget=3, engine_options=body)
    assert not (tmp_path / "x.db").exists()


def test_missing_numbers_are_welcome_in_a_campaign_and_its_classifier(tmp_path: Path) -> None:
    features, labels = pool(200)
    frame = pd.DataFrame(features).add_prefix("x").assign(y=labels)
    frame.loc[::9, "x1"] = np.nan
    frame.to_csv(tmp_path / "people.csv", index=False)
    options = {"preset": "heads", "strengths": [0.2], "body_epochs": 1, "epochs": 1}
    settings = {"label": "y", "groups": GROUPS, "budget": 6, "audit_share": 0.0, "refit": "demand"}
    with Campaign.create_from_table(
        tmp_path / "x.db", tmp_path / "people.csv", engine_options=options, **settings
    ) as campaign:
        for number in range(6):
            question = campaign.ask(annotator="maria")
            assert question is not None
            campaign.tell(question, GROUPS[number % 2])
        predicted = campaign.classifier().predict_proba(frame.drop(columns="y"))
    assert np.isfinite(predicted).all()


def test_a_number_too_large_beside_those_that_are_learned_from_is_refused_at_creation(tmp_path: Path) -> None:
    features, labels = pool(200)
    for row in range(200):  # whoever is held out, and so not among those the scale is learned from
        changed = features.copy()
        changed[row, 1] = 1e308
        try:
            made = Campaign.create(
                tmp_path / f"{row}.db", changed, labels, groups=GROUPS, budget=10, audit_share=0.3, refit="demand",
                engine_options={"preset": "heads", "strengths": [0.2], "body_epochs": 1, "epochs": 1},
            )  # fmt: skip
        except InputError as error:
            assert "Column 'x1' has a value too large to be scaled" in str(error)  # noqa: PT017
            return
        made.close()
    pytest.fail("nobody was held out")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("lease_seconds", value) for value in (float("inf"), float("nan"), 1e12, 0, -1, 1e-9, "60", True, None)),
        *((name, value) for name in ("overlap", "gold_every", "lookahead") for value in (0, 1.5, "2", True, 10**12)),
        ("seed", "x"),
        ("seed", 1.5),
    ],
)
def test_a_setting_with_which_nothing_could_be_asked_is_refused_with_its_value(
    setting: str, value: object, tmp_path: Path
) -> None:
    features, labels = pool(50)
    with pytest.raises(InputError, match=re.escape(repr(value))):
        Campaign.create(tmp_path / "x.db", features, labels, groups=GROUPS, budget=3, **{setting: value})
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize("days", [float("inf"), float("nan"), 0.0, -1.0, 1e9])
def test_tasks_are_handed_out_for_a_time_that_ends(days: float, on_sqlite: Workshop, tmp_path: Path) -> None:
    campaign = on_sqlite.create()
    with pytest.raises(InputError, match=r"from 0\.001"):
        campaign.owner.export(tmp_path / "tasks.json", tasks=2, task_days=days)
    assert campaign.status().pending == 0
