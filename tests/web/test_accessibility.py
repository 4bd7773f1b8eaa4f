"""axe-core finds no serious violation on any state of any page, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import PHONE, Site, answer, chromium, new_campaign, serving, visit, window

pytestmark = pytest.mark.xdist_group("browser-accessibility")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(new_campaign(tmp_path_factory.mktemp("axe"), budget=30)) as found:
        yield found


def check(page: Any, state: str) -> None:
    """Nothing serious, in neither colour scheme."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_timeout(200)  # buttons take a moment to change colour
        found = axe.run(page).response["violations"]
        serious = [
            f"{state}, {scheme}: {item['id']}: {node['target']} {node['failureSummary']}"
            for item in found
            for node in item["nodes"]
            if item["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_the_annotation_page_in_every_state(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        maria.press("1")
        case = maria.case(case)
        maria.delivered()
        maria.page.wait_for_selector("#recent button")
        check(maria.page, "a case")
        for key in ("?", "g"):
            maria.page.keyboard.press(key)
            check(maria.page, f"dialog of {key}")
            maria.page.keyboard.press("Escape")
        maria.page.get_by_role("button", name="Change the answer").first.click()
        maria.page.wait_for_selector("#change[open]")
        check(maria.page, "changing an answer")
        maria.page.keyboard.press("Escape")
        maria.cut = True
        maria.context.set_offline(True)
        for _ in range(2):
            maria.press("1")
            maria.page.wait_for_timeout(300)
        maria.says("Waiting for the server")
        check(maria.page, "without a network")
        maria.context.set_offline(False)
        maria.delivered()
        site.campaign.owner.pause()
        maria.says("The campaign is paused")
        check(maria.page, "paused")
        site.campaign.owner.pause(False)
        maria.case()
        site.campaign.owner.access.revoke_name("maria")
        maria.press("1")
        maria.says("You are signed out")
        check(maria.page, "signed out")


def test_the_annotation_page_on_a_phone(browser: Any, site: Site) -> None:
    with visit(browser, site, "bob", **PHONE) as bob:
        bob.case()
        check(bob.page, "a case on a phone")


def test_waiting_and_done(browser: Any, tmp_path: Path) -> None:
    with serving(new_campaign(tmp_path, budget=2)) as site, visit(browser, site) as maria:
        case = maria.case()
        with visit(browser, site, "bob") as bob:
            bob.says("Nothing for you right now")
            check(bob.page, "waiting")
        maria.press("1")
        maria.case(case)
        maria.press("2")
        maria.says("All answers are in")
        check(maria.page, "done")


def test_a_link_that_does_not_work(browser: Any, site: Site) -> None:
    page = window(browser).new_page()
    page.goto(f"{site.origin}/enter#nonsense")
    check(page, "a link before it is used")
    page.locator("#enter").click()
    page.get_by_text("This link does not work").wait_for()
    check(page, "a bad link")
    page.context.close()


def test_the_dashboard_before_and_after_the_first_model(browser: Any, tmp_path: Path) -> None:
    with serving(new_campaign(tmp_path, budget=10)) as site, visit(browser, site, "owner", "owner") as owner:
        owner.says("No model yet.")
        check(owner.page, "dashboard without a model")
        answer(site, ["female", "male", "female", "male"])
        owner.page.wait_for_selector("#curve .main-svg .points path", state="attached")
        owner.page.wait_for_timeout(300)
        owner.page.get_by_label("Name or pseudonym").fill("dora")
        owner.page.get_by_role("button", name="Make a link").click()
        owner.says("It is shown only now")
        check(owner.page, "dashboard")
        owner.page.set_viewport_size({"width": 390, "height": 760})
        check(owner.page, "dashboard on a phone")


def test_the_reviewer_s_page(browser: Any, tmp_path: Path) -> None:
    with serving(new_campaign(tmp_path, budget=6, overlap=2)) as site:
        for name, group in (("ann", "female"), ("bob", "male")):
            question = site.campaign.ask(name)
            assert question is not None
            site.campaign.tell(question, group)
        for size in ({}, PHONE):
            with visit(browser, site, "rita", "reviewer", **size) as rita:
                rita.says("The annotators disagree.")
                check(rita.page, "a case to decide")
        with visit(browser, site, "ann", "reviewer") as ann:
            ann.says("Nothing to decide")
            check(ann.page, "nothing to decide")


def test_the_page_of_the_person_concerned_on_a_phone(browser: Any, site: Site) -> None:
    (link,) = site.campaign.owner.self_reports.invite([5])
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.goto(f"{site.origin}/self-report#{link.token}")
    page.get_by_text("Why this may be asked: Consent").wait_for()
    check(page, "before the answer")
    page.get_by_role("button", name="female", exact=True).click()
    page.get_by_text("Thank you, it is recorded").wait_for()
    check(page, "after it")
    page.goto(f"{site.origin}/self-report#nonsense")
    page.reload()
    page.get_by_text("ask whoever sent it for a new one").wait_for()
    check(page, "a link that does not work")
    context.close()
