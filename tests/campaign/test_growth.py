"""Rows that arrive while a campaign runs: numbered on, asked about without a restart, answers untouched."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from apod.campaign import Campaign, create
from apod.campaign.audit_sample import Progress, _probability, audit_order, audit_proposals
from apod.campaign.correction_engine import CorrectionEngine
from apod.campaign.errors import CampaignFinished, StoreError
from apod.campaign.growth import AddOptions
from apod.campaign.heads_engine import MitigationEngine
from apod.data import Dataset, blocks, make_example
from apod.errors import InputError, TableProblems
from apod.testing.engines import Workshop, answer_all, group_of, pool
from support.store_contract import tampering


def people(rows: int, seed: int) -> Dataset:
    """Generated people with a number and a category besides."""
    made = make_example(rows, seed=seed)
    sector = np.where(np.arange(rows) % 3 == 0, "public", "private")
    return replace(made, features=made.features.assign(age=20 + np.arange(rows) % 40, sector=sector))


FIRST, LATER = people(240, seed=3), people(120, seed=4)
GROUPS = list(FIRST.group_names)
HEADS = {"preset": "heads", "strengths": [0.2, 1.0], "body_epochs": 1, "epochs": 1}


def truth(row: int) -> str:
    people, place = (FIRST, row) if row < len(FIRST) else (LATER, row - len(FIRST))
    return GROUPS[people.groups[place]]


def table(people: Any, ids: bool = True, prefix: str = "p") -> pd.DataFrame:
    frame = people.features.assign(hired=people.labels)
    return frame.assign(person=[f"{prefix}{row}" for row in range(len(frame))]) if ids else frame


def created(folder: Path, engine: dict[str, Any] | None = None, **more: Any) -> Campaign:
    table(FIRST).to_csv(folder / "people.csv", index=False)
    settings = {"budget": 20, "refit": "demand", "id_column": "person", "engine_options": engine or {}} | more
    return Campaign.create_from_table(
        folder / "people.db", folder / "people.csv", label="hired", groups=GROUPS, **settings
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign over a table with an audit and ten answers; tests work on copies."""
    folder = tmp_path_factory.mktemp("begun") / "campaign"
    folder.mkdir()
    with created(folder, audit_share=0.25) as campaign:
        for _ in range(10):
            question = campaign.ask("maria")
            assert question is not None
            campaign.tell(question, truth(question.row))
        campaign.owner.refit()
    table(LATER, prefix="q").to_csv(folder / "more.csv", index=False)
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "copy"))


def opened(folder: Path) -> Campaign:
    return Campaign.open(folder / "people.db", refit="demand")


def test_rows_of_a_file_are_numbered_on_and_shown_as_they_stand(folder: Path) -> None:
    with opened(folder) as campaign, opened(folder) as other:
        assert len(other.materials) == 240
        done = campaign.owner.add(folder / "more.csv")
        assert (done.rows, done.first, done.total) == (120, 240, 360)
        row_id, values = other.shown(240)  # a process that was there before
        assert row_id == "q0"
        assert values["age"] == str(table(LATER)["age"].iloc[0])
        assert len(other.materials) == 360
        assert np.array_equal(other.materials.labels(), np.concatenate([FIRST.labels, LATER.labels]))
        assert other.owner.verify_log().ok
        assert [entry["what"] for entry in other.owner.log()].count("added") == 1


def test_everything_that_is_wrong_with_a_table_is_said_at_once(folder: Path) -> None:
    bad = table(LATER, prefix="q").drop(columns="age").assign(hired="perhaps", shoe_size=42)
    bad.to_csv(folder / "bad.csv", index=False)
    with opened(folder) as campaign:
        with pytest.raises(TableProblems) as found:
            campaign.owner.add(folder / "bad.csv")
        assert len(found.value.problems) == 3
        assert all(word in str(found.value) for word in ("'age'", "'shoe_size'", "labels other than 0 and 1"))
        assert len(campaign.materials) == 240
        assert not [path for path in (folder / "people.db.files").iterdir() if path.name.startswith(".new")]


def test_known_ids_are_refused_whole(folder: Path) -> None:
    both = pd.concat([table(LATER, prefix="q"), table(FIRST).iloc[[5]]])
    both.to_csv(folder / "both.csv", index=False)
    with opened(folder) as campaign:
        with pytest.raises(InputError, match="1 ids are in the campaign already, the first in row 120"):
            campaign.owner.add(folder / "both.csv")
        campaign.owner.add(folder / "more.csv")
        with pytest.raises(InputError, match="120 ids are in the campaign already"):
            campaign.owner.add(folder / "more.csv")
        assert len(campaign.materials) == 360


def test_the_base_model_is_not_fitted_again_and_scores_the_new_rows_as_it_is(folder: Path) -> None:
    with opened(folder) as campaign:
        before, engine = campaign.classifier(), campaign.engine()
        assert isinstance(engine, CorrectionEngine)
        old = engine.base.pool
        campaign.owner.add(folder / "more.csv")
        grown = campaign.engine()
        assert isinstance(grown, CorrectionEngine)
        rows = campaign.materials.training_rows()
        many = int((rows < 240).sum())
        people = grown.base.pool.people
        assert np.array_equal(people.scores[:many], old.people.scores)
        assert np.array_equal(people.inputs[:many], old.people.inputs)
        expected = before.at(0.0).predict_proba(LATER.features.iloc[rows[many:] - 240])[:, 1]
        assert np.array_equal(people.scores[many:], expected)
        assert grown.population.reader.components.tobytes() == engine.population.reader.components.tobytes()
        after = campaign.classifier()
        assert np.array_equal(after.at(0.0).predict_proba(LATER.features), before.at(0.0).predict_proba(LATER.features))


def test_new_rows_are_asked_about_without_a_restart_and_their_answers_teach(folder: Path) -> None:
    with opened(folder) as campaign, opened(folder) as other:
        held = other.ask("maria")  # asked before the rows arrived
        campaign.owner.add(folder / "more.csv")
        asked = []
        assert held is not None
        other.tell(held, truth(held.row))
        while (question := other.ask("maria")) is not None:
            asked.append(question.row)
            other.tell(question, truth(question.row))
        assert any(row >= 240 for row in asked)
        other.owner.refit()
        assert other.status().model_answers == len(other.owner.answers())
        assert {answer.row for answer in other.owner.answers()} & set(range(240, 360))
        assert len(set(other.owner.results.pool_map()["points"]["x"])) > 240  # type: ignore[index]
        predicted = other.classifier().predict(LATER.features)
        assert set(np.unique(predicted)) <= {0, 1}


def test_heads_embed_new_rows_with_the_body_they_have(tmp_path: Path) -> None:
    with created(tmp_path, HEADS) as campaign:
        engine = campaign.engine()
        assert isinstance(engine, MitigationEngine)
        before, head = engine.pool.embeddings.clone(), engine._pretrained
        again = FIRST.features.assign(hired=FIRST.labels, person=[f"again{row}" for row in range(len(FIRST))])
        again.to_csv(tmp_path / "again.csv", index=False)
        campaign.owner.add(tmp_path / "again.csv")  # the same people once more: their embeddings are known
        grown = campaign.engine()
        assert isinstance(grown, MitigationEngine)
        assert np.array_equal(grown.pool.embeddings[:240], before)
        assert np.allclose(grown.pool.embeddings[240:], before, atol=1e-6)
        assert np.array_equal(grown._pretrained, head)
        while (question := campaign.ask("maria")) is not None:
            campaign.tell(question, GROUPS[FIRST.groups[question.row % 240]])
        assert len(campaign.classifier().predict(LATER.features)) == 120


def test_a_category_that_the_model_never_saw_is_a_category(folder: Path) -> None:
    odd = table(LATER, prefix="q").assign(sector="deep sea")
    odd.to_csv(folder / "odd.csv", index=False)
    with opened(folder) as campaign:
        campaign.owner.add(folder / "odd.csv")
        features = campaign.materials.features()
        assert isinstance(features, pd.DataFrame)
        assert set(features["sector"][240:]) == {"deep sea"}
        assert features["sector"][:240].astype(str).tolist() == FIRST.features["sector"].astype(str).tolist()
        assert campaign.ask("maria") is not None


def test_a_row_that_no_refit_could_read_is_refused(folder: Path) -> None:
    bad = table(LATER, prefix="q")
    bad["age"] = bad["age"].astype(float)
    bad.loc[7, "age"] = np.inf
    bad.to_csv(folder / "bad.csv", index=False)
    with opened(folder) as campaign, pytest.raises(InputError, match="'age'"):
        campaign.owner.add(folder / "bad.csv")


def test_the_audit_weighs_those_who_arrived_later_by_their_own_share(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=400, audit_share=0.5, budget=160)
    answer_few(campaign, 20)
    features, labels = pool(200, seed=7)
    campaign.owner.add(features, labels)
    held_out = campaign.materials.held_out()
    for label in (0, 1):
        mine = held_out[held_out >= 400] - 400
        assert abs(int((labels[mine] == label).sum()) - 0.2 * (labels == label).sum()) < 1
    for more in (0, 2, 20):  # none of those who arrived, a few, many
        answer_few(campaign, more)
        order = audit_order(campaign.materials, campaign.engine())
        told = np.isin(order.rows, [answer.row for answer in campaign.owner.answers("audit")])
        answered = np.isin(held_out, order.rows[told])
        chance = _probability(campaign.materials, campaign.engine(), held_out, answered)
        for cell in np.unique(order.cells):  # weighted, those who answered are as many as everybody
            mine = order.rows[told & (order.cells == cell)]
            weight = (1 / chance[np.searchsorted(held_out, mine)]).sum()
            assert weight == pytest.approx((order.cells == cell).sum())
    stored = campaign.owner.probabilities("audit")
    size = np.bincount(order.strata)
    for row, chance_of in stored.items():  # so many of a stratum, whatever the budget allows
        assert chance_of is not None
        count = chance_of * size[order.strata[order.rows.tolist().index(row)]]
        assert count == pytest.approx(round(count))


def test_the_audit_catches_up_with_those_who_arrived_later(on_sqlite: Workshop) -> None:
    """Of a cell, whoever has the lower place is asked about first: those asked about are a random sample of all."""
    shares = []
    for seed in range(10):
        campaign = on_sqlite.create(rows=400, audit_share=0.5, budget=160, seed=seed, name=f"seed {seed}")
        before = audit_proposals(campaign.materials, campaign.engine(), Progress(20, 0, 80), frozenset(), 20)
        campaign.owner.add(*pool(200, seed=7))
        rows = {one.row for one in before}
        later = audit_proposals(campaign.materials, campaign.engine(), Progress(20, 20, 80), rows, 20)
        told, held_out = np.array([one.row for one in (*before, *later)]), campaign.materials.held_out()
        assert len(np.unique(told)) == 40
        shares.append((told >= 400).mean() - (held_out >= 400).mean())
        campaign.close()
    assert abs(np.mean(shares)) < 0.09  # 40 of 120 each time: a standard error of .02


def answer_few(campaign: Campaign, count: int) -> None:
    for _ in range(count):
        question = campaign.ask("maria")
        assert question is not None
        campaign.tell(question, group_of(question.row))


def answer_some(campaign: Campaign, count: int) -> list[int]:
    asked = []
    for _ in range(count):
        question = campaign.ask("maria")
        assert question is not None
        campaign.tell(question, truth(question.row))
        asked.append(question.row)
    return asked


def test_groups_that_come_with_the_rows_are_handed_in(tmp_path: Path) -> None:
    known = table(FIRST).assign(sex=[GROUPS[code] if row < 9 else None for row, code in enumerate(FIRST.groups)])
    known.to_csv(tmp_path / "people.csv", index=False)
    more = table(LATER, prefix="q").assign(
        sex=[GROUPS[code] if row < 4 else "" for row, code in enumerate(LATER.groups)]
    )
    more.to_csv(tmp_path / "more.csv", index=False)
    with Campaign.create_from_table(
        tmp_path / "people.db", tmp_path / "people.csv", label="hired", groups=GROUPS, budget=10, refit="demand",
        known_groups="sex", id_column="person",
    ) as campaign:  # fmt: skip
        done = campaign.owner.add(tmp_path / "more.csv")
        assert done.known == 4
        told = {answer.row: GROUPS[answer.group] for answer in campaign.owner.answers()}
        assert {row: told[row] for row in range(240, 244)} == {row: truth(row) for row in range(240, 244)}
        assert all(row not in range(240, 244) for row in answer_some(campaign, 10))


def test_added_rows_are_erased_exported_imported_backed_up_and_undone_like_others(
    workshop: Workshop, tmp_path: Path
) -> None:
    campaign = workshop.create(rows=6, budget=6)
    answer_all(campaign)
    features, labels = pool(12, seed=9)
    done = campaign.owner.add(features, labels)
    assert (done.first, done.total) == (6, 18)
    campaign.owner.extend(10)
    rows = answer_all(campaign)
    assert min(rows) >= 6
    undone = campaign.annotator("annotator").undo()
    assert undone is not None
    assert undone.row == rows[-1]
    assert undone.display["x0"] == features[rows[-1] - 6, 0]
    campaign.tell(undone, group_of(undone.row))
    campaign.owner.export(tmp_path / "answers.csv")
    assert set(pd.read_csv(tmp_path / "answers.csv")["row"]) >= set(rows)
    assert campaign.owner.import_(tmp_path / "answers.csv").added == 0
    campaign.owner.backup(tmp_path / "backup.tar")
    campaign.owner.erase(row=rows[0])
    assert rows[0] not in {answer.row for answer in campaign.owner.answers()}
    assert campaign.owner.verify_log().ok
    with Campaign.restore(tmp_path / "backup.tar", tmp_path / "new.db", engine=workshop.engine, refit="demand") as back:
        assert len(back.materials) == 18
        assert back.shown(17)[1]["x0"] == features[11, 0]
        assert {answer.row for answer in back.owner.answers()} == {*range(6), *rows}
        assert back.owner.verify_log().ok


def test_two_additions_at_once_are_both_there_and_nobody_s_answer_is_lost(workshop: Workshop) -> None:
    campaign = workshop.create(rows=40, budget=30, ids=[f"p{row}" for row in range(40)])
    errors: list[BaseException] = []

    def adds(number: int) -> None:
        try:
            features, labels = pool(10, seed=number)
            with workshop.open() as own:
                own.owner.add(features, labels, ids=[f"{number}-{row}" for row in range(10)], display=_frame(features))
        except BaseException as error:  # noqa: BLE001 told below
            errors.append(error)

    threads = [threading.Thread(target=adds, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    rows = answer_all(campaign)
    for thread in threads:
        thread.join()
    assert not errors
    assert len(rows) == 30
    assert len(campaign.materials) == 70
    ids = [campaign.shown(row)[0] for row in range(70)]
    assert len(set(ids)) == 70
    assert sorted(answer.row for answer in campaign.owner.answers()) == sorted(rows)
    assert campaign.owner.verify_log().ok


def _frame(features: np.ndarray[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame(features).add_prefix("x")


def test_a_campaign_that_was_asked_through_goes_on_with_new_rows(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=8, budget=8)
    answer_all(campaign)
    campaign.owner.add(*pool(5, seed=1))
    campaign.owner.extend(13)
    assert sorted(answer_all(campaign)) == [8, 9, 10, 11, 12]


def test_waiting_proposals_are_made_anew_while_there_is_no_model(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=8, budget=8)
    assert campaign.refitter.top_up()
    assert not campaign.refitter.top_up()
    campaign.owner.add(*pool(500, seed=1))
    assert campaign.refitter.top_up()
    assert not campaign.refitter.top_up()
    assert any(row >= 8 for row in answer_all(campaign))


def test_what_an_addition_says_in_the_log_is_checked_before_it_is_believed(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=8, budget=8)
    campaign.owner.add(*pool(5, seed=1))
    with tampering(campaign.store), campaign.store.writing() as connection:
        change = "UPDATE apod_events SET body = replace(body, '5}', '4}') WHERE kind = 'added'"
        connection.execute(text(change))
    again = on_sqlite.open()
    with pytest.raises(StoreError, match="an addition of rows was changed"):
        again.ask()
    assert not again.owner.verify_log().ok


@pytest.mark.parametrize(
    ("features", "labels", "more", "said"),
    [
        (np.zeros((3, 5)), [0, 1, 0], {}, "numbers in 4 columns"),
        (np.zeros((3, 4)), [0, 1], {}, "3 rows and y has 2"),
        (np.zeros((3, 4)), [0, 1, 7], {}, "labels other than 0 and 1"),
        (np.zeros((0, 4)), [], {}, "no rows"),
        (np.zeros((2, 4)), [0, 1], {"ids": ["a", "b"]}, "numbers its rows"),
        (np.full((2, 4), np.inf), [0, 1], {}, "infinity"),
        (np.zeros((2, 4)), [0, 1], {"score": [0.2, 0.4]}, "no scores"),
        (np.zeros((2, 4)), [0, 1], {"known_groups": ["Zwergelin", "other"]}, "group other than"),
        (np.zeros((2, 4)), [0, 1], {"known_groups": ["Zwergelin"]}, "known_groups has 1 rows and X has 2"),
        (np.zeros((2, 4)), [0, 1], {"known_groups": ["Zwergelin"] * 3}, "known_groups has 3 rows and X has 2"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_line(
    on_sqlite: Workshop, features: Any, labels: Any, more: Any, said: str
) -> None:
    campaign = on_sqlite.create(rows=8, budget=8)
    with pytest.raises(InputError, match=said):
        campaign.owner.add(features, labels, **more)
    assert len(campaign.materials) == 8


def test_a_finished_campaign_takes_no_rows(on_sqlite: Workshop) -> None:
    campaign = on_sqlite.create(rows=8, budget=8)
    campaign.owner.finish()
    with pytest.raises(CampaignFinished, match="no more rows"):
        campaign.owner.add(*pool(5, seed=1))


def test_a_matrix_grows_by_a_matrix(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, rows in (("x", 60), ("more", 30)):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(rows, 3)).astype(np.float32))
        np.save(tmp_path / f"{name}_y.npy", np.arange(rows) % 2)
    with Campaign.create_from_table(
        tmp_path / "x.db", tmp_path / "x.npy", label=str(tmp_path / "x_y.npy"), groups=["a", "b"], budget=12,
        refit="demand",
    ) as campaign:  # fmt: skip
        with pytest.raises(InputError, match="name it"):
            campaign.owner.add(tmp_path / "more.npy")
        campaign.owner.add(tmp_path / "more.npy", options=AddOptions(label=str(tmp_path / "more_y.npy")))
        assert len(campaign.materials) == 90
        assert campaign.shown(61)[1]["x2"] == pytest.approx(np.load(tmp_path / "more.npy")[1, 2])
        while (question := campaign.ask()) is not None:
            campaign.tell(question, "ab"[question.row % 2])
        assert campaign.classifier().predict(np.load(tmp_path / "more.npy")).shape == (30,)


def test_scores_of_new_rows_are_taken_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, people, prefix in (("people", FIRST, "p"), ("more", LATER, "q")):
        table(people, prefix=prefix).assign(s=rng.uniform(size=len(people))).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    with Campaign.create_from_table(
        tmp_path / "s.db", tmp_path / "people.csv", label="hired", groups=GROUPS, budget=10, score="s", refit="demand",
        id_column="person",
    ) as campaign:  # fmt: skip
        table(LATER, prefix="q").to_csv(tmp_path / "none.csv", index=False)
        with pytest.raises(InputError, match="no column 's'"):
            campaign.owner.add(tmp_path / "none.csv")
        campaign.owner.add(tmp_path / "more.csv")
        engine = campaign.engine()
        assert isinstance(engine, CorrectionEngine)
        assert np.array_equal(engine.base.pool.people.scores[240:], pd.read_csv(tmp_path / "more.csv")["s"])


def test_of_a_large_pool_as_large_a_share_of_the_new_rows_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LARGE", 200)
    monkeypatch.setattr(create, "DRAWN", 96)
    with created(tmp_path, audit_share=0.25) as campaign:
        assert campaign.materials.drawn == 96
        table(LATER, prefix="q").to_csv(tmp_path / "more.csv", index=False)
        campaign.owner.add(tmp_path / "more.csv")
        rows = campaign.materials.training_rows()
        later = rows[rows >= 240]
        assert abs(len(later) - 48) <= 1  # half of those not held out, as before
        assert not np.intersect1d(rows, campaign.materials.held_out()).size
        engine = campaign.engine()
        assert isinstance(engine, CorrectionEngine)
        assert len(engine.base.pool.people) == len(rows)
        assert campaign.ask("maria") is not None
