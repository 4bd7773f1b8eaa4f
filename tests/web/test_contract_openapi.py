"""The API against its own OpenAPI description: generated bodies, parameters and methods, right ones and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import web_people
from hypothesis import HealthCheck, settings

from apod.web.app import create_app
from apod.web.limits import Limits
from apod.web.settings import ServeSettings

ENDLESS = "/api/v1/events"
"""A stream that ends when the visitor leaves; tested with a real socket."""

_LIMITS = Limits(requests_per_second=1e6, burst=10**6, entries_per_minute=1e6)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[web_people.House]:
    campaign = web_people.make_campaign(tmp_path_factory.mktemp("fuzzed"), budget=50)
    with web_people.housed(campaign, ServeSettings(limits=_LIMITS)) as house:
        yield house
    campaign.close()


@pytest.fixture(scope="module")
def description(fuzzed: web_people.House) -> Any:
    found = schemathesis.openapi.from_dict(fuzzed.app.openapi())
    found.app = fuzzed.app
    return found


schema = (
    schemathesis.pytest.from_fixture("description")
    .exclude(path=ENDLESS)
    .exclude(path="/api/v1/session", method="DELETE")  # would end the session that all the others need
    .exclude(path="/api/v1/downloads/{what}", method="POST")  # starts a process each time
)


@schema.parametrize()
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_server_and_every_answer_is_as_described(
    case: Any, fuzzed: web_people.House
) -> None:
    token = fuzzed.campaign.access.grant("fuzzer", "owner", "token").token
    answer = case.call(headers={"Authorization": f"Bearer {token}", "X-Apod": "1", "Host": "127.0.0.1:8000"})
    case.validate_response(answer)
    assert web_people.GROUPS[0] not in answer.text or answer.status_code < 300


def test_the_description_names_all_errors_and_both_ways_in(fuzzed: web_people.House) -> None:
    description = create_app(fuzzed.campaign).openapi()
    assert set(description["components"]["securitySchemes"]) == {"HTTPBearer", "APIKeyCookie"}
    for path, item in description["paths"].items():
        for method, operation in item.items():
            assert {"401", "403", "422", "429"} <= set(operation["responses"]), (method, path)
            assert operation["summary"]
