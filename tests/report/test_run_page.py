from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_results import make_pictures, make_result, metrics

from apod.errors import InputError
from apod.report import Pictures, render_report
from apod.report.settings import command
from apod.report.words import Change, judge

DOCS = Path(__file__).resolve().parents[2] / "docs" / "result.md"
VOID = {"meta", "br", "link", "img", "input", "hr"}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</style></title></script>--><!--"


class Page(HTMLParser):
    """What a browser makes of the page: elements with their attributes, the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    @property
    def body(self) -> str:
        return re.sub(r"\s+", " ", self.texts["body"][0])

    @property
    def structure(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(sorted(attributes))) for tag, attributes in self.elements]

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def nothing_recorded() -> dict[str, Any]:
    return make_result(recorded=False)


def half_undefined() -> dict[str, Any]:
    def change(result: dict[str, Any]) -> None:
        rates = {"Female": (None, 0.03, 0.1, 9), "Male": (0.6, 0.1, 0.2, 15000)}
        for entry in (result["vanilla"], result["selected"], *result["tradeoff"]):
            entry |= metrics(rates, excluded=73)
        for entry in result["bound"]:
            entry |= dict.fromkeys(("epsilon", "sampling_term", "covering_term", "bound", "observed"))

    return make_result(change=change)


def per_strength() -> dict[str, Any]:
    def change(result: dict[str, Any]) -> None:
        result["trajectories"] = {str(s): result["answers"] for s in result["settings"]["strengths"]}
        result["settings"] |= {"trajectories": "per strength", "ask_strength": None}

    return make_result(change=change)


def bare() -> dict[str, Any]:
    def change(result: dict[str, Any]) -> None:
        result |= {"rounds": [], "bound": [], "notes": [], "answers": []}

    return make_result(n_rounds=1, change=change)


def no_difference() -> dict[str, Any]:
    def change(result: dict[str, Any]) -> None:
        same = {k: v for k, v in result["vanilla"].items() if k != "strength"}
        for entry in (result["selected"], *result["tradeoff"]):
            entry |= same
        result["changes"] = {"total": 0, "share": 0.0, "groups": result["changes"]["groups"]}
        for flips in result["changes"]["groups"].values():
            flips |= {"to_positive": 0, "to_negative": 0}

    return make_result(change=change)


SEVEN = ("a", "b", "c", "d", "e", "f", "g")
VARIANTS: dict[str, Any] = {
    "two groups": make_result,
    "three groups": lambda: make_result(("a", "b", "c")),
    "seven groups": lambda: make_result(SEVEN),
    "no recorded groups": nothing_recorded,
    "a group without positives": half_undefined,
    "a trajectory per strength": per_strength,
    "one round, one strength": lambda: make_result(n_rounds=1, strengths=(0.5,)),
    "one hundred and twenty rounds": lambda: make_result(n_rounds=120),
    "no difference at all": no_difference,
    "no rounds, answers, bound or notes": bare,
    "hostile names": lambda: make_result((EVIL + "a", EVIL + "b"), (EVIL + "0", EVIL + "1")),
    "very long names": lambda: make_result(("x" * 300, "y y " * 90), ("n" * 200, "p" * 200)),
}


@pytest.fixture(params=VARIANTS, ids=str)
def result(request: pytest.FixtureRequest) -> dict[str, Any]:
    made: dict[str, Any] = VARIANTS[request.param]()
    return made


def test_every_kind_of_result_gives_a_whole_page(result: dict[str, Any]) -> None:
    page = Page(render_report(result, make_pictures(result["group_names"])))
    assert page.open == []  # every element is closed
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert [a["id"] for a in page.all("section")] == [
        *("groups", "curve", "rounds", "changes", "asked"),
        *(["bound"] if result["bound"] else []),
        "settings",
    ]
    assert {a["href"] for a in page.all("a")} <= {f"#{name}" for name in ids}
    for word in ("nan", "None", "inf ", "Undefined"):
        assert word not in page.body, word


def test_the_page_refers_to_nothing_outside_itself(result: dict[str, Any]) -> None:
    html = render_report(result, make_pictures(result["group_names"]))
    page = Page(html)
    loading = {"src", "srcset", "action", "formaction", "poster", "data", "background", "xlink:href", "ping", "style"}
    for tag, attributes in page.elements:
        assert not loading & set(attributes), tag
        assert tag == "a" or "href" not in attributes, tag
    assert not {"link", "iframe", "object", "embed", "base", "img", "form"} & {tag for tag, _ in page.elements}
    assert not re.search(r"url\(|@import|https?:", "".join(page.texts["style"] + page.texts["script"]))
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_policy_lets_exactly_our_script_run() -> None:
    html = render_report(make_result())
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in html


def strings_replaced(value: Any, text: str) -> Any:
    """The same result with another text in every string, the names that hold it together apart."""
    if isinstance(value, dict):
        kept = ("strength", "label_names", "group_names", "groups", "worst_group", "group", "label", "notion")
        return {k: v if k in kept else strings_replaced(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [strings_replaced(one, text) for one in value]
    return text if isinstance(value, str) else value


def test_no_text_in_a_result_becomes_markup() -> None:
    names, labels = (EVIL + "a", EVIL + "b"), (EVIL + "0", EVIL + "1")
    tame = strings_replaced(make_result(("ga", "gb"), ("l0", "l1")), "text")
    hostile = strings_replaced(make_result(names, labels), EVIL)
    hostile["settings"] = {EVIL + key if key not in NEEDED else key: v for key, v in hostile["settings"].items()}
    hostile["timing"] = {EVIL: 1.0}
    tame["timing"] = {"total_seconds": 1.0}
    plane = make_pictures(names).plane
    assert plane is not None
    pictures = Pictures(replace(make_pictures(names).map, method=EVIL), replace(plane, feature_names=(EVIL, EVIL)))  # type: ignore[type-var]
    page = Page(render_report(hostile, pictures))
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.structure == Page(render_report(tame, make_pictures(("ga", "gb")))).structure
    assert page.body.count("<script>alert(1)</script>") > 50  # shown as text, where it stood


NEEDED = {
    *("strengths", "selector", "notion", "relaxation", "over", "proxy", "ask_strength"),
    *("questions_per_round", "body", "split"),
}


def test_any_names_give_the_same_elements() -> None:
    plain = Page(render_report(make_result(("ga", "gb"), ("l0", "l1"), n_rounds=2))).structure

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.text(min_size=1, max_size=30), min_size=4, max_size=4, unique=True))
    def check(names: list[str]) -> None:
        named = make_result(names[:2], names[2:], n_rounds=2)
        assert Page(render_report(named)).structure == plain

    check()


def test_every_picture_is_told_in_words_and_every_table_has_a_caption(result: dict[str, Any]) -> None:
    page = Page(render_report(result, make_pictures(result["group_names"])))
    charts = [a for a in page.all("svg") if a.get("class") == "chart"]
    assert len(charts) >= 4
    assert all(a["role"] == "img" and len(a["aria-label"]) > 30 for a in charts)
    assert all("aria-hidden" in a for a in page.all("svg") if a.get("class") != "chart")
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in a for a in page.all("th"))


def test_the_head_of_the_page_states_the_numbers_of_the_result() -> None:
    body = Page(render_report(make_result())).body
    # Rates 52/62 and 3.2/10 without, 57/62 and 6.6/10 with: gaps 10 + 6.8 and 5 + 3.4 points.
    assert "Mitigation narrowed the gap between Female and Male from 16.8 to 8.4 percentage points" in body
    assert "84.7% → 84.5%" in body
    assert "30 of 7,540" in body
    assert "394 of 15,082" in body  # 12 + 180 + 42 + 160


def with_rates(before: Any, after: Any, half: float = 0.001, **more: Any) -> dict[str, Any]:
    def change(result: dict[str, Any]) -> None:
        for key, rates in (("vanilla", before), ("selected", after)):
            groups = {n: (*r, s, 7541) for n, r, s in zip(("Female", "Male"), rates[:2], rates[2], strict=True)}
            result[key] |= metrics(groups, half=half)
        result["selected"] |= more

    return make_result(change=change)


FAIR = ((0.6, 0.1), (0.6, 0.1), (0.3, 0.3))
UNFAIR = ((0.5, 0.1), (0.6, 0.1), (0.3, 0.3))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: with_rates(UNFAIR, FAIR), "narrowed the gap between Female and Male from 10.0 to 0.0"),
        (lambda: with_rates(FAIR, UNFAIR), "widened the gap between Female and Male from 0.0 to 10.0"),
        (lambda: with_rates(UNFAIR, FAIR, half=0.06), "not distinguishable from no change"),
        (lambda: with_rates(UNFAIR, UNFAIR), "did not change: 10.0 percentage points"),
        (nothing_recorded, "nobody in the test part has a recorded group"),
        (half_undefined, "some group has nobody to measure a rate on"),
    ],
)
def test_the_first_sentence_claims_what_the_intervals_carry(made: Any, said: str) -> None:
    assert said in judge(made()).sentences[0]


def test_a_paired_interval_decides_where_the_run_measured_one() -> None:
    overlapping = with_rates(UNFAIR, FAIR, half=0.06)
    assert "narrowed" in judge(overlapping | {"differences": {"gap": [-0.12, -0.07]}}).sentences[0]
    apart = with_rates(UNFAIR, FAIR)
    assert "not distinguishable" in judge(apart | {"differences": {"gap": [-0.2, 0.01]}}).sentences[0]


@given(st.tuples(*[st.floats(0, 1)] * 4))
def test_a_change_is_told_only_where_the_intervals_do_not_meet(ends: tuple[float, ...]) -> None:
    before, after = sorted(ends[:2]), sorted(ends[2:])
    middle = [sum(pair) / 2 for pair in (before, after)]
    change = Change(middle[0], middle[1], (before[0], before[1]), (after[0], after[1]))
    meet = any(before[0] <= v <= before[1] for v in after) or any(after[0] <= v <= after[1] for v in before)
    assert (change.direction in ("smaller", "larger")) == (not meet)


@pytest.mark.parametrize(
    ("after", "more", "titles"),
    [
        (FAIR, {}, []),
        (((0.6, 0.1), (0.6, 0.1), (0.074, 0.075)), {}, ["Almost nobody is predicted >50K any more"]),
        (((0.6, 0.1), (0.6, 0.1), (0.07, 0.3)), {}, ["Almost nobody of Female is predicted >50K any more"]),
        (FAIR, {"balanced_accuracy": 0.7449}, ["Balanced accuracy fell by 1.5 points"]),
        (FAIR, {"balanced_accuracy": 0.7451}, []),
        (((0.49, 0.1), (0.5, 0.1), (0.3, 0.3)), {}, ["Every group's true positive rate fell"]),
        (((0.5, 0.1), (0.5, 0.1), (0.3, 0.3)), {}, []),  # the first group's stayed
    ],
)
def test_levelling_down_and_collapse_are_called_by_name(after: Any, more: dict[str, Any], titles: list[str]) -> None:
    verdict = judge(with_rates(UNFAIR, after, **more))
    assert [caution.title for caution in verdict.cautions] == titles
    assert ("But " in verdict.sentences[0]) == bool(titles)


def test_a_better_looking_strength_on_the_test_part_is_called_hindsight() -> None:
    def change(result: dict[str, Any]) -> None:
        result["tradeoff"][0] |= {"gap": 0.01, "accuracy": 0.9}

    assert "Strength 0.05 looks better on the test part" in Page(render_report(make_result(change=change))).body
    assert "hindsight" not in Page(render_report(make_result(strengths=(0.5,)))).body


def test_answers_of_every_strength_are_counted_where_each_asked_its_own() -> None:
    result = per_strength()
    people = len({answer["row"] for answer in result["answers"]})
    assert f"read 240 answers about {people} different people" in Page(render_report(result)).body


def test_the_command_says_everything_it_can_and_quotes_what_needs_it() -> None:
    told = command(make_result() | {"dataset": "my people; rm -rf", "reference": "not $White"})
    assert told.startswith("apod run 'my people; rm -rf' --preset default --seed 0 --budget 30")
    assert "--strengths 0.05,0.1,0.2,0.3,0.5,0.8,1.2,2" in told
    assert "--reference 'not $White'" in told
    assert "--ask-strength" not in command(per_strength())


def test_another_schema_version_is_refused() -> None:
    with pytest.raises(InputError, match="schema_version 1: the report reads version 2"):
        render_report(make_result() | {"schema_version": 1})


# docs/result.md


def documented() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", DOCS.read_text(), re.MULTILINE))


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every field of a result by its documented path."""
    if isinstance(value, dict) and path != "model.cross_validated_accuracies":
        by_name = path.rpartition(".")[2] == "groups" or path == "trajectories"
        for key, inner in value.items():
            below = f"{path}.NAME" if by_name else f"{path}.{key}".lstrip(".")
            if not by_name:
                yield below
            yield from paths(inner, below)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from paths(inner, f"{path}[]")


def undocumented(result: dict[str, Any]) -> set[str]:
    known = documented()
    found = {
        re.sub(r"^(compared\.vanilla|compared\.selected|vanilla|selected|tradeoff\[\])\.", "METRICS.", path)
        for path in paths(result)
    }
    found = {path.replace("trajectories.NAME[]", "answers[]") for path in found}
    return {path for path in found if path not in known}


def test_every_field_of_a_result_is_documented() -> None:
    assert undocumented(make_result(("a", "b", "c"))) == set()
    assert undocumented(per_strength() | {"differences": {"gap": [0, 1]}}) == set()
    assert undocumented(make_result() | {"novel": {"field": 1}}) == {"novel", "novel.field"}


HEADS = {"strengths": (0.1, 1.0), "body_epochs": 1, "epochs": 1, "questions_per_round": 3}
HEADS_ALONE = ("bound", "METRICS.validation.", "rounds[].choice.heads", "settings.", "timing.body", "timing.training")
MODELS_ALONE = (
    "thresholds.",
    "verification.",
    "outlook.",
    "model.",
    "correction.",
    "estimate.",
    "METRICS.expected",
    "rounds[].estimate.",
    "settings.",
    "timing.model",
)


@pytest.fixture(scope="module", params=["default", "heads", "paper"])
def real_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on synthetic data, named like its preset."""
    from apod.data import make_example
    from apod.method.settings import PRESETS
    from apod.run import run_experiment
    from apod.run.files import write_outcome

    folder = tmp_path_factory.mktemp("run") / request.param
    told = {"questions_per_round": 3} if request.param == "default" else HEADS
    settings = replace(PRESETS[request.param], **told)
    write_outcome(run_experiment(make_example(400), settings, budget=12, preset=request.param), folder)
    return folder


def test_a_real_run_writes_only_documented_fields_and_a_whole_page(real_run: Path) -> None:
    page = Page((real_run / "report.html").read_text())
    result = json.loads((real_run / "result.json").read_text())
    assert undocumented(result) == set()
    assert page.open == []
    assert "(c) With mitigation" in page.body
    optional = {
        "answers[].reason.entropy",
        "audit",
        "criterion.",
        "known_groups",
        "compared",
        "verification.",
        "outlook[",
        "rounds[].choice.outlook.",
        "METRICS",
        "differences",
        "data.weight",
        "correction.direction[].decision",
    }
    # typical and informative people are not chosen by subgroup and distance
    optional |= {"answers[].reason.group", "answers[].reason.centred_accuracy", "answers[].reason.distance"}
    optional |= {"by_attribute", "intersections", "values_told", "estimate.attributes", "estimate.intersections"}
    optional |= {"data.weight", "changes.groups.NAME.to."}  # of weighted rows, and of more than two labels
    optional |= set(HEADS_ALONE if real_run.name == "default" else MODELS_ALONE)
    optional |= {"rounds[].choice."} if real_run.name == "paper" else set()  # no posterior there
    compulsory = {path for path in documented() if not path.startswith(tuple(optional))}
    assert compulsory <= set(paths(result))


def test_the_published_schema_knows_every_field_and_accepts_what_a_run_writes(real_run: Path) -> None:
    schema = json.loads((DOCS.parent / "result.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    result = json.loads((real_run / "result.json").read_text())
    validator.validate(result)
    several = {"by_attribute", "intersections", "values_told"}
    assert set(schema["properties"]) - {"audit", "compared", "known_groups"} - several == set(result)
    for change in (
        {"schema_version": 1},
        {"selected": None},
        {"estimate": {"base": None}},
        {"answers": [{"row": "x"}]},
    ):
        assert not validator.is_valid(result | change), change
    assert not validator.is_valid({name: value for name, value in result.items() if name != "correction"})


def test_another_preset_on_the_same_people_stands_beside_this_run(real_run: Path) -> None:
    from apod.run.record import compared

    result = json.loads((real_run / "result.json").read_text())
    both = result | {"compared": compared(result)}
    jsonschema.validate(both, json.loads((DOCS.parent / "result.schema.json").read_text()))
    assert undocumented(both) == set()
    page = Page(render_report(both))
    assert page.open == []
    assert "The same people, " in page.body
    own = result["trajectories"] or {"": result["answers"]}
    assert both["compared"]["answers_read"] == sum(map(len, own.values())) == 12 * len(own)
    assert ("asks its own questions" in page.body) == (real_run.name == "paper")
