"""Pages are files of the package, the same for everybody, and nothing else can be reached by a path."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from web_people import House, housed, nasty

from apod.campaign import Campaign

TRAVERSALS = [
    "../web/app.py",
    "..%2f..%2fcampaign%2faccess.py",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "/etc/passwd",
    "..\\..\\app.py",
    "app.py",
    "static/../../app.py",
    "%00",
    "plotly.min.js/../../__init__.py",
]


def test_no_page_holds_any_data(new_campaign: Callable[..., Campaign]) -> None:
    with housed(nasty(new_campaign)) as house:
        for path in ("/", "/enter"):
            stranger, owner = house.stranger().get(path), house.owner().get(path)
            assert stranger.content == owner.content
            assert b"alert(1)" not in owner.content


@pytest.mark.parametrize("path", TRAVERSALS)
def test_paths_lead_out_of_no_folder(house: House, path: str) -> None:
    for start in ("/static/", "/pages/", "/api/v1/questions/", "/api/v1/export/", "/api/v1/downloads/"):
        answer = house.owner().get(start + path)
        assert answer.status_code in (401, 403, 404, 405, 422), start + path
        assert b"import " not in answer.content
        assert b"root:" not in answer.content
