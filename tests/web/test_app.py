"""The API against its own OpenAPI description: generated bodies, parameters and methods, right ones and wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import web_people
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from apod.web.app import create_app
from apod.web.settings import Limits, ServeSettings

ENDLESS = "/api/v1/events"
"""A stream that ends when the visitor leaves; tested with a real socket."""

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
)

_LIMITS = Limits(requests_per_second=1e6, burst=10**6, wrong_per_address=1e6, wrong_per_id=1e6)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[web_people.Live]:
    campaign = web_people.make_campaign(tmp_path_factory.mktemp("fuzzed"), budget=50)
    with web_people.live(campaign, ServeSettings(limits=_LIMITS)) as server:
        yield server
    campaign.close()


@pytest.fixture(scope="module")
def description(fuzzed: web_people.Live) -> Any:
    return schemathesis.openapi.from_url(f"{fuzzed.origin}/api/v1/openapi.json")


LEFT_OUT = {
    ("GET", ENDLESS),
    ("DELETE", "/api/v1/session"),  # would end the session that all the others need
    ("POST", "/api/v1/downloads/{what}"),  # starts a process each time
}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_breaks_the_server_and_every_answer_is_as_described(
    description: Any, fuzzed: web_people.Live, mode: GenerationMode
) -> None:
    token = fuzzed.campaign.owner.access.grant("fuzzer", "owner", "token").token
    headers = {"Authorization": f"Bearer {token}", "X-Apod": "1"}
    operations = [found.ok() for found in description.get_all_operations()]
    tried = Counter[str]()
    for operation in operations:
        if (operation.method.upper(), operation.path) in LEFT_OUT:
            continue
        try:
            strategy = operation.as_strategy(generation_mode=mode)
        except Unsatisfiable:  # nothing can be wrong about a request without parameters
            continue

        @settings(
            max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=strategy)
        def attack(case: Any) -> None:
            answer = case.call(base_url=fuzzed.origin, headers=headers)
            checks = [check for check in CHECKS if check is not negative_data_rejection or answer.status_code != 413]
            case.validate_response(answer, checks=checks)  # too long a body is refused before it is read
            tried[f"{answer.status_code // 100}xx"] += 1
            assert answer.status_code < 300 or web_people.GROUPS[0].encode() not in answer.content

        attack()
    assert tried.total() > 100
    assert tried["4xx"] > 50
    assert fuzzed.campaign.owner.verify_log().ok


def test_the_description_names_all_errors_and_both_ways_in(fuzzed: web_people.Live) -> None:
    description = create_app(fuzzed.campaign).openapi()
    assert set(description["components"]["securitySchemes"]) == {"HTTPBearer", "APIKeyCookie"}
    for path, item in description["paths"].items():
        for method, operation in item.items():
            assert {"401", "403", "422", "429"} <= set(operation["responses"]), (method, path)
            assert operation["summary"]
