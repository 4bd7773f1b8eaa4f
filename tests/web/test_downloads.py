"""Downloads that have to be computed: the report and the classifier."""

from __future__ import annotations

import pytest
from web_people import House, annotate

from apod.web.downloads import Downloads
from support.waiting import until


def test_a_download_that_cannot_be_built_says_why(house: House) -> None:
    owner = house.owner()
    assert owner.get("/api/v1/downloads/classifier").json()["state"] == "none"
    assert owner.get("/api/v1/downloads/classifier/file").status_code == 404
    assert owner.post("/api/v1/downloads/classifier", json={}).status_code == 202
    found = until(lambda: _done(owner))
    assert found["state"] == "failed"
    assert "fewer than two groups" in found["message"]


@pytest.mark.parametrize("when", ["once it is built", "while it is built"])
def test_a_download_made_from_an_answer_that_was_erased_since_is_gone(
    house: House, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(house.enter(), 3)
    row = house.campaign.owner.answers()[0].row

    def made(downloads: Downloads, job: dict[str, object]) -> tuple[bytes, None]:
        if when == "while it is built":
            house.campaign.owner.erase(row=row)
        return b"made from all answers", None

    monkeypatch.setattr(Downloads, "_run", made)
    owner = house.owner()
    owner.post("/api/v1/downloads/classifier", json={})
    found = until(lambda: _done(owner))
    if when == "once it is built":
        assert found["state"] == "ready"
        assert owner.get("/api/v1/downloads/classifier/file").status_code == 200
        house.campaign.owner.erase(row=row)
    assert owner.get("/api/v1/downloads/classifier/file").status_code == 404
    assert owner.get("/api/v1/downloads/classifier").json()["state"] == "none"


@pytest.mark.slow
def test_the_report_can_be_downloaded(house: House) -> None:
    annotate(house.enter(), 2)
    owner = house.owner()
    assert owner.post("/api/v1/downloads/report", json={}).json()["state"] == "running"
    found = until(lambda: _done(owner, "report"))
    assert (found["state"], found["answers"], found["stale"]) == ("ready", 2, False)
    answer = owner.get("/api/v1/downloads/report/file")
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.text.lower().startswith("<!doctype html>")
    annotate(house.enter(), 1)
    assert owner.get("/api/v1/downloads/report").json()["stale"] is True


def _done(owner, what: str = "classifier") -> object:
    found = owner.get(f"/api/v1/downloads/{what}").json()
    return None if found["state"] == "running" else found
