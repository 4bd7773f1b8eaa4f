"""How a run looks in the terminal: progress on standard error, a summary at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from apod.cli.progress_lines import ProgressLines, plain, show_line
from apod.fairness.many_labels import notion_for
from apod.fairness.metrics import RATE_WORDS, GroupRatesJson
from apod.report.charts import expected_so_far, outlook_sentence
from apod.report.result import Answer, Compared, CurvePoint, Reason, Result, Round, Tested
from apod.report.sections import chosen_text, estimate_section, is_corrected, model_text
from apod.report.words import judge, percent, percent_span, points, signed_points
from apod.run import Listener
from apod.text import printable


class TerminalListener(Listener):
    """A live view in a terminal; one line per round where the output is a file; quiet while a person is asked."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(stderr=True)
        self._show_live, self._quiet = self._console.is_terminal and not quiet, quiet
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._live = Live(self._progress, console=self._console, refresh_per_second=4)
        self._body = self._progress.add_task("preparing", total=None)
        self._answers = self._progress.add_task("answers", total=None, visible=False)
        self.lines = ProgressLines(lambda line: self._print(line), "Preparing", clock)
        self._speaks = not self._show_live and not quiet  # a line between question and answer would be in the way

    def __enter__(self) -> TerminalListener:
        if self._show_live:
            self._live.start()
        if self._speaks:
            self.lines.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show_live:
            self._live.stop()
        if self._speaks:
            self.lines.__exit__(kind, error, trace)

    def stage(self, text: str) -> None:
        """Name the part of the work that begins."""
        self.lines.begin(text)
        if not self._show_live:
            self._print(f"{text} ...")

    def _print(self, line: str, style: str = "") -> None:
        show_line(self._console, line, style)
        self.lines.spoke()

    def body(self, done: int, total: int, text: str) -> None:
        """Move the body's bar."""
        self.lines.update(done, total, text)
        self._progress.update(self._body, completed=done, total=total, description=printable(text))

    def round(self, entry: Round, answers: list[Answer], budget: int) -> None:
        """Show the round: who was asked and the curve so far; to a person who answers, only how many are left."""
        if self._quiet:
            self._print(f"{entry['answered']} of {budget} answers")
            return
        self.lines.update(entry["answered"], budget)
        asked = _about(answers[-1]["reason"]) if answers else ""
        if not self._show_live:
            self._print(
                f"round {entry['round']:>3}  answers {entry['answered']:>3}/{budget}  asked about {asked:<28}"
                f"  test part, base model: {_point(entry['curve'][0])}; {_leading(entry)}{_ahead(entry)}"
            )
            return
        self._progress.update(
            self._answers, visible=True, total=budget, completed=entry["answered"], description=f"asked about {asked}"
        )
        self._live.update(Group(self._progress, _curve_table(entry)))

    def summary(self, result: Result, report: Path) -> None:
        """Before and after, per group, and where the report is."""
        before, after, corrects = result["vanilla"], result["selected"], is_corrected(result)
        kept = f"{'corrected, ' if corrects else 'with '}strength {after['strength']:.3g}"
        without = "base model" if corrects else "without mitigation"
        columns = ("test part", without, kept if after["strength"] or not corrects else "base model, kept")
        table = Table(*columns, title=plain(result["dataset"]))
        notion = notion_for(result["notion"], len(result["label_names"]))
        gap = f"gap {notion.words.gap} in points, lower is fairer"
        table.add_row("accuracy", percent(before["accuracy"]), percent(after["accuracy"]))
        balanced = [percent(point["balanced_accuracy"]) for point in (before, after)]
        table.add_row("balanced accuracy", *balanced)
        table.add_row(gap, points(before["gap"]), points(after["gap"]))
        if notion.classes == 2:
            table.add_row("EOP, a ratio, 1 is fair", _show(before["eop"]), _show(after["eop"]))
            table.add_row("Delta-EO in points, 0 is fair", *(signed_points(one["delta_eo"]) for one in (before, after)))
        for group in result["group_names"]:
            for label, rates in before["groups"][group].get("labels", {}).items():
                both = (rates, after["groups"][group]["labels"][label])
                what = f"{label} recognised of {group}, n = {rates['n']:,}"
                table.add_row(plain(what), *(percent(one["tpr"]) for one in both))
            for rate in notion.rates if notion.classes == 2 else ():
                values = [percent(point["groups"][group][rate]) for point in (before, after)]
                what = f"{RATE_WORDS[rate]} of {group}{_of(before['groups'][group], rate)}"
                table.add_row(plain(what), *values)
        self._console.print(table)
        self._print(
            f"{len(result['answers'])} answers out of {result['n_train']:,} people; "
            f"{result['changes']['total']:,} of {result['n_test']:,} test decisions change; "
            f"{result['timing']['total_seconds']:.1f} s."
        )
        for note in result["notes"]:
            self._print(f"note: {note}")
        for sentence in _told(result):
            self._print(sentence)
        if after["strength"] > 0 and _not_smaller(before["gap"], after["gap"]):
            self._print("The gap did not shrink.", "yellow")
        for caution in judge(result).cautions:
            self._print(f"{caution.title}. {caution.text}", "yellow")
        if "compared" in result:
            self._print(_beside(result["compared"]))
        if result["classifier"]:
            guesses = " (confidential: it guesses people's groups)" if result["correction"] is not None else ""
            self._print(f"classifier: {report.parent / result['classifier']}{guesses}")
        self._print(f"report: {report}")


def _beside(other: Compared) -> str:
    """What another preset did on the same people."""
    before, after = (
        f"accuracy {percent(one['accuracy'])} (balanced {percent(one['balanced_accuracy'])}), gap {points(one['gap'])}"
        for one in (other["vanilla"], other["selected"])
    )
    return f"The same people with --preset {other['preset']}: {before} points without mitigation; {after} selected."


def _about(reason: Reason) -> str:
    """The group and the label that somebody was chosen for, where the rule looked at them."""
    return ", ".join(printable(name) for name in (reason.get("group"), reason.get("label")) if name is not None)


def _not_smaller(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after >= before


def _told(result: Result) -> list[str]:
    """What was chosen and why, and what the answers alone say."""
    if not is_corrected(result):
        ahead = [outlook_sentence(result["outlook"])] if isinstance(result["outlook"], list) else []
        return ahead + ([result["selected_because"]] if result["selected_because"] else [])
    estimate = estimate_section(result)
    return [model_text(result), *chosen_text(result), *([] if estimate is None else estimate["text"])]


def _curve_table(entry: Round) -> Table:
    columns = ("strength", "accuracy", "gap, points", "EOP", "Delta-EO, points")
    table = Table(*columns, title=f"round {entry['round']}, test part")
    for point in entry["curve"]:
        row = [percent(point["accuracy"]), points(point["gap"]), _show(point["eop"]), signed_points(point["delta_eo"])]
        table.add_row(f"{point['strength']:.3g}", *row)
    return table


def _leading(entry: Round) -> str:
    """What would be chosen now, by the posterior or else by the validation score; said right behind the base model,
    which may be the one."""
    choice = entry["choice"]
    if choice is not None and choice["strength"] == 0:
        return "it would be kept"
    if choice is not None:
        return f"strength {choice['strength']:.2g} would be chosen: {_point(choice['test'])}"
    best = max(entry["curve"][1:], key=lambda point: point["validation_score"] or 0.0)
    return f"strength {best['strength']:.2g} would be chosen: {_point(best)}"


def _ahead(entry: Round) -> str:
    """What the answers alone say of the gap: of the base model, or of the head that would be chosen."""
    choice, estimate = entry["choice"], entry["estimate"]
    if estimate is not None:
        return f"; by the answers alone its gap is {percent_span(estimate['selected']['interval'])} points"
    if choice is None or choice["withheld"] or choice["outlook"] is None:
        return ""
    now = expected_so_far([entry])[0]
    return f"; gap to expect {points(now['gap'])} points, at the end {points(choice['outlook']['gap'])}"


def _point(point: Tested | CurvePoint) -> str:
    return f"accuracy {percent(point['accuracy'])}, gap {points(point['gap'])} points"


def _of(group: GroupRatesJson, rate: str) -> str:
    """On how many people a rate rests."""
    positives = group["n_positive"]
    people = {"tpr": positives, "fpr": group["n"] - positives}.get(rate, group["n"])
    return f" (n = {people:,})"


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
