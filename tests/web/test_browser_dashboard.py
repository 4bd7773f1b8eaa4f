"""The dashboard in a real browser: it moves with the answers, and the owner can act on it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browsing import GROUPS, PHONE, QUICK, Site, Visit, answer, chromium, new_campaign, serving, table, visit
from browsing import window as new_window

from apod.campaign import Campaign
from apod.report.campaign_facts import campaign_facts
from apod.report.campaign_page import render_campaign
from support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("browser-dashboard")

FIRST = ["female", "male", "female", "male", "female"]
STRENGTHS = [0.0, *QUICK["strengths"]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A campaign with a few answers and a model of them."""
    campaign = new_campaign(tmp_path_factory.mktemp("dashboard"), rows=150, budget=40)
    with serving(campaign) as found:
        answer(found, FIRST)
        yield found


@pytest.fixture(scope="module")
def window(browser: Any, site: Site) -> Iterator[Visit]:
    """The owner's window, opened once: loading the drawing library takes its time."""
    with visit(browser, site, "owner", "owner") as found:
        drawn(found.page)
        yield found


@pytest.fixture
def owner(window: Visit) -> Iterator[Visit]:
    yield window
    assert window.complaints == []


def settled(page: Any, marks: str) -> list[tuple[float, float]]:
    """Where these marks are, once they have stopped gliding."""
    before: list[tuple[float, float]] = []
    for _ in range(60):
        boxes = page.locator(marks).evaluate_all(
            "(nodes) => nodes.map((node) => node.getBoundingClientRect().toJSON())"
        )
        places = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
        if places == before:
            return places
        before = places
        page.wait_for_timeout(500)
    raise AssertionError("the marks never came to rest")


def drawn(page: Any) -> int:
    """Wait for the picture; how many answers its newest model knows."""
    page.wait_for_selector("#curve .main-svg .points path", state="attached")
    return int(page.locator("#when-text").inner_text().split()[1])


def test_the_dashboard_moves_after_an_answer(owner: Visit, site: Site) -> None:
    before = drawn(owner.page)
    places = owner.page.locator("#curve .points path").evaluate_all(
        "(nodes) => nodes.map((n) => n.getAttribute('transform'))"
    )
    answer(site, ["male", "female"])
    owner.page.wait_for_function(
        "(before) => Number(document.querySelector('#when-text').textContent.split(' ')[1]) > before", arg=before
    )
    owner.page.wait_for_function(
        """(places) => [...document.querySelectorAll('#curve .points path')]
                       .some((node, k) => node.getAttribute('transform') !== places[k])""",
        arg=places,
    )
    count = site.campaign.status().answered
    owner.says(f"{count} of 40", "#cards")


def test_the_slider_goes_back_to_an_earlier_model(owner: Visit, site: Site) -> None:
    answer(site, ["female"])
    last = site.campaign.status().answered
    owner.says(f"after {last} training answers", "#when-text")
    owner.page.locator("#when").focus()
    owner.page.keyboard.press("Home")
    owner.page.wait_for_function(
        "(last) => Number(document.querySelector('#when-text').textContent.split(' ')[1]) < last", arg=last
    )
    assert owner.page.locator("#when").get_attribute("aria-valuetext") == owner.page.locator("#when-text").inner_text()
    owner.page.get_by_role("button", name="Play").click()
    owner.page.wait_for_function(
        "(last) => Number(document.querySelector('#when-text').textContent.split(' ')[1]) >= last", arg=last
    )


def test_the_operating_point_is_picked_on_the_curve_or_in_the_table(owner: Visit, site: Site) -> None:
    owner.page.get_by_role("radio", name="strength 2.00").check()
    owner.says("The classifier mitigates at strength 2.00, chosen by you.", "#chosen")
    assert site.campaign.owner.chosen() == 2.0
    owner.page.get_by_role("button", name="Leave it to the classifier").click()
    owner.says("Nothing is mitigated yet", "#chosen")
    assert site.campaign.owner.chosen() is None
    assert owner.page.locator("#strengths input:checked").count() == 0
    owner.page.locator("#curve").scroll_into_view_if_needed()
    places = settled(owner.page, "#curve .scatterlayer .trace:last-child .points path")
    owner.page.mouse.click(*places[0])
    owner.says("chosen by you", "#chosen")
    there = [math.dist(place, places[0]) < 15 for place in places]  # dots may lie on each other
    assert site.campaign.owner.chosen() in [strength for strength, near in zip(STRENGTHS, there, strict=True) if near]


def test_what_nothing_measures_is_not_known_and_proxy_guesses_have_no_interval(owner: Visit, site: Site) -> None:
    owner.says("The gap between the groups is not known: this campaign was created without an audit", "#lead")
    owner.says("not known yet", "#cards")
    owner.says("Not known: only audit answers measure a group's rates", "#rates-text")
    assert owner.page.locator("#rates-known").is_hidden()
    said = owner.page.locator("body").inner_text()
    assert "95%:" not in said
    assert not re.search(r"\d to \d", owner.page.locator("#strengths").inner_text())
    owner.says("Guessed gap, points", "#curve-section")
    owner.says("first answers, random person of a label", "#asked-text")
    assert "worst" not in owner.page.locator("#asked-section").inner_text()
    assert owner.page.locator("#distance-column").is_hidden()


def test_dashboard_classifier_and_report_name_the_same_operating_point(browser: Any, tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path, rows=150, budget=60, audit_share=0.5)
    with serving(campaign) as site:
        answer(site, ["female", "female", "male", "male"] * 8)  # every other question is the audit's
        with visit(browser, site, "owner", "owner") as owner:
            drawn(owner.page)
            counts = campaign.status().by_purpose
            owner.says(f"{counts['training']} to train on, {counts['audit']} to audit.", "#lead")
            owner.says("Nothing is mitigated yet", "#lead")
            assert owner.page.locator("#strengths input:checked").count() == 0
            owner.page.get_by_role("button", name="Build the classifier now").click()
            owner.page.wait_for_selector("#strengths input:checked", timeout=1000 * PATIENCE)
            classifier = campaign.classifier()
            owner.says(str(classifier.selected_because_), "#lead")
            owner.says(str(classifier.selected_because_), "#chosen")
            picked = owner.page.locator("#strengths input:checked").input_value()
            assert float(picked) == classifier.selected_strength_ == campaign_facts(campaign)["strength"]


def test_the_dashboard_of_a_corrected_model_has_intervals_and_the_classifiers_operating_point(
    browser: Any, tmp_path: Path
) -> None:
    campaign = new_campaign(tmp_path, rows=150, budget=40, audit_share=0.2, engine_options={})
    with serving(campaign) as site:
        answer(site, ["female", "female", "male", "male"] * 4)
        with visit(browser, site, "owner", "owner") as owner:
            drawn(owner.page)
            owner.says("The model knows every training answer.", "#freshness")
            assert owner.page.locator("#strengths tr").count() == len(campaign.owner.results.strengths()) == 21
            rows = owner.page.locator("#strengths").inner_text()
            assert len(re.findall(r"\d+\.\d \(\d+\.\d to \d+\.\d\)", rows)) == 21
            owner.says("Gap to expect, points", "#curve-section")
            assert "guess" not in owner.page.locator("#curve-section").inner_text().lower()
            point = campaign.owner.results.operating_point()
            assert point is not None
            assert point.estimate is not None
            owner.says(point.because, "#lead")
            known = point.estimate["base"]["says"]
            owner.says("the gap to expect" if known else "The gap between the groups is not known yet: by ", "#lead")
            if not known:
                owner.says("not known yet", "#cards")
            picked = owner.page.locator("#strengths input:checked").input_value()
            classifier, facts = campaign.classifier(), campaign_facts(campaign)
            assert float(picked) == point.strength == classifier.selected_strength_ == facts["strength"]
            assert point.because == classifier.selected_because_ == facts["selected_because"]
            strong = f"strength {campaign.owner.results.strengths()[-2]:.2f}"
            owner.page.get_by_role("radio", name=strong).check()
            owner.says(f"The classifier mitigates at {strong}, chosen by you.", "#chosen")
            assert (
                campaign.classifier().selected_strength_
                == campaign.owner.chosen()
                == campaign_facts(campaign)["strength"]
            )
        assert owner.complaints == []


def test_an_invited_annotator_comes_in_and_a_revoked_one_is_out(browser: Any, owner: Visit) -> None:
    owner.page.get_by_label("Name or pseudonym").fill("ann-7")
    owner.page.get_by_role("button", name="Make a link").click()
    owner.says("The link for ann-7. It is shown only now:")
    link = owner.page.locator("#invited input").input_value()
    context = new_window(browser)
    page = context.new_page()
    page.goto(link)
    page.locator("#enter").click()
    page.wait_for_selector("#case .case")
    owner.page.get_by_label("Revoke the access of ann-7").click()
    owner.says("Revoked: ann-7.")
    page.get_by_role("heading", name="You are signed out").wait_for()
    context.close()


def test_the_owner_sees_whom_we_asked_and_who_answered(owner: Visit, site: Site) -> None:
    rows = owner.page.locator("#asked tr").count()
    assert rows >= len(FIRST)
    owner.says("bob", "#annotators")
    owner.page.wait_for_selector("#map .points path", state="attached")
    with owner.page.expect_download() as download:
        owner.page.get_by_role("link", name="CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 1 + len(site.recorded())


def test_pausing_is_one_button(owner: Visit) -> None:
    owner.page.get_by_role("button", name="Pause").click()
    owner.says("Paused: nobody gets a case until you resume it.")
    owner.page.get_by_role("button", name="Resume").click()
    owner.page.get_by_role("button", name="Pause").wait_for()


def test_annotators_are_told_that_the_dashboard_is_not_theirs(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        maria.case()
        maria.page.goto(f"{site.origin}/dashboard")
        maria.says("This page is for the owner")
        assert maria.page.locator("#main").is_hidden()


def test_before_the_first_model_the_dashboard_says_what_it_waits_for(browser: Any, tmp_path: Path) -> None:
    with ExitStack() as server:
        site = server.enter_context(serving(new_campaign(tmp_path)))
        with visit(browser, site, "owner", "owner") as owner:
            owner.says("No model yet.")
            assert owner.page.locator("#freshness").inner_text() == ""  # no model knows any answer
            assert owner.page.locator("#pictures").is_hidden()
            owner.page.wait_for_function("() => document.querySelector('#live').textContent === 'live'")
            owner.cut = True
            server.close()
            owner.says("not connected, trying again")  # and when the server ends, that it is no longer live


def test_on_a_phone_the_dashboard_does_not_scroll_sideways(browser: Any, site: Site) -> None:
    with visit(browser, site, "owner", "owner", **PHONE) as owner:
        drawn(owner.page)
        for width in (390, 320):
            owner.page.set_viewport_size({"width": width, "height": 640})
            owner.page.wait_for_function("(wide) => document.documentElement.scrollWidth <= wide", arg=width)
        owner.says("Scroll sideways", "#asked-section")
        for box in owner.page.locator(".scroll").all():  # who scrolls says so, and nobody else
            wide = box.evaluate("(node) => node.scrollWidth > node.clientWidth + 1")
            assert (box.locator(".sideways").count() == 1) == wide


def test_on_a_phone_a_report_s_tables_that_scroll_say_so(browser: Any, site: Site, tmp_path: Path) -> None:
    page_file = tmp_path / "report.html"
    page_file.write_text(render_campaign(campaign_facts(site.campaign)))
    context = new_window(browser, **PHONE)
    page = context.new_page()
    page.goto(page_file.as_uri())
    hints = page.locator(".scroll").evaluate_all(
        """(boxes) => boxes.map((box) => [box.scrollWidth > box.clientWidth + 1,
                                          getComputedStyle(box, "::before").content.includes("Scroll sideways")])"""
    )
    assert any(wide for wide, _ in hints)
    assert all(wide == said for wide, said in hints)
    context.close()


def test_hostile_names_stay_text_in_the_pictures(browser: Any, tmp_path: Path) -> None:
    hostile = "<b>x</b><img src=x onerror=alert(1)>"
    frame, _ = table(80)
    groups, labels = [hostile, "male"], (hostile, "hired")
    campaign = new_campaign(tmp_path, budget=20, groups=groups, display=frame, label_names=labels, audit_share=0.3)
    with serving(campaign) as site:
        answer(site, [hostile, "male"] * 5)
        with visit(browser, site, "owner", "owner") as owner:
            drawn(owner.page)
            assert owner.page.locator("#rates tr").first.inner_text().startswith(hostile)
            assert hostile in owner.page.locator("#tpr .ytick text").all_text_contents()
            assert owner.page.locator("img").count() == 0


def test_a_page_that_stands_still_says_so_and_since_when(browser: Any, tmp_path: Path) -> None:
    campaign = new_campaign(tmp_path, rows=150, budget=40)
    with serving(campaign) as site, visit(browser, site, "owner", "owner") as found:
        answer(site, FIRST)
        drawn(found.page)
        found.says("The model knows every training answer.", "#freshness")
        campaign.engine().measure = lambda model, answers: 1 / 0  # type: ignore[attr-defined]
        answer(site, ["male"])
        found.says(
            "The latest model could not be measured (ZeroDivisionError), so this page is out of date", "#cautions"
        )
        at = datetime.fromisoformat(campaign.owner.results.history()[-1].at).timestamp()
        written = found.page.evaluate(
            "(at) => new Intl.DateTimeFormat('en', { timeStyle: 'short' }).format(at)", at * 1e3
        )
        found.says(f"What is shown was measured at {written}, after {len(FIRST)} training answers.", "#cautions")
        head = campaign.head
        campaign.head = lambda: 1 / 0  # type: ignore[assignment, return-value, method-assign]
        found.says("out of date: the server has not been able to read the campaign since", "#live")
        campaign.head = head  # type: ignore[method-assign]
        found.page.wait_for_function("() => document.querySelector('#live').textContent === 'live'")


def test_the_owner_extends_the_budget_and_changes_what_annotators_are_told(
    browser: Any, owner: Visit, site: Site
) -> None:
    total = site.campaign.status().budget + 2
    owner.page.get_by_label("Answers in all").fill(str(total))
    owner.page.get_by_role("button", name="Set the budget").click()
    owner.says(f"The budget is {total} answers now.", "#toast")
    owner.page.locator("#rules-guidelines").fill("# New\n- **Only** the letter")
    owner.page.locator("#rules-question-text").fill("Who wrote this?")
    owner.page.get_by_role("button", name="Save").click()
    owner.says("Saved.", "#toast")
    assert site.campaign.status().budget == total
    with visit(browser, site, "dora") as dora:
        dora.case()
        dora.says("Who wrote this?")
        assert dora.page.locator("#guidelines-text li strong").inner_html() == "Only"


def test_the_owner_adds_rows_and_makes_links_for_self_reports(browser: Any, tmp_path: Path) -> None:
    frame, labels = table(40)
    people = frame.assign(hired=labels)
    people.to_csv(tmp_path / "people.csv", index=False)
    campaign = Campaign.create_from_table(
        tmp_path / "trial.db", tmp_path / "people.csv", label="hired", groups=list(GROUPS), budget=6,
        positive="hired", engine_options=QUICK,
    )  # fmt: skip
    with serving(campaign) as site, visit(browser, site, "owner", "owner") as owner:
        owner.page.locator("#add-file").set_input_files(tmp_path / "people.csv")
        owner.page.get_by_role("button", name="Add the rows").click()
        owner.says("40 rows added; the campaign has 80 now.")
        owner.page.get_by_label("Numbers of the rows").fill("3, 45")
        with owner.page.expect_download() as waiting:
            owner.page.get_by_role("button", name="Make the links").click()
        links = pd.read_csv(waiting.value.path())
        assert list(links["row"]) == [3, 45]
        owner.page.locator("#rules-purpose").fill("To treat groups alike.")
        owner.page.get_by_role("button", name="Save").click()
        owner.says("Saved.")
        form = site.campaign.owner.self_reports.form(links["link"][1].split("#")[1])
        assert form is not None
        assert form.purpose == "To treat groups alike."
