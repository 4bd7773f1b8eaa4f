"""What lies beside the log is as the log says: checked before it is shown or learnt from, and by `log verify`."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text, update

from apod.campaign import Campaign, schema
from apod.campaign.errors import FileDamaged, StoreError
from apod.testing.engines import GROUPS, Workshop, answer_all, group_of, pool
from support.store_contract import tampering


def put(folder: Path, array: np.ndarray, name: str | None = None) -> str:
    """Write an array under the hash of its content, or in place of another."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    name = name or hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / f"{name}.npy").write_bytes(buffer.getvalue())
    return name


def shown_table(rows: int = 200) -> pd.DataFrame:
    return pd.DataFrame({"town": [f"town {row}" for row in range(rows)], "age": range(rows)})


def test_a_list_of_files_that_points_at_inverted_labels_teaches_nothing_and_shows(workshop: Workshop) -> None:
    campaign = workshop.create(budget=4)
    answer_all(campaign)
    true = campaign.materials.labels()
    manifest = {**campaign.materials.manifest, "labels": put(workshop.place.files, (1 - true).astype(np.int8))}
    with campaign.store.writing() as connection:
        connection.execute(update(schema.campaigns).values(materials=json.dumps(manifest)))
    again = workshop.open()
    np.testing.assert_array_equal(again.materials.labels(), true)
    check = again.owner.verify_log()
    assert (check.ok, len(check.problems)) == (False, 1)
    assert "list of files" in check.problems[0]


def test_guidelines_changed_in_the_database_reach_nobody_and_show(workshop: Workshop) -> None:
    campaign = workshop.create(guidelines="Decide by the application alone.")
    with campaign.store.writing() as connection:
        connection.execute(text("UPDATE apod_campaigns SET settings = replace(settings, 'application', 'face')"))
    again = workshop.open()
    assert again.status().guidelines == again.settings.guidelines == "Decide by the application alone."
    assert not again.owner.verify_log().ok


def test_a_first_event_that_was_changed_is_refused_before_anybody_is_asked(workshop: Workshop) -> None:
    campaign = workshop.create(guidelines="Decide by the application alone.")
    with tampering(campaign.store), campaign.store.writing() as connection:
        connection.execute(text("UPDATE apod_events SET body = replace(body, 'application', 'face') WHERE seq = 1"))
    again = workshop.open()
    with pytest.raises(StoreError, match="first event was changed"):
        again.ask()
    assert not again.owner.verify_log().ok


def rewrite_shown(folder: Path, manifest: dict[str, str]) -> None:
    """Somebody else's values in every shown row, and an index that vouches for them."""
    rows, index = folder / f"{manifest['rows']}.jsonl", np.load(folder / f"{manifest['index']}.npy")
    lines = [line.replace(b"town 1", b"town 7") for line in rows.read_bytes().splitlines(keepends=True)]
    rows.write_bytes(b"".join(lines))
    for row, line in enumerate(lines):
        index[row, 1] = int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")
    put(folder, index, manifest["index"])


@pytest.mark.parametrize("opened", [True, False], ids=["while it is open", "before it is opened"])
def test_rewritten_rows_with_a_rewritten_index_are_not_shown(workshop: Workshop, opened: bool) -> None:
    campaign = workshop.create(display=shown_table(), budget=6)
    assert campaign.shown(12) == ("12", {"town": "town 12", "age": 12})
    rewrite_shown(workshop.place.files, campaign.materials.manifest["display"])
    if not opened:
        campaign = workshop.open()
    with pytest.raises(FileDamaged, match="not what it was"):
        campaign.shown(12)
    check = campaign.owner.verify_log()
    assert [problem.partition(":")[0] for problem in check.problems] == [
        "the shown rows",
        "the index of the shown rows",
    ]


def test_rows_cut_off_are_an_error_and_do_not_end_the_process(workshop: Workshop) -> None:
    campaign = workshop.create(display=shown_table(), budget=6)
    assert campaign.shown(3)[0] == "3"
    rows = workshop.place.files / f"{campaign.materials.manifest['display']['rows']}.jsonl"
    rows.write_bytes(rows.read_bytes()[:20])
    with pytest.raises(FileDamaged, match="not what it was"):
        campaign.shown(150)


CHANGED: dict[str, Callable[[Campaign], tuple[str, np.ndarray]]] = {
    "the labels": lambda c: (c.materials.manifest["labels"], (1 - c.materials.labels()).astype(np.int8)),
    "the features (array)": lambda c: (
        c.materials.manifest["features"]["array"],
        -np.asarray(c.materials.features()),
    ),
    "the rows held out for the audit": lambda c: (c.materials.manifest["held_out"], c.materials.held_out()[::-1]),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_matrix_is_noticed_before_a_fit_and_by_verify(workshop: Workshop, what: str) -> None:
    campaign = workshop.create(budget=20, audit_share=0.2)
    for _ in range(6):
        question = campaign.ask()
        assert question is not None
        campaign.tell(question, group_of(question.row))
    assert campaign.owner.refit()
    campaign.materials.labels(), campaign.materials.held_out()
    question = campaign.ask()
    assert question is not None
    name, changed = CHANGED[what](campaign)
    put(workshop.place.files, changed, name)
    campaign.tell(question, group_of(question.row))
    fitted = campaign.status().model_answers
    assert not campaign.owner.refit()
    status = campaign.status()
    assert (status.model_answers, status.refit_failure) == (fitted, "FileDamaged")
    check = workshop.open().owner.verify_log()
    assert [problem.partition(":")[0] for problem in check.problems] == [what]


def test_an_inverted_answer_is_neither_learnt_nor_exported(workshop: Workshop, tmp_path: Path) -> None:
    campaign = workshop.create(budget=6)
    for _ in range(6):
        question = campaign.ask()
        assert question is not None
        campaign.tell(question, group_of(question.row))
    invert = "UPDATE apod_answers SET value = CASE value WHEN '0' THEN '1' ELSE '0' END WHERE seq = 3"
    with campaign.store.writing() as connection:
        connection.execute(text(invert))
    again = workshop.open()
    for use in (again.owner.refit, again.owner.canonical_model, lambda: again.owner.export(tmp_path / "out.csv")):
        with pytest.raises(StoreError, match="1 answers are not the ones that were given"):
            use()
    assert not (tmp_path / "out.csv").exists()


def test_a_model_put_in_the_place_of_another_is_fitted_again(workshop: Workshop) -> None:
    campaign = workshop.create(budget=12)
    for _ in range(6):
        question = campaign.ask()
        assert question is not None
        campaign.tell(question, group_of(question.row))
    campaign.owner.refit()
    fitted = campaign.refitter.snapshot()
    other = campaign.models.put_arrays({"means": np.full((2, 4), 9.0)})
    with campaign.store.writing() as connection:
        connection.execute(update(schema.models).values(file=other))
    again = workshop.open()
    with pytest.raises(FileDamaged, match="not the one that was published"):
        again.refitter.load(again.refitter.snapshot())
    model, _ = again.refitter._latest()[1], again.refitter.supply()
    expected = campaign.refitter.load(fitted)
    assert model is not None
    assert expected is not None
    np.testing.assert_allclose(model.state().arrays["means"], expected.state().arrays["means"])


def test_what_was_computed_from_the_materials_stands_in_the_log(workshop: Workshop) -> None:
    campaign = workshop.create(budget=4)
    made = campaign.materials.remember("square", lambda: {"values": np.arange(4) ** 2})
    assert [entry["name"] for entry in campaign.owner.log() if entry["what"] == "computed"] == ["square"]
    again = workshop.open()
    np.testing.assert_array_equal(again.materials.remember("square", dict)["values"], made["values"])
    with campaign.store.writing() as connection:  # a list that nobody reads any more
        row = {"campaign": 1, "name": "cube", "files": json.dumps({"values": put(workshop.place.files, np.ones(3))})}
        connection.execute(schema.artifacts.insert(), row)
    assert workshop.open().materials.recall("cube") is None
    assert again.owner.verify_log().ok
    entry = next(entry for entry in campaign.owner.log() if entry["what"] == "computed")
    put(workshop.place.files, np.arange(4), entry["files"]["values"])
    check = workshop.open().owner.verify_log()
    assert [problem.partition(":")[0] for problem in check.problems] == ["square (values)"]
    with pytest.raises(FileDamaged):
        workshop.open().materials.recall("square")


def test_a_campaign_of_an_earlier_version_opens_and_says_what_cannot_be_verified(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apod.campaign import journal

    real = journal.canonical
    monkeypatch.setattr(  # as the first event of an earlier version: it promises nothing about what is computed
        journal, "canonical", lambda body: real({k: v for k, v in body.items() if (k, v) != ("computed", "logged")})
    )
    campaign = workshop.create(budget=4)
    monkeypatch.undo()
    with campaign.store.writing() as connection:
        row = {"campaign": 1, "name": "head", "files": json.dumps({"values": put(workshop.place.files, np.ones(3))})}
        connection.execute(schema.artifacts.insert(), row)
    again = workshop.open()
    found = again.materials.recall("head")
    assert found is not None
    np.testing.assert_array_equal(found["values"], np.ones(3))
    answer_all(again)
    check = again.owner.verify_log()
    assert (check.ok, check.unverified) == (True, ("head",))


def test_opening_and_answering_read_none_of_the_large_files(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, _ = pool(200)
    campaign = workshop.create(display=pd.DataFrame(features).add_prefix("x"), budget=4, refit="demand")
    campaign.ask("a")
    read: list[str] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        hashlib, "file_digest", lambda file, kind: (read.append(Path(file.name).name), digest(file, kind))[1]
    )
    again = workshop.open()
    again.status()
    question = again.ask("a")
    assert question is not None
    again.tell(question, GROUPS[0])
    assert read == [f"{campaign.materials.manifest['display']['index']}.npy"]  # 16 bytes a row, once per process
