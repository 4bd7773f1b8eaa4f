"""The report of a campaign: before and after per group from the audit answers, whom we asked, what is still unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from apod.audit.json_types import AuditJson, EstimateJson
from apod.fairness.metrics import RATE_WORDS
from apod.fairness.notions import EQUALIZED_ODDS
from apod.report.audit_page import audited_metrics, sign_of
from apod.report.charts import outlook_chart, outlook_sentence
from apod.report.facts import AuditedResult, CampaignFacts
from apod.report.rate_charts import rate_figures
from apod.report.run_page import fill
from apod.report.sections import (
    audit_says_more,
    expected_card,
    expected_section,
    expected_sentences,
    verification_text,
)
from apod.report.settings import features_text, setting_words
from apod.report.tables import DIFFERENCES, MOST_ROWS, Cell, Table, estimated, expected_cells, groups_table, notion_of
from apod.report.words import (
    UNDEFINED,
    count,
    decimal,
    label_name,
    percent,
    percent_span,
    plain,
    plural,
    points,
    signed_points,
    within,
)

LEVELLED = 0.015
"""Balanced accuracy lost from which a smaller gap may be mere levelling down."""


def render_campaign(facts: CampaignFacts) -> str:
    """One self-contained page from the facts of a campaign."""
    negative, positive = (label_name(name) for name in facts["label_names"])
    audit = facts["audit"]
    variables: dict[str, object] = {
        "facts": facts,
        "negative": negative,
        "positive": positive,
        "many_groups": len(facts["group_names"]) > 2,
        "gap_explained": (EQUALIZED_ODDS if audit is None else notion_of(audit)).words.explain(
            len(facts["group_names"])
        ),
        "lead": _lead(facts),
        "cards": _cards(facts),
        "cautions": _cautions(facts),
        "audit": audit is not None,
        "outlook": _outlook(facts),
        "expected": expected_section(facts),
        "asked": _asked(facts),
        "counts": _counts(facts),
        "questions": _questions(facts),
        "agreement": _agreement(facts),
        "attributes": _attributes(facts),
        "kinds": _kinds(facts),
        "rules": _rules(facts),
        "log": _log(facts),
    }
    if audit is not None:
        result = _as_result(facts, audit)
        variables |= {
            "figures": rate_figures(result, notion_of(audit)),
            "groups": _groups(facts, groups_table(result)),
            "differences": _differences(facts["group_names"], audit),
            "plan": _plan(audit),
        }
    return fill("campaign.html", variables)


def _outlook(facts: CampaignFacts) -> dict[str, object] | None:
    outlook = facts.get("outlook")
    if not isinstance(outlook, list) or not outlook:  # of a corrected model it stands beside the gap to expect
        return None
    return {"text": outlook_sentence(outlook), "chart": outlook_chart(facts["expected"], outlook)}


def _as_result(facts: CampaignFacts, audit: AuditJson) -> AuditedResult:
    """The audit in the form of a run's result, for its charts and tables."""
    views = audit["predictions"]
    return {
        "group_names": facts["group_names"],
        "label_names": facts["label_names"],
        "vanilla": audited_metrics(views["before"]["groups"]),
        "selected": audited_metrics(views["after"]["groups"]) if "after" in views else None,
    }


def _groups(facts: CampaignFacts, table: Table) -> Table:
    """The table of rates, with the audit answers that each group's rates rest on beside its name."""
    negative, positive = (label_name(name) for name in facts["label_names"])
    told = facts["audit_told"] or {}
    rows = [
        [row[0], Cell(f"{told[row[0].text]['positive']} / {told[row[0].text]['negative']}"), *row[1:]]
        for row in table.rows
    ]
    columns = [table.columns[0], f"Audit answers, {positive} / {negative}", *table.columns[1:]]
    caption = "Rates per group on the people held out, in percent; changes in points"
    return replace(table, caption=caption, columns=columns, rows=rows)


def _lead(facts: CampaignFacts) -> list[str]:
    status, audit = facts["status"], facts["audit"]
    sentences = [f"{plural(status['standing'], 'answer')} of a budget of {count(status['budget'])}."]
    if status["answered"] > status["standing"]:
        gone = plural(status["answered"] - status["standing"], "more was", "more were")
        sentences.append(f"{gone} erased and stay paid from the budget.")
    if audit is None:
        sentences.append(facts["no_audit"] or "")
    else:
        drawn, gap = audit["answers"]["drawn"], audit["predictions"]["before"]["gap"]
        sentences.append(f"By {plural(drawn, 'audit answer')} the gap without mitigation is {within(gap)} points.")
    expected = expected_sentences(facts["estimate"], facts["strength"])
    if audit is None or not audit_says_more(facts["estimate"], audit["predictions"]["before"]["gap"]):
        sentences = [sentences[0], *expected, *sentences[1:]]
    return [*sentences, *_mitigated(facts)]


def _mitigated(facts: CampaignFacts) -> list[str]:
    """What the classifier of these answers changes, and why it is that one."""
    if facts["strength"] is None:
        return ["There is no mitigated model yet: too few training answers."]
    tested = [] if facts["verification"] is None else [verification_text(facts["verification"])]
    if facts["strength"] == 0:
        return [f"Nothing was changed. {facts['selected_because']}", *tested]
    said = [
        *tested,
        f"Mitigation here is the classifier of strength {facts['strength']:.3g}. {facts['selected_because']}",
    ]
    if facts["audit"] is None or facts["audit"]["change"] is None:
        return said
    gap = facts["audit"]["change"]["gap"]
    found = {
        -1: "It made the gap between the groups smaller",
        0: "Whether it changed the gap between the groups cannot be said yet",
        1: "It made the gap between the groups larger",
    }[sign_of(gap)]
    return [*said, f"{found}: {within(gap, signed_points)} points on the people held out."]


def _cards(facts: CampaignFacts) -> list[dict[str, str]]:
    status, audit, decided = facts["status"], facts["audit"], facts["held_out_decisions"]
    cards = []
    if decided is not None:
        before, after = decided["before"], decided["after"]
        small = (
            f"Balanced {percent(before['balanced_accuracy'])}, then {percent(after['balanced_accuracy'])}; held out."
        )
        cards.append(
            {
                "what": "Accuracy",
                "before": percent(before["accuracy"]),
                "after": percent(after["accuracy"]),
                "small": small,
            }
        )
    if audit is not None:
        views = audit["predictions"]
        gaps = [views[name]["gap"] for name in ("before", "after") if name in views]
        cards.append(_gap_card(gaps, audit["answers"]["drawn"]))
    elif facts["estimate"] is not None:
        cards.append(expected_card(facts["estimate"], facts["strength"]))
    cards.append(
        {
            "what": "Answers",
            "after": f"{count(status['standing'])} of {count(status['budget'])}",
            "small": _purposes(status["by_purpose"]),
        }
    )
    if decided is not None:
        cards.append(
            {
                "what": "Decisions that change",
                "after": f"{count(decided['changed'])} of {count(decided['people'])}",
                "small": f"{percent(decided['changed'] / decided['people'])} of the people held out.",
            }
        )
    return cards


def _purposes(counts: Mapping[str, int]) -> str:
    """What answers are for, in words."""
    said = [f"{count(counts.get('training', 0))} to train", f"{count(counts.get('audit', 0))} to audit"]
    if counts.get("verification"):
        said.insert(1, f"{count(counts['verification'])} to verify")
    return ", ".join(said) + "."


def _gap_card(gaps: Sequence[EstimateJson], answers: int) -> dict[str, str]:
    """The gap by audit; its interval alone where answers are too few for an estimate."""
    spans = [percent_span([gap["low"], gap["high"]]) for gap in gaps]
    small = f"By {plural(answers, 'audit answer')}, 95% interval{'s' if len(gaps) > 1 else ''}"
    values = [gap["value"] for gap in gaps]
    if None in values:
        shown, small = spans, f"{small}; too few answers for an estimate."
    else:
        shown, small = [points(value) for value in values], f"{small}: {', then '.join(spans)}."
    card = {"what": "Gap, points", "after": shown[-1], "small": small}
    return card | ({"before": shown[0]} if len(shown) > 1 else {})


def _cautions(facts: CampaignFacts) -> list[str]:
    found = [*facts["status"]["reminders"]]
    found += [facts["no_classifier"]] if facts["no_classifier"] else []
    found += facts["warnings"]
    if facts["status"]["refit_failure"]:
        found.append(
            f"The last refit failed ({facts['status']['refit_failure']}): questions came from an earlier model."
        )
    decided = facts["held_out_decisions"]
    if decided is not None:
        lost = decided["before"]["balanced_accuracy"] - decided["after"]["balanced_accuracy"]
        if lost > LEVELLED:
            found.append(
                f"Balanced accuracy falls by {points(lost)} points with mitigation: a gap can also close because "
                "hardly anybody is recognised any more. Look at every group's TPR below, and choose a smaller strength."
            )
    found += _turned_round(facts)
    if not facts["log"]["ok"]:
        found.append("THE LOG WAS CHANGED: " + "; ".join(facts["log"]["problems"]))
    return found


def _turned_round(facts: CampaignFacts) -> list[str]:
    """Differences between two groups whose sign is another one with mitigation, and how sure that is."""
    audit = facts["audit"]
    if audit is None or "after" not in audit["predictions"] or len(facts["group_names"]) != 2:
        return []
    found = []
    for rate in notion_of(audit).rates:
        before, after = (audit["predictions"][name][DIFFERENCES[rate]] for name in ("before", "after"))
        if before["low"] is None or after["low"] is None:
            continue
        said = (
            f"{RATE_WORDS[rate]}, {' - '.join(facts['group_names'])}: {within(before, signed_points)} points without, "
        )
        said += f"{within(after, signed_points)} with mitigation."
        if sign_of(before) * sign_of(after) < 0:
            found.append(f"The difference between the groups turned round. {said}")
        elif (before["value"] or 0.0) * (after["value"] or 0.0) < 0:
            found.append(f"The difference between the groups may have turned round. {said}")
    return found


def _differences(group_names: Sequence[str], audit: AuditJson) -> Table:
    what = " - ".join(group_names) if len(group_names) == 2 else "highest - lowest"
    rows = []
    for rate in notion_of(audit).rates:
        key = DIFFERENCES[rate]
        row = [Cell(f"{RATE_WORDS[rate]}, {what}")]
        row += [estimated(view[key], signed_points) for view in audit["predictions"].values()]
        row += [estimated(audit["change"][key], signed_points)] if audit["change"] else []
        rows.append(row)
    gaps = [estimated(view["gap"], points) for view in audit["predictions"].values()]
    gaps += [estimated(audit["change"]["gap"], signed_points)] if audit["change"] else []
    rows.append([Cell("Gap"), *gaps])
    columns = ["Difference", "without", *(["with", "change"] if audit["change"] else [])]
    return Table("Signed differences and the gap, in points, with 95% intervals", columns, rows)


def _plan(audit: AuditJson) -> str:
    said = []
    for entry in audit["plan"]:
        within = f"±{100 * entry['within']:g} points"
        if entry["more"] is None:
            said.append(f"{within}: not with the people held out")
        else:
            said.append(
                f"{within}: " + ("known already" if entry["more"] == 0 else f"about {count(entry['more'])} more")
            )
    return "Further audit answers to know the differences without mitigation within " + "; ".join(said) + "."


def _asked(facts: CampaignFacts) -> str:
    status = facts["status"]
    said = [f"{plural(status['questions'], 'person', 'people')} asked about, {plural(status['standing'], 'answer')}"]
    for name in ("cannot_tell", "declined", "skipped", "late", "erased"):
        if status[name]:
            said.append(f"{count(status[name])} {name.replace('_', ' ')}")
    if status["known"]:
        said.append(f"{plural(status['known'], 'further group was', 'further groups were')} handed in, at no cost")
    return "; ".join(said) + "."


def _counts(facts: CampaignFacts) -> Table:
    rules = Counter((question["purpose"], question["rule"] or "known answer") for question in facts["questions"])
    rows = [[Cell(rule), Cell(purpose), Cell(count(n))] for (purpose, rule), n in rules.most_common()]
    return Table("Questions by rule", ["Rule", "Purpose", "Questions"], rows, 2)


def _questions(facts: CampaignFacts) -> Table:
    distances = any(question["reason"].get("distance") is not None for question in facts["questions"])
    rows = []
    for question in facts["questions"][:MOST_ROWS]:
        reason = question["reason"]
        cells = [str(question["question"]), str(question["at"])[:16].replace("T", " "), str(question["row"])]
        cells += [question["purpose"], question["rule"] or UNDEFINED]
        cells += [label_name(reason["label"]) if "label" in reason else UNDEFINED]
        cells += [plain(reason.get("distance"))] if distances else []
        cells += [plain(question["probability"]), (question["model_hash"] or UNDEFINED)[:10]]
        rows.append([Cell(text) for text in cells])
    columns = ["Question", "Asked at (UTC)", "Row", "Purpose", "Rule", "Looked among"]
    columns += [*(["Distance"] if distances else []), "Probability", "Model"]
    left_out = max(0, len(facts["questions"]) - MOST_ROWS)
    return Table("Everyone asked about, in order", columns, rows, 6, left_out=left_out)


def _attributes(facts: CampaignFacts) -> Table | None:
    """What came of asking about each of several attributes, and the gaps to expect in each; None where there is one."""
    attributes = facts["status"]["attributes"]
    if len(attributes) < 2:
        return None
    estimate = facts["estimate"]
    gaps = {} if estimate is None else estimate.get("attributes", {})
    columns = ["Attribute", "Groups", "Told", "Cannot tell", "Declined", "Agreement", "Gap without", "Gap with"]
    rows = []
    for one in attributes:
        agreed = UNDEFINED if one["agreement"] is None else decimal(one["agreement"], 2)
        told = [str(one["told"]), str(one["cannot_tell"]), str(one["declined"]), agreed]
        rows.append(
            [*map(Cell, [one["name"], ", ".join(one["groups"]), *told]), *expected_cells(gaps.get(one["name"]))]
        )
    if "intersections" in gaps:
        blank = [Cell("") for _ in range(5)]
        rows.append([Cell("intersections"), *blank, *expected_cells(gaps["intersections"])])
    caption = "Every attribute: what was told, and the gap to expect in points, with 95% intervals"
    return Table(caption, columns, rows, names=2)


def _agreement(facts: CampaignFacts) -> str:
    status = facts["status"]
    who = f"{plural(status['annotators'], 'annotator')} answered."
    gold = (
        f" {plural(status['gold_answered'], 'answer')} to questions with a known answer."
        if status["gold_answered"]
        else ""
    )
    if status["agreement"] is None:
        return who + gold + " Nobody was asked about twice, so agreement is not known (overlap)."
    return (
        f"{who}{gold} Fleiss' kappa {decimal(status['agreement'], 2)}: 1 is full agreement, 0 what chance would give."
    )


def _kinds(facts: CampaignFacts) -> Table:
    rows = [[Cell(kind.replace("_", " ")), Cell(count(n))] for kind, n in facts["status"]["by_kind"].items()]
    return Table("Where answers come from", ["Kind", "Answers"], rows)


def _rules(facts: CampaignFacts) -> Table:
    names = {
        "overlap": "People asked about each row",
        "audit_share": "Share of the questions for the audit",
        "verify_share": "Share of the questions that verify the correction",
        "least_gain": "Pauses where the rest is expected to narrow the gap by less (0: never)",
        "kind": "Kind of answers",
        "seed": "Seed",
        "guidelines": "Guidelines",
        "legal_basis": "Legal basis",
        "shown": "Columns an annotator sees",
    }
    rules: Mapping[str, object] = facts["settings"]
    told = {key: rules[key] for key in names} | {"shown": ", ".join(facts["settings"]["shown"]) or "none"}
    rows = [[Cell(names[key]), Cell("none" if value is None else str(value))] for key, value in told.items()]
    data = facts["data"]
    rows += [
        [Cell("What is mitigated"), Cell(facts["status"]["model"] or UNDEFINED)],
        [Cell("Who is asked next"), Cell(setting_words("selector", facts["selector"]))],
        [Cell("Features used"), Cell(features_text(data["features"]))],
        [Cell("Share with the positive label"), Cell(percent(data["base_rate"]))],
        [Cell("Fingerprint of features and labels"), Cell(data["fingerprint"])],
    ]
    return Table("Rules and data of the campaign", ["Rule", "Value"], rows, 2)


def _log(facts: CampaignFacts) -> str:
    log = facts["log"]
    state = "whole" if log["ok"] else "CHANGED"
    return f"The log is {state}: {count(log['events'])} events, head {log['head']}. Note the head elsewhere to pin it."
