"""`apod audit`: how unfair is a model, from its decisions and a few people's groups."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apod.cli.shared import DECIMAL, ENCODING, SEP, WEIGHT, echo, echo_json, words
from apod.errors import InputError

if TYPE_CHECKING:
    from apod.audit import Audit, Estimate
    from apod.audit.estimate import ViewAudit
    from apod.audit.table import AuditColumns, AuditTable
    from apod.evidence.reevaluation import Reevaluation
    from apod.report.facts import AuditFacts, ReevaluatedFacts


def audit(
    table: Path = typer.Argument(help="Everybody the model decides about, one row each: CSV, Excel, Parquet, ..."),
    label: str = typer.Option(..., help="The true label (two values)."),
    prediction: str = typer.Option(..., help="The model's decisions or probabilities; two columns: before,after."),
    group: str = typer.Option(
        "group", help="Column of the answers: people's groups, mostly empty; of several attributes one each, sex,race."
    ),
    answers: Path | None = typer.Option(None, help="Answers in a file of their own, as --draw writes it."),
    probability: str = typer.Option(
        "draw_probability", help="Column with each drawn row's probability; absent: all answers were drawn alike."
    ),
    groups: str | None = typer.Option(None, help="Names of the groups, comma-separated, the reference last."),
    reference: str | None = typer.Option(None, help="The group others are compared with (default: the largest)."),
    positive: str | None = typer.Option(None, help="Which label is the positive one."),
    proxy: str | None = typer.Option(
        None,
        "--group-probability",
        "--proxy",
        help="Columns with P(group), as female:p_female; of two groups one will do.",
    ),
    features: str | None = typer.Option(
        None, help='Columns to guess groups from (default: all others; "none": answers alone).'
    ),
    drop: str | None = typer.Option(None, help="Columns to leave out of the features, comma-separated."),
    draw: int = typer.Option(0, help="Propose so many further people to ask, at random; writes them to --out."),
    out: Path | None = typer.Option(
        None, help="Where --draw writes: row, id, what an annotator needs, draw_probability, group (to be filled in)."
    ),
    id_column: str | None = typer.Option(None, help="Column with an id per person (default: one that is called id)."),
    show: str | None = typer.Option(
        None, help="Columns --draw writes for annotators (default: all but label, predictions and names)."
    ),
    report: Path | None = typer.Option(None, help="Write the audit as a page, e.g. report.html."),
    result: Path | None = typer.Option(None, help="Write the audit as JSON, e.g. audit.json."),
    against: Path | None = typer.Option(None, help="Evidence of the same model: what moved since, and is it chance?"),
    within: float = typer.Option(0.05, help="How exactly you want to know the differences, for the plan."),
    notion: str = typer.Option(
        "equalized_odds", help="Whose gap: as in apod run, predictive_parity or selection_rate_ratio."
    ),
    weight: str | None = WEIGHT,
    sep: str | None = SEP,
    decimal: str | None = DECIMAL,
    encoding: str | None = ENCODING,
    seed: int = typer.Option(0, help="Same seed, same draw and folds."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Estimate each group's rates and their differences with 95 % intervals, and plan further answers.

    Example: apod audit people.csv --label hired --prediction model --group gender
    """
    from apod.audit.table import AuditColumns, read_audit
    from apod.data.text_files import dialect
    from apod.fairness.notions import find_notion
    from apod.method.group_knowledge import pairs
    from apod.report.audit_page import audit_facts

    said = AuditColumns(
        label=label,
        predictions=tuple(words(prediction)),
        group=group,
        probability=probability,
        group_names=tuple(words(groups)) if groups is not None else None,
        reference=reference,
        positive=positive,
        proxies=pairs("--group-probability", proxy) if proxy is not None else None,
        features=None if features is None else () if features == "none" else tuple(words(features)),
        drop=tuple(words(drop or "")),
        id=id_column,
        show=tuple(words(show)) if show is not None else None,
        dialect=dialect(sep, decimal, encoding),
        weight=weight,
    )
    attributes = words(group)
    if len(attributes) > 1:
        if draw or against is not None or groups is not None or proxy is not None or reference is not None:
            raise InputError(
                "--draw, --against, --groups, --reference and --group-probability are for one attribute: name one with "
                "--group."
            )
        read = partial(read_audit, table, answers=answers, seed=seed, notion=find_notion(notion))
        _audit_several(read, said, attributes, within)(report, result, as_json)
        return
    found = read_audit(table, said, answers, seed, find_notion(notion))
    if draw:
        if report is not None or result is not None:
            raise InputError("A draw has no result yet: leave --report and --result out, or audit without --draw.")
        _draw(found, draw, out, as_json, group)
        return
    audited = found.audit()
    made = audit_facts(found, audited, within)
    again = None if against is None else _against(against, made)
    facts: AuditFacts | ReevaluatedFacts = made if again is None else {**made, "against": again.to_dict()}
    _write(facts, report, result)
    if as_json:
        echo_json(facts)
        return
    render(audited, within, facts["needed"][str(within)])
    for line in again.lines() if again is not None else ():
        echo(line)


FEW_ANSWERS = 5
"""An intersection that fewer answers name is left out of an audit of several attributes."""


def _audit_several(
    read: Callable[[AuditColumns], AuditTable], said: AuditColumns, attributes: Sequence[str], within: float
) -> Callable[[Path | None, Path | None, bool], None]:
    """Audits of every attribute, then of their intersections; what writes and prints them."""
    from apod.report.audit_page import audit_facts

    tables = {
        name: read(replace(said, group=name, drop=(*said.drop, *(other for other in attributes if other != name))))
        for name in attributes
    }
    crossed = read(replace(said, group=" x ".join(attributes), crossed=tuple(attributes)))
    tables["intersections"], few = crossed.without_few(FEW_ANSWERS)
    audits = {name: found.audit() for name, found in tables.items()}
    facts = {name: audit_facts(found, audits[name], within) for name, found in tables.items()}

    def show(report: Path | None, result: Path | None, as_json: bool) -> None:
        together = {
            "attributes": {name: facts[name] for name in attributes},
            "intersections": facts["intersections"],
            "too_few_answers": few,
        }
        for name, own in facts.items():
            _write(own, None if report is None else report.with_stem(f"{report.stem}-{name}"), None)
        if result is not None:
            _write_json(together, result)
        if as_json:
            echo_json(together)
            return
        for name, made in audits.items():
            echo(name, bold=True)
            render(made, within, facts[name]["needed"][str(within)])
            echo()
        if few:
            echo(f"note: left out, with fewer than {FEW_ANSWERS} answers: {'; '.join(few)}.")

    return show


def _against(place: Path, facts: AuditFacts) -> Reevaluation:
    from apod.evidence.folder import read_evidence
    from apod.evidence.reevaluation import reevaluate
    from apod.evidence.sources import Stated, evidence_of_audit

    return reevaluate(read_evidence(place), evidence_of_audit(facts, Stated(), {}).to_dict())


def _write(facts: AuditFacts, report: Path | None, result: Path | None) -> None:
    from apod.files import write_private
    from apod.report.audit_page import render_audit

    if result is not None:
        _write_json(facts, result)
    try:
        if report is not None:
            write_private(report, render_audit(facts).encode())
    except OSError as error:
        raise InputError(f"The audit cannot be written ({error.strerror}): name another file.") from None


def _write_json(facts: Mapping[str, object], result: Path) -> None:
    from apod.files import write_private

    try:
        write_private(result, json.dumps(facts, indent=1, allow_nan=False).encode())
    except OSError as error:
        raise InputError(f"The audit cannot be written ({error.strerror}): name another file.") from None


def _draw(found: AuditTable, count: int, out: Path | None, as_json: bool, group: str) -> None:
    from apod.audit.asked import refuse_losing_answers
    from apod.data.cells import write_cells
    from apod.files import write_private

    if out is None and not as_json:
        raise InputError("Say where the people to ask shall be written: --out asked.csv.")
    drawn = found.people_to_ask(count)
    if out is not None:
        refuse_losing_answers(out, drawn, group, found.ids)
        plain = drawn.astype(object).where(drawn.notna(), None)
        cells = write_cells(list(plain.columns), plain.itertuples(index=False))
        write_private(out, cells)  # it will hold people's groups
    if as_json:
        echo_json(json.loads(drawn.drop(columns="group").to_json(orient="records")))
        return
    echo(f"{count} people to ask, {len(drawn)} in all, in {out}. Fill in `group`, then audit with --answers {out}.")


def render(result: Audit, within: float, more: int | None) -> None:
    """The audit as a few lines of text."""
    from apod.fairness.metrics import RATE_WORDS, SHOWN_RATES

    rates = result.notion.rates or SHOWN_RATES
    echo(
        f"{result.people} people, {result.drawn} answers drawn at random"
        + (f", {result.known} more known" if result.known else "")
        + f"; {result.level:.0%} intervals"
    )
    for name, view in result.views.items():
        echo()
        echo(name)
        for group, found in view.groups.items():
            shown = [f"{RATE_WORDS[rate]} {_span(found[rate])}" for rate in rates]
            echo(f"  {group}: {'   '.join(shown)}")
        what = " - ".join(result.group_names) if len(result.group_names) == 2 else "highest - lowest"
        for rate in rates:
            beside = f"   (answers alone: {_span(view.classical[rate])})" if rate in view.classical else ""
            echo(f"  {RATE_WORDS[rate]} {what}: {_span(view.differences[rate])}{beside}")
        echo(f"  gap {result.notion.words.gap}: {_span(view.gap)}")
        for line in _ratio_lines(view):
            echo(f"  {line}")
    if result.change is not None:
        echo()
        echo(f"from {result.change.before} to {result.change.after}: gap {_span(result.change.gap)}")
    echo()
    echo(f"plan: {plan_text(more, within, result.precision.left)}")
    for note in result.notes():
        echo(f"note: {note}")


def _ratio_lines(view: ViewAudit) -> list[str]:
    """The lowest impact ratio, against four fifths; nothing where it is not known."""
    from apod.fairness.impact import FOUR_FIFTHS

    known = {group: found["impact_ratio"] for group, found in view.groups.items()}
    worst = min(known, key=lambda group: math.inf if known[group].high is None else known[group].high or 0.0)
    low, high = known[worst].low, known[worst].high
    if low is None or high is None:
        return []
    side = "below" if high < FOUR_FIFTHS else "not below" if low >= FOUR_FIFTHS else "perhaps below"
    return [f"selection-rate ratio of {worst} to the highest: {_span(known[worst])}; {side} four fifths"]


def plan_text(more: int | None, within: float, left: int) -> str:
    """The plan in a sentence, to two digits, but never more people than are left."""
    if more is None:
        return f"nobody is left to ask who would bring the differences within +-{within:g}."
    if more == 0:
        return f"the differences are known within +-{within:g}."
    digits = 10 ** max(0, len(str(more)) - 2)
    return f"about {min(-(-more // digits) * digits, left)} more answers to know the differences within +-{within:g}."


def _span(estimate: Estimate) -> str:
    if estimate.low is None:
        return "unknown"
    ends = f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return ends if estimate.value is None else f"{estimate.value:+.3f} {ends}"
