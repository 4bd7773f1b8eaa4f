"""What a reader is told about more answers."""

from __future__ import annotations

from typing import Any

import pytest

from apod.report.charts import expected_so_far, outlook_chart, outlook_sentence


def entry(answers: int, gap: float | None, strength: float = 0.5) -> dict[str, Any]:
    interval = [None, None] if gap is None else [gap / 2, 2 * gap]
    return {"answers": answers, "gap": gap, "interval": interval, "strength": strength}


@pytest.mark.parametrize(
    ("outlook", "said"),
    [
        (
            [entry(30, 0.126), entry(60, 0.11), entry(120, 0.1)],
            "Judging by 30 answers, the gap to expect is 12.6 points (95% credible: 6.3 to 25.2); if more answers bear "
            "out what these say, 11.0 with 60, 10.0 with 120.",
        ),
        ([entry(4, None), entry(8, 0.1)], "No gap can be expected yet from 4 answers."),
        (
            [entry(30, 0.12), entry(60, 0.11), entry(120, None)],
            "Judging by 30 answers, the gap to expect is 12.0 points (95% credible: 6.0 to 24.0); if more answers bear "
            "out what these say, 11.0 with 60.",
        ),
        (
            [entry(30, 0.12, 0), entry(60, 0.11, 0)],
            "Judging by 30 answers, the gap to expect is 12.0 points (95% credible: 6.0 to 24.0); if more answers bear "
            "out what these say, 11.0 with 60. There the unpenalised head would still be chosen: answers tell its gap "
            "better, and do not narrow it.",
        ),
    ],
)
def test_the_sentence(outlook: list[dict[str, Any]], said: str) -> None:
    assert outlook_sentence(outlook) == said


def test_the_chart_has_what_was_expected_and_what_is_to_come() -> None:
    heads = [{"strength": s, "gap": 0.2 + s / 10, "interval": [0.1, 0.3]} for s in (0.0, 0.5)]
    rounds = [{"answered": n, "choice": {"heads": heads, "strength": 0.5}} for n in (5, 6)]
    past = expected_so_far(rounds)
    assert past == [{"answers": n, "gap": 0.25, "interval": [0.1, 0.3]} for n in (5, 6)]
    chart = outlook_chart(past, [entry(6, 0.25), entry(12, 0.2)])
    assert chart is not None
    for text in ("expected, 5 answers: 25", "expected, 12 answers: 20", "high", "low"):
        assert text in chart
    assert outlook_chart([], [entry(4, None), entry(8, None)]) is None
