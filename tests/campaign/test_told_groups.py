"""A campaign that was told probabilities of the groups: f_a reads them, annotators and the standard model do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from apod.campaign import Campaign


def test_told_probabilities_are_read_by_f_a_and_shown_to_nobody(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 300
    group, x = rng.uniform(size=n) < 0.4, rng.normal(size=n)
    chance = (np.where(group, 0.8, 0.2) + rng.uniform(-0.15, 0.15, n)).round(3)
    label = np.where(x + 0.8 * group + rng.normal(size=n) > 0, "yes", "no")
    table = tmp_path / "people.csv"
    pd.DataFrame({"x": x.round(3), "z": rng.normal(size=n).round(3), "p_female": chance, "hired": label}).to_csv(
        table, index=False
    )
    campaign = Campaign.create_from_table(
        tmp_path / "c.db",
        table,
        label="hired",
        groups=["female", "male"],
        budget=12,
        audit_share=0.0,
        engine_options={"group_probability": "female:p_female", "group_share": "female=.4"},
    )
    try:
        seen = set()
        while (question := campaign.ask()) is not None:
            seen |= set(question.display)
            campaign.tell(question, "female" if group[question.row] else "male")
        assert "p_female" not in seen
        assert "x" in seen
        fitted = campaign.classifier()
        people = pd.read_csv(table).drop(columns="hired")
        turned = people.assign(p_female=1 - people["p_female"])
        np.testing.assert_array_equal(fitted.at(0).predict_proba(people), fitted.at(0).predict_proba(turned))
    finally:
        campaign.close()
