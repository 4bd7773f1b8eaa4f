"""Which method a new campaign follows: kept with it, whatever later versions mean by default."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from apod.campaign import Campaign
from apod.campaign.settings import Shape, own_options, settings_of
from apod.cli import build_app
from apod.data import make_example
from apod.errors import InputError
from support.commands import apod

SMALL = Shape(rows=300, columns=8, groups=2, embedding=False, scored=False)
LARGE = Shape(rows=600_000, columns=8, groups=2, embedding=False, scored=False)
VECTORS = Shape(rows=300, columns=8, groups=2, embedding=True, scored=False)


@pytest.mark.parametrize(
    ("options", "pool", "body"),
    [
        ({}, SMALL, None),
        ({}, VECTORS, None),
        ({"preset": "paper"}, SMALL, "contrastive"),
        ({"preset": "heads"}, VECTORS, "precomputed"),
        ({"body": "cross_entropy"}, SMALL, "cross_entropy"),
        ({}, LARGE, None),
        ({}, Shape(600_000, 8, 2, embedding=True, scored=False), None),
        ({}, Shape(600_000, 8, 2, embedding=False, scored=True), None),
    ],
)
def test_the_method_is_named_when_a_campaign_is_created(
    options: dict[str, object], pool: Shape, body: str | None
) -> None:
    kept = own_options(options, 0.0, pool)
    assert kept == {**options, "body": body}
    assert settings_of(json.loads(json.dumps(kept))).body == body


@pytest.mark.parametrize(
    ("options", "least_gain", "pool", "said"),
    [
        ({"preset": "heads"}, 0.0, Shape(300, 8, 2, embedding=False, scored=True), "Scores are corrected"),
        ({"preset": "paper"}, 0.01, SMALL, "least gain"),
        ({"strengths": [0.5]}, 0.0, SMALL, "--preset heads"),
        ({"preset": "heads", "caution": 0.5}, 0.0, LARGE, "leave it out"),
        ({"preset": "papre"}, 0.0, SMALL, "papre"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    options: dict[str, object], least_gain: float, pool: Shape, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        own_options(options, least_gain, pool)


def test_a_column_of_scores_is_corrected_from_the_command_line(tmp_path: Path) -> None:
    people = make_example(120, seed=1)
    scores = np.random.default_rng(0).random(120).round(3)
    table = people.features.assign(hired=people.labels, model_score=scores)
    table.to_csv(tmp_path / "people.csv", index=False)
    new = ["campaign", "new", str(tmp_path / "h.db"), str(tmp_path / "people.csv"), "--label", "hired", "--budget", "6"]
    new += ["--groups", "a,b", "--score", "model_score", "--threshold", "0.3", "--caution", "0.5", "--audit-share", "0"]
    made = CliRunner().invoke(build_app(), new)
    assert made.exit_code == 0, made.output
    with Campaign.open(tmp_path / "h.db", refit="demand") as campaign:
        assert np.array_equal(campaign.materials.scores(), scores)
        assert (campaign.settings.engine["threshold"], campaign.settings.engine["caution"]) == (0.3, 0.5)
        assert "model_score" not in campaign.materials.features().columns
        assert "model_score" not in campaign.settings.show
    refused = CliRunner().invoke(build_app(), [*new[:-2], "--show", "model_score", "--campaign", "other"])
    assert refused.exit_code != 0


@pytest.mark.parametrize(
    ("where", "options", "said"),
    [
        ("nosuch/h.db", [], r"There is no folder '.*nosuch': create it first\."),
        ("h.db", ["--lease-minutes", "-1"], r"--lease-minutes is -1: give minutes from 0\.001 to 527040 \(a year\)\."),
    ],
)
def test_a_campaign_that_cannot_be_is_refused_in_the_words_of_the_command(
    where: str, options: list[str], said: str, tmp_path: Path
) -> None:
    people = make_example(60, seed=1)
    people.features.assign(hired=people.labels).to_csv(tmp_path / "people.csv", index=False)
    new = ["campaign", "new", tmp_path / where, "people.csv", "--label", "hired", "--groups", "a,b", "--budget", 6]
    done = apod(*new, *options, folder=tmp_path)
    assert done.returncode == 2
    assert re.search(said, done.stderr), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
