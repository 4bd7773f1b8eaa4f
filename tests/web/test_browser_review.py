"""The pages of reviewers and of the people concerned, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import GROUPS, PHONE, chromium, new_campaign, serving, visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_a_reviewer_decides_a_disagreement_by_a_click(browser: Any, tmp_path: Path) -> None:
    with serving(new_campaign(tmp_path, budget=6, overlap=2)) as site:
        for name, answer in (("ann", GROUPS[0]), ("bob", GROUPS[1])):
            question = site.campaign.ask(name)
            assert question is not None
            site.campaign.tell(question, answer)
        with visit(browser, site, "rita", "reviewer") as rita:
            rita.says("The annotators disagree.")
            assert "ann" not in rita.page.locator("#case").inner_text().split()
            rita.page.get_by_role("button", name=GROUPS[1], exact=True).click()
            rita.says("Nothing to decide")
            rita.says("0 to decide, 1 decided.")
    assert [one.group for one in site.campaign.owner.answers()] == [1]


def test_a_person_answers_on_a_phone_and_takes_it_back_by_the_code(browser: Any, tmp_path: Path) -> None:
    with serving(new_campaign(tmp_path, budget=6)) as site:
        (link,) = site.campaign.owner.self_reports.invite([5])
        context = browser.new_context(**PHONE)
        page = context.new_page()
        page.goto(f"{site.origin}/self-report#{link.token}")
        page.get_by_text("Why this may be asked: Consent").wait_for()
        page.get_by_role("button", name="female", exact=True).click()
        page.get_by_text("Thank you, it is recorded").wait_for()
        code = page.locator("#receipt").inner_text()
        assert "#" not in page.url
        assert [(one.row, one.group) for one in site.campaign.owner.answers()] == [(5, 0)]
        page.get_by_text("Withdraw an answer").click()
        page.locator("#code").fill(code)
        page.get_by_role("button", name="Withdraw", exact=True).click()
        page.get_by_text("Your answer is withdrawn and erased.").wait_for()
        assert site.campaign.owner.answers() == ()
        context.close()
