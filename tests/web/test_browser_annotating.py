"""The annotation page in a real browser: nothing is lost, nothing doubled, the keyboard is enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browsing import GROUPS, PHONE, Site, chromium, new_campaign, serving, table, visit, window

from apod.campaign import Campaign, Store

pytestmark = pytest.mark.xdist_group("browser-annotating")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    settings = getattr(request, "param", {})
    with serving(new_campaign(tmp_path, **settings)) as found:
        yield found


def test_a_whole_campaign_by_keyboard_alone(browser: Any, site: Site) -> None:
    keys = {"1": "female", "2": "male", "0": "cannot_tell", "d": "declined"}
    with visit(browser, site) as maria:
        given = []
        case = maria.case()
        for key in ["1", "2", "0", "1", "d", "2"]:
            if len(given) == 3:  # a skip in between costs nothing and leaves no answer
                maria.press("s")
                case = maria.case(case)
            given.append((maria.press(key), keys[key]))
            case = maria.case(case) if len(given) < 6 else ""
        maria.says("All answers are in")
        maria.delivered()
        assert maria.page.locator("#everyone").inner_text() == "6 of 6 in all"
        assert maria.page.locator("#mine").inner_text() == "6 answers by you"
    assert sorted(site.recorded()) == sorted(given)
    assert site.campaign.status().skipped == 1


def test_the_keys_are_printed_on_the_buttons(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        maria.case()
        printed = [" ".join(text.split()) for text in maria.page.locator("#pad button").all_inner_texts()]
    assert printed == ["1 female", "2 male", "0 Cannot tell", "d Declined", "s Skip", "u Undo"]


def test_who_listens_hears_what_was_recorded_and_what_comes_next(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        assert maria.page.evaluate("() => document.activeElement.id") == "heading"
        maria.press("1")
        shown = maria.case(case)
        said = maria.page.locator("[role=status]#announcer").inner_text()
        assert said.startswith(f"Recorded: female. Next case: {shown.removeprefix('Case ')}. Experience years:")
        maria.page.get_by_role("button", name="male", exact=True).focus()
        maria.page.keyboard.press("Enter")
        maria.case(shown)
        assert maria.page.evaluate("() => document.activeElement.textContent") == "2male"  # focus stays on the button


def test_a_held_key_answers_one_case_only(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        maria.page.keyboard.down("1")
        for _ in range(5):
            maria.page.keyboard.down("1")  # what a keyboard sends while the key stays down
        maria.case(case)
        maria.page.keyboard.up("1")
        maria.delivered()
    assert len(site.recorded()) == 1


def test_guidelines_and_help_are_one_key_away_and_keys_answer_nothing_behind_them(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        maria.case()
        maria.page.keyboard.press("g")
        maria.says("Decide by the application alone.", "#guidelines")
        maria.page.keyboard.press("1")
        maria.page.keyboard.press("Escape")
        maria.page.keyboard.press("?")
        maria.says("Where your answers go", "#help")
        maria.page.locator("#single-keys").uncheck()
        maria.page.keyboard.press("Escape")
        maria.page.keyboard.press("1")
        maria.page.wait_for_timeout(200)
    assert site.recorded() == []


def test_names_are_readable_and_have_their_units(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        maria.case()
        names = maria.page.locator("#case dt").all_inner_texts()
        assert "Field of study" in names
        assert [name for name in names if "_" in name] == []
        assert "EUR" in maria.page.locator("#case").inner_text()


def test_the_next_case_is_there_before_it_is_needed(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        maria.page.route("**/api/v1/**", lambda route: None)  # from now on no request is ever answered
        maria.press("1")
        assert maria.case(case) != case
        maria.cut = True


def test_undo_brings_the_case_back_and_takes_the_answer_away(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        first = maria.case()
        maria.press("1")
        second = maria.case(first)
        maria.delivered()
        maria.page.keyboard.press("u")
        assert maria.case(second) == first
        assert site.recorded() == []
        maria.press("2")
        maria.case(first)
        maria.delivered()
    assert site.recorded() == [(first.removeprefix("Case "), "male")]


def test_one_of_the_last_answers_can_be_changed(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        first = maria.press("1")
        case = maria.case(case)
        second = maria.press("1")
        maria.case(case)
        maria.delivered()
        maria.page.get_by_label(f"Change the answer to case {first}").click()
        maria.says("Your answer is: female.", "#change")
        maria.page.keyboard.press("2")
        maria.says(f"Changed: case {first} is now male.", "#toast")
        maria.delivered()
        maria.page.wait_for_function(
            "() => [...document.querySelectorAll('#recent .said')].some((said) => said.textContent === 'male')"
        )
    assert sorted(site.recorded()) == sorted([(first, "male"), (second, "female")])


def test_without_a_network_answers_wait_visibly_and_are_erased_once_delivered(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        maria.cut = True
        maria.context.set_offline(True)
        given = [maria.press("1")]
        case = maria.case(case)
        given.append(maria.press("2"))
        maria.says("Waiting for the server")
        maria.says("2 answers are kept in this browser until the server has them.", "#queue")
        assert len(maria.stored()) == 2
        assert site.recorded() == []
        maria.context.set_offline(False)
        maria.says("The server is back", "#toast")
        maria.delivered()
        maria.case(case)
    assert sorted(site.recorded()) == sorted(zip(given, ["female", "male"], strict=True))


def test_what_waits_survives_a_reload(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        maria.cut = True
        maria.page.route("**/api/v1/questions/**", lambda route: route.abort())
        given = maria.press("1")
        shown = maria.case(case)
        maria.says("1 answer is kept in this browser", "#queue")
        maria.page.reload()
        assert maria.case() == shown  # the answered case does not come back
        maria.page.unroute("**/api/v1/questions/**")
        maria.page.get_by_role("button", name="Try now").click()
        maria.delivered()
    assert site.recorded() == [(given, "female")]


def test_an_answer_whose_acknowledgement_is_lost_is_recorded_once(browser: Any, site: Site) -> None:
    sent = []

    def swallow(route: Any) -> None:
        sent.append(route.request.post_data_json["key"])
        if len(sent) == 1:
            route.fetch()  # the server has it ...
            route.abort()  # ... and the browser never learns
        else:
            route.continue_()

    with visit(browser, site) as maria:
        case = maria.case()
        maria.cut = True
        maria.page.route("**/answer", swallow)
        given = maria.press("1")
        maria.case(case)
        maria.delivered()
        assert len(sent) == 2
        assert len(set(sent)) == 1
    assert site.recorded() == [(given, "female")]
    assert site.campaign.status().answered == 1


def test_undo_before_anything_was_sent_needs_no_server(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        first = maria.case()
        maria.cut = True
        maria.page.route("**/api/v1/questions/**", lambda route: None)  # the first answer hangs on its way
        maria.press("1")
        second = maria.case(first)
        maria.press("1")
        maria.page.wait_for_function("(case_) => document.querySelector('#heading').textContent !== case_", arg=second)
        maria.page.wait_for_timeout(250)
        maria.page.keyboard.press("u")
        assert maria.case() == second
        assert len(maria.stored()) == 1


def test_two_tabs_of_one_person_double_nothing(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        first = maria.case()
        other = maria.tab()
        other.goto(site.origin)
        other.wait_for_selector("#case .case")
        assert other.locator("#heading").inner_text() == first
        maria.press("1")
        second = maria.case(first)
        other.wait_for_function("(case_) => document.querySelector('#heading').textContent === case_", arg=second)
        other.wait_for_timeout(250)
        other.keyboard.press("2")
        maria.page.wait_for_function("(case_) => document.querySelector('#heading').textContent !== case_", arg=second)
        maria.delivered()
    expected = [(first.removeprefix("Case "), "female"), (second.removeprefix("Case "), "male")]
    assert sorted(site.recorded()) == sorted(expected)


def test_two_annotators_at_once_never_get_the_same_case(browser: Any, site: Site) -> None:
    seen: list[str] = []
    with visit(browser, site) as maria, visit(browser, site, "bob") as bob:
        cases = {id(maria): maria.case(), id(bob): bob.case()}
        for turn in range(3):
            for person in (maria, bob):
                seen.append(person.press(str(1 + turn % 2)))
                if len(seen) < 4:  # after that the other may hold all that is left
                    cases[id(person)] = person.case(cases[id(person)])
                person.page.wait_for_timeout(300)
        maria.delivered()
        bob.delivered()
        maria.says("All answers are in")
        bob.says("All answers are in")
    assert len(set(seen)) == 6
    assert sorted(row for row, _ in site.recorded()) == sorted(seen)


@pytest.mark.parametrize("site", [{"overlap": 2, "budget": 16}], indirect=True)
def test_with_overlap_and_a_slow_network_six_keys_answer_six_people(browser: Any, site: Site) -> None:
    slow = {"offline": False, "latency": 400, "downloadThroughput": -1, "uploadThroughput": -1}
    with visit(browser, site) as maria:
        maria.case()
        maria.context.new_cdp_session(maria.page).send("Network.emulateNetworkConditions", slow)
        given = []
        for key in "121212":  # as soon as a case is on the screen, whoever it is about
            maria.page.locator("#case .case:not([data-seen])").evaluate("(shown) => { shown.dataset.seen = 1; }")
            maria.page.wait_for_timeout(220)
            given.append(maria.press(key))
        maria.delivered()
    assert len(set(given)) == 6
    assert sorted(site.recorded()) == sorted(zip(given, ["female", "male"] * 3, strict=True))
    status = site.campaign.status()
    assert (status.answered, status.late, status.uncounted) == (6, 0, 0)


def test_what_is_with_others_is_said_and_comes_when_they_leave_it(browser: Any, tmp_path: Path) -> None:
    new_campaign(tmp_path, budget=2).close()
    shift = [0]
    campaign = Campaign(Store(tmp_path / "trial.db", skew=lambda: shift[0]), "trial")  # its clock can be moved
    with serving(campaign) as site:
        while len(held := campaign.annotator("bob").hand().questions) < 2:
            time.sleep(0.1)
        campaign.owner.pause()
        with visit(browser, site) as maria:
            maria.page.clock.install()
            maria.page.reload()
            maria.says("The campaign is paused")
            campaign.owner.pause(False)
            maria.page.clock.fast_forward(31_000)  # the page looks every 30 s
            maria.says("Nothing for you right now")
            maria.says("2 questions are with others. What they leave comes to you in")
            shift[0] = 1000 * 1801  # bob's half an hour is over
            maria.page.clock.fast_forward(31_000)
            assert maria.case() == f"Case {held[0].row_id}"


def test_a_paused_campaign_says_so_and_goes_on_by_itself(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        site.campaign.owner.pause()
        maria.says("The campaign is paused")
        site.campaign.owner.pause(False)
        assert maria.case() == case


def test_whoever_is_revoked_learns_it_and_keeps_what_was_not_sent(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        maria.case()
        maria.cut = True
        maria.page.route("**/api/v1/events", lambda route: route.abort())
        site.campaign.owner.access.revoke_name("maria")
        maria.page.keyboard.press("1")
        maria.says("You are signed out")
        maria.says("1 answer waits in this browser.")
        assert len(maria.stored()) == 1
        maria.enter(site.link())
        maria.delivered()
    assert [answer for _, answer in site.recorded()] == ["female"]


def test_a_used_link_opens_nothing_and_leaves_no_token_in_the_address(browser: Any, site: Site) -> None:
    link = site.link()
    context = window(browser)
    page = context.new_page()
    page.goto(link)
    page.reload()  # whoever only looks, as mail scanners do, uses nothing up
    page.goto("about:blank")
    page.goto(link)
    page.locator("#enter").click()
    page.wait_for_selector("#case .case")
    assert "#" not in page.url
    other = window(browser)
    second = other.new_page()
    second.goto(link)
    second.locator("#enter").click()
    second.get_by_text("This link does not work").wait_for()
    assert "#" not in second.url
    context.close()
    other.close()


HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>"


def test_data_are_shown_as_text_and_nothing_else(browser: Any, tmp_path: Path) -> None:
    frame, _ = table(80)
    frame[HOSTILE] = f"{HOSTILE} {HOSTILE}"
    campaign = new_campaign(tmp_path, display=frame, groups=[HOSTILE, "male"], guidelines=HOSTILE, name=HOSTILE)
    with serving(campaign) as site, visit(browser, site, HOSTILE) as maria:
        case = maria.case()
        maria.press("1")
        maria.case(case)
        maria.delivered()
        maria.page.keyboard.press("g")
        maria.says(HOSTILE, "#guidelines")
        assert maria.page.locator("img").count() == 0
        assert maria.page.locator("b").count() == 0
        assert maria.page.locator("#case").get_by_text(HOSTILE).count() >= 1


def test_on_a_phone_everything_fits_and_is_large_enough_to_touch(browser: Any, site: Site) -> None:
    with visit(browser, site, **PHONE) as maria:
        case = maria.case()
        sizes = maria.page.evaluate(
            """() => ({
                 wide: document.documentElement.scrollWidth, screen: innerWidth,
                 low: document.querySelector('#pad').getBoundingClientRect().bottom - innerHeight,
                 buttons: [...document.querySelectorAll('#pad button')]
                   .map((button) => button.getBoundingClientRect())
                   .map(({ width, height }) => Math.min(width, height)),
               })"""
        )
        assert sizes["wide"] <= sizes["screen"]
        assert sizes["low"] <= 1
        assert min(sizes["buttons"]) >= 44
        maria.page.get_by_role("button", name=GROUPS[0], exact=False).first.tap()
        maria.case(case)
        maria.delivered()
    assert [answer for _, answer in site.recorded()] == ["female"]


TWO = {
    "groups": {"sex": ["female", "male"], "race": ["Black", "White", "other"]},
    "engine_options": {},
    "score": np.linspace(0.05, 0.95, 80),  # no model has to be fitted
}


def told(site: Site) -> dict[str, tuple[str, str]]:
    """What stands about every row: sex and race."""
    export = site.campaign.store.path.with_suffix(".csv")  # type: ignore[union-attr]
    site.campaign.owner.export(export)
    frame = pd.read_csv(export, dtype=str)
    return {row: (sex, race) for row, sex, race in zip(frame["row"], frame["sex"], frame["race"], strict=True)}


@pytest.mark.parametrize("site", [TWO | {"budget": 5}], indirect=True)
def test_two_attributes_are_annotated_by_keyboard_alone(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        case = maria.case()
        printed = [" ".join(text.split()) for text in maria.page.locator("#groups button").all_inner_texts()]
        assert printed == ["1 female", "2 male", "0 Cannot tell", "3 Black", "4 White", "5 other", "x Cannot tell"]
        every = maria.page.locator("#pad [aria-keyshortcuts], header [aria-keyshortcuts]")
        keys = every.evaluate_all("found => found.map((one) => one.getAttribute('aria-keyshortcuts'))")
        assert len(set(keys)) == len(keys) == 12  # no key means two things
        given = {}
        meant = {"14": ("female", "White"), "x2": ("male", "cannot_tell"), "03": ("cannot_tell", "Black")}
        meant |= {"0x": ("cannot_tell", "cannot_tell"), "d": ("declined", "declined")}
        for typed, answer in meant.items():
            for key in typed:
                given[maria.press(key)] = answer
                maria.page.wait_for_timeout(50)
            if len(given) < len(meant):
                case = maria.case(case)
        maria.says("All answers are in")
        maria.delivered()
        assert maria.page.locator("#everyone").inner_text() == "5 of 5 in all"
    assert told(site) == given
    status = site.campaign.status()
    assert (status.answered, status.values_told, status.cannot_tell, status.declined) == (5, 4, 1, 1)


@pytest.mark.parametrize("site", [TWO], indirect=True)
def test_a_choice_is_heard_may_be_changed_and_goes_back_as_a_whole(browser: Any, site: Site) -> None:
    with visit(browser, site) as maria:
        first = maria.case()
        row = maria.press("1")
        assert maria.page.locator("#announcer").inner_text() == "sex: female. Still to answer: race."
        assert maria.page.get_by_role("button", name="female", exact=True).get_attribute("aria-pressed") == "true"
        assert maria.page.get_by_role("group", name="race").get_by_role("button").count() == 4
        maria.press("2")  # changed before the answer is complete
        maria.press("5")
        second = maria.case(first)
        maria.delivered()
        assert told(site) == {row: ("male", "other")}
        assert maria.page.locator("#groups [aria-pressed=true]").count() == 0
        maria.press("u")
        assert maria.case(second) == first
        maria.delivered()
        assert told(site) == {}
        maria.press("1")
        maria.press("3")
        maria.case(first)
        maria.delivered()
        maria.page.locator("#recent button").first.click()
        maria.page.get_by_role("button", name="Save the change").wait_for()  # a key before that is about the next case
        maria.page.keyboard.press("4")
        maria.page.get_by_role("button", name="Save the change").click()
        maria.says("Changed", "#toast")
        maria.delivered()
    assert told(site) == {row: ("female", "White")}
