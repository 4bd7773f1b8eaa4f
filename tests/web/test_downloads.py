"""Downloads that have to be computed: the report and the classifier."""

from __future__ import annotations

import pytest
from web_people import House, annotate, until


def test_a_download_that_cannot_be_built_says_why(house: House) -> None:
    owner = house.owner()
    assert owner.get("/api/v1/downloads/classifier").json()["state"] == "none"
    assert owner.get("/api/v1/downloads/classifier/file").status_code == 404
    assert owner.post("/api/v1/downloads/classifier", json={}).status_code == 202
    found = until(lambda: _done(owner), seconds=600)
    assert found["state"] == "failed"
    assert "fewer than two groups" in found["message"]


@pytest.mark.slow
def test_the_report_can_be_downloaded(house: House) -> None:
    annotate(house.enter(), 2)
    owner = house.owner()
    assert owner.post("/api/v1/downloads/report", json={}).json()["state"] == "running"
    found = until(lambda: _done(owner, "report"), seconds=600)
    assert (found["state"], found["answers"], found["stale"]) == ("ready", 2, False)
    answer = owner.get("/api/v1/downloads/report/file")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text.lower().startswith("<!doctype html>")
    annotate(house.enter(), 1)
    assert owner.get("/api/v1/downloads/report").json()["stale"] is True


def _done(owner, what: str = "classifier") -> object:
    found = owner.get(f"/api/v1/downloads/{what}").json()
    return None if found["state"] == "running" else found
