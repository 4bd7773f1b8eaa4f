"""What moved since evidence was written: real changes are found, chance is not mistaken for one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apod.errors import InputError
from apod.evidence.measured import findings
from apod.evidence.reevaluation import reevaluate
from apod.randomness import generator
from support.commands import apod


def evidence_of(rates: np.ndarray, rng: np.random.Generator, data: str) -> dict[str, Any]:
    """Evidence measured on 800 people of two groups with these TPR and FPR, (group, label)."""
    table = np.zeros((3, 2, 2, 2), dtype=np.int64)
    for g in range(2):
        for label in range(2):
            chosen = rng.binomial(200, rates[g, label])
            table[g, label, 0, 0], table[g, label, 1, 1] = 200 - chosen, chosen
    from dataclasses import asdict

    found = asdict(findings(table, ("a", "b"), "equalized_odds", 0, data, "records"))
    attribute = {"groups": ["a", "b"], "notion": "equalized_odds", "measured": found, "inferred": found}
    return {"attributes": {"x": attribute}, "fingerprints": {"data": data}, "made_at": "then", "reevaluate_by": "soon"}


def test_a_rate_that_moved_is_found_and_chance_is_rarely_taken_for_it() -> None:
    rates, rng = np.array([[0.2, 0.5], [0.3, 0.7]]), generator(0, "again")
    alarms, found = [], []
    for _ in range(40):
        first, same = evidence_of(rates, rng, "1"), evidence_of(rates, rng, "2")
        other = evidence_of(np.array([[0.2, 0.8], [0.3, 0.7]]), rng, "3")
        quiet = {one.what: one.beyond_chance for one in reevaluate(first, same).moved}
        alarms += [quiet["a, tpr"], quiet["a, fpr"], quiet["b, tpr"]]
        found.append({one.what: one.beyond_chance for one in reevaluate(first, other).moved}["a, tpr"])
    assert np.mean(alarms) <= 0.1  # .05 are to be expected
    assert all(found)


def test_other_groups_notions_and_missing_rates_are_refused_in_a_line() -> None:
    first = evidence_of(np.full((2, 2), 0.5), generator(1, "again"), "1")
    for change in ({"groups": ["a", "c"]}, {"notion": "demographic_parity"}):
        other = copy.deepcopy(first)
        other["attributes"]["x"] |= change
        with pytest.raises(InputError):
            reevaluate(first, other)
    empty = copy.deepcopy(first)
    empty["attributes"]["x"] |= {"measured": None, "inferred": None}
    with pytest.raises(InputError, match="no rates"):
        reevaluate(empty, first)


def test_an_audit_against_evidence_says_what_moved(audit_file: Path, tmp_path: Path) -> None:
    assert apod("report", audit_file, "--evidence", tmp_path / "evidence", folder=tmp_path).returncode == 0
    told = ("--label", "hired", "--prediction", "model", "--group", "shape", "--against", tmp_path / "evidence")
    done = apod("audit", audit_file.parent / "people.csv", *told, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing can have moved" in done.stdout
    assert "not beyond chance" in done.stdout
    assert "moved beyond" not in done.stdout
    facts = json.loads(apod("audit", audit_file.parent / "people.csv", *told, "--json", folder=tmp_path).stdout)
    assert facts["against"]["same_data"]
    assert facts["against"]["moved"][0]["what"] == "gap"
    missing = apod("audit", audit_file.parent / "people.csv", *told[:-1], tmp_path / "no", folder=tmp_path)
    assert missing.returncode == 2
    assert "no evidence" in missing.stderr
