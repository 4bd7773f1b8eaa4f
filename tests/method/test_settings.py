"""Settings: declared once, checked one by one, the same names and defaults wherever they are read."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pytest

from apod.errors import InputError, UnknownName
from apod.fairness.notions import MEASURED, NOTIONS
from apod.method import settings as declared
from apod.method.checks import MEASURED_ONLY
from apod.method.head_mitigation import Plan
from apod.method.model_mitigation import RANDOM_SHARES
from apod.method.penalty import RELAXATIONS
from apod.method.pod import Training
from apod.method.proxy import PROXIES
from apod.method.selection import SELECTORS
from apod.method.settings import (
    CORRECTION_SETTINGS,
    HEAD_SETTINGS,
    PER_STRENGTH,
    PRESETS,
    SETTINGS,
    SHARED,
    Settings,
    settings_from,
)


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (declared.NotionName, NOTIONS),
        (declared.RelaxationName, RELAXATIONS),
        (declared.SelectorName, {*SELECTORS, *RANDOM_SHARES}),
        (declared.ProxyName, PROXIES),
    ],
    ids=["notions", "relaxations", "selectors", "proxies"],
)
def test_every_name_that_is_offered_has_its_code_and_the_other_way_round(names: Any, table: Any) -> None:
    assert set(get_args(names)) == set(table)


def test_every_setting_has_a_title_a_help_text_and_a_check_that_its_default_passes() -> None:
    assert list(SETTINGS) == [field.name for field in fields(Settings)]
    for name, meaning in SETTINGS.items():
        assert meaning.title
        assert meaning.help.endswith(".")
        meaning.check(name, getattr(Settings(), name))
    titles = [meaning.title for meaning in SETTINGS.values()]
    options = [meaning.option for meaning in SETTINGS.values() if meaning.option]
    assert len(set(titles)) == len(titles)
    assert len(set(options)) == len(options)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_a_setting_cannot_be_is_refused_with_its_name_or_the_names_there_are(name: str) -> None:
    for wrong in ("nonsense", True) if getattr(Settings(), name) is None else (None, "nonsense", -1, True):
        with pytest.raises(InputError) as caught:
            replace(Settings(), **{name: wrong})
        assert "\n" not in str(caught.value)
        assert "There is no" in str(caught.value) or name.rstrip("s") in str(caught.value).lower()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strengths": ()}, "leave 0 out"),
        ({"strengths": (0.0, 1.0)}, "leave 0 out"),
        ({"strengths": (1.0, 1.0)}, "differ from each other"),
        ({"strengths": ("much",)}, "A strength is 'much'"),
        ({"dropout": 1.0}, "dropout is 1.0: pass a number from 0 to below 1"),
        ({"epochs": 1.5}, "epochs is 1.5: pass a whole number from 1 up"),
        ({"batch_size": 1}, "batch_size is 1: pass a whole number from 2 up"),
        ({"selector": "typicl"}, "did you mean 'typical'"),
        ({"least_gain": 0.1, "trajectories": PER_STRENGTH}, "Heads end early only by a posterior"),
    ],
)
def test_the_error_says_what_is_wrong_with_the_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(PRESETS["heads"], **changes)


def test_the_record_has_every_setting_by_name_as_it_takes_effect() -> None:
    heads = replace(PRESETS["heads"], strengths=(2, 0.1, 0.4), proxy="logistic", body="precomputed")
    record, corrected = heads.to_dict(), Settings().to_dict()
    assert list(record) == [name for name in SETTINGS if name not in CORRECTION_SETTINGS]
    assert list(corrected) == [name for name in SETTINGS if name not in HEAD_SETTINGS]
    assert record["strengths"] == [0.1, 0.4, 2.0]
    assert record["ask_strength"] == 0.4  # the nearest to .5 that is trained
    assert record["head_choice"] == "score"  # a logistic proxy has no posterior
    assert record["proxy_reads"] == "embeddings"  # there is nothing else
    assert PRESETS["paper"].to_dict()["ask_strength"] is None  # every strength asks for itself


def test_settings_are_read_by_name_from_a_preset_up() -> None:
    assert settings_from({}) == PRESETS["default"] == Settings()
    read = settings_from(
        {"preset": "paper", "notion": "demographic_parity", "strengths": [0.1, 1]}, trajectories=SHARED
    )
    assert read == replace(PRESETS["paper"], notion="demographic_parity", strengths=(0.1, 1.0), trajectories=SHARED)
    assert settings_from({"body": "cross_entropy"}) == replace(PRESETS["heads"], body="cross_entropy")
    with pytest.raises(UnknownName, match="no preset 'papr'"):
        settings_from({"preset": "papr"})
    with pytest.raises(UnknownName, match=r"no setting 'epoch'.*did you mean 'epochs'"):
        settings_from({"epoch": 3})
    with pytest.raises(UnknownName, match="no setting 'trajectories'"):
        settings_from({"trajectories": PER_STRENGTH}, trajectories=SHARED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 3}, "epochs is a setting of heads on a body: add --body contrastive"),
        ({"strengths": (0.1,)}, "--strengths is a setting of heads on a body"),
        ({"preset": "paper", "caution": 0.5}, "--caution is a setting of a corrected model"),
        ({"body": "contrastive", "selector": "gap"}, "'gap' asks by the posterior of a correction"),
    ],
)
def test_a_setting_that_would_have_no_effect_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_from(options)


def test_the_paper_preset_is_the_papers_tables() -> None:
    paper = PRESETS["paper"]
    training = Training.from_settings(paper, (32,))
    assert (training.penalty.what, training.penalty.relaxation, training.penalty.over) == (
        "equalized_odds",
        "linear",
        "annotated",
    )
    assert (training.epochs, training.batch_size, training.dropout, training.proxy) == (10, 256, 0.5, "perceptron")
    plan = Plan.from_settings(paper)
    assert [head.strength for head in plan.heads] == [0.0, *sorted(paper.strengths)]
    assert [(one.selector, plan.heads[one.head].strength) for one in plan.trajectories] == [
        ("apod", strength) for strength in sorted(paper.strengths)
    ]


def test_one_trajectory_is_asked_by_the_nearest_strength() -> None:
    plan = Plan.from_settings(replace(PRESETS["heads"], strengths=(2.0, 0.2, 0.9), ask_strength=0.8, selector="random"))
    assert [head.strength for head in plan.heads] == [0.0, 0.2, 0.9, 2.0]
    assert [(one.selector, one.head) for one in plan.trajectories] == [("random", 2)]


@pytest.mark.parametrize(
    ("name", "instead"), [("predictive_parity", "equalized_odds"), ("selection_rate_ratio", "demographic_parity")]
)
def test_a_notion_that_is_measured_only_is_refused_with_what_to_mitigate_instead(name: str, instead: str) -> None:
    assert name in MEASURED
    with pytest.raises(InputError, match=f"{name} is measured, not equalised.*Mitigate {instead}"):
        settings_from({"notion": name})


def test_every_notion_but_those_measured_only_can_be_mitigated() -> None:
    assert set(MEASURED) == set(NOTIONS) | set(MEASURED_ONLY)
    assert set(SETTINGS["notion"].choices) == set(NOTIONS)


def test_the_former_name_of_the_notion_is_understood() -> None:
    assert settings_from({"penalty": "demographic_parity"}) == Settings(notion="demographic_parity")


@pytest.mark.parametrize("value", [0, -0.1, 1.5, float("nan"), True, "many"])
def test_a_selection_rate_is_a_share_or_a_number_of_people(value: Any) -> None:
    with pytest.raises(InputError, match=r"pass a share of the people, like 0.2, or how many|pass a number"):
        Settings(selection_rate=value)
    with pytest.raises(InputError, match="one follows from the other; give one"):
        Settings(selection_rate=0.2, threshold=0.4)
