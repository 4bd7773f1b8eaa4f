"""The tables of the summary: every number as text, the authors' published figures beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from apod.bench.document import Table
from apod.bench.results import ANNOTATION, FEW_SELECTED, FloatArray, MethodRuns, TaskResults
from apod.bench.statistics import EXTRA_GAP, Comparison, Span, mean_over_seeds


@dataclass(frozen=True)
class Published:
    """One method's points in the authors' result files, as text; empty where they are not known."""

    method: str
    accuracy: str
    ratio_of_averages: str  # EOP as published: ratio of the TPRs averaged over runs
    mean_of_runs: str = ""  # EOP per run, then averaged
    rates: str = ""  # TPR of group 0 / group 1


PUBLISHED_MEPS = (
    Published("vanilla", "0.848", "0.774", "0.780 ± 0.05", "0.16 / 0.21"),
    Published(
        "apod",
        "0.847, 0.842, 0.839, 0.837",
        "0.780, 0.828, 0.867, 0.884",
        "0.772, 0.762, 0.809, 0.673 (± 0.05 to 0.39)",
        "0.16 / 0.20 down to 0.08 / 0.09",
    ),
    Published("group-dro", "0.844 to 0.835", "0.829 to 0.877", "0.815 to 0.862", "0.09 to 0.14 / 0.11 to 0.16"),
    Published("lff", "0.834 to 0.841", "0.886 to 0.782", "0.910 at best", "0.07 / 0.07"),
    Published("fal", "0.843, 0.834, 0.831", "0.793, 0.821, 0.876", "0.879 at best", "0.18 / 0.20"),
    Published("ssbm", "0.835 to 0.829 (read off)", "0.805 to 0.871"),
    Published("pod-al", "0.841 to 0.835 (read off)", "0.782 to 0.828"),
    Published("pod-ca", "0.844 to 0.836 (read off)", "0.797 to 0.850"),
)

CAUTION = (
    "The published EOP is a ratio of TPRs averaged over runs: runs of opposite sign cancel in it. Predicting nobody "
    "positive has an accuracy of about 0.83 on MEPS, and the published TPRs are near that end. “Read off”: taken from "
    "a figure. The code behind the published figures differs from the paper in evaluation, head selection, scaling "
    "and budget, so ours are not expected to match them."
)


DASH, DAGGER, DOUBLE = "–", "†", "‡"
MARKS = (
    f"{DAGGER} collapsed, {DOUBLE} lost more accuracy than allowed at every value: each with the number of seeds, at "
    "the chosen points."
)


def number(value: float, digits: int = 3) -> str:
    """0.8478 as 0.848; a dash where undefined."""
    if math.isnan(value):
        return DASH
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def spread(values: FloatArray, digits: int = 3) -> str:
    """Mean and standard deviation over seeds; says so where not every seed has a number."""
    known = values[~np.isnan(values)]
    if not len(known):
        return DASH
    text = number(float(known.mean()), digits)
    if len(known) > 1:
        text += f" ± {number(float(known.std(ddof=1)), digits)}"
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)})"


def interval(span: Span, digits: int = 3) -> str:
    """A number with its interval in brackets, where it has one."""
    middle, low, high = span
    text = number(middle, digits)
    return text if math.isnan(low) else f"{text} [{number(low, digits)}, {number(high, digits)}]"


def ratio_of_averages(runs: MethodRuns) -> FloatArray:
    """(values,) the TPRs averaged over seeds, then divided: for comparison with published figures only."""
    tpr = [mean_over_seeds(np.where(runs.present, runs[f"tpr_{a}"], np.nan)) for a in (0, 1)]
    ratio = np.divide(tpr[0], tpr[1], out=np.full(len(tpr[0]), np.nan), where=tpr[1] > 0)
    return np.asarray(ratio, dtype=np.float64)


def points_table(task: TaskResults) -> Table:
    """Every method at every value: means and standard deviations over seeds."""
    rates = [(f"{kind.upper()} {group}", f"{kind}_{a}") for kind in ("tpr", "fpr") for a, group in _groups(task)]
    head = ("method", "value", "seeds", "accuracy", "balanced accuracy", "EOP, mean of runs", "EOP, ratio of averages",
            "Δ-EO, signed", "gap", *(title for title, _ in rates), "collapsed seeds")  # fmt: skip
    rows = []
    for runs in task.methods.values():
        ratios = ratio_of_averages(runs)
        for k, value in enumerate(runs.values):
            ran = runs.present[:, k]
            cells = [spread(runs[c][ran, k]) for c in ("accuracy", "balanced_accuracy", "eop")]
            cells += [number(float(ratios[k]))]
            cells += [spread(runs[c][ran, k]) for c in ("delta_eo", "gap", *(column for _, column in rates))]
            collapsed = int(np.nansum(runs["collapsed"][:, k]))
            rows.append((runs.title, f"{value:g}", str(int(ran.sum())), *cells, str(collapsed) if collapsed else ""))
    named = ", ".join(f"{runs.title}: {runs.value_name}" for runs in task.methods.values())
    notes = (
        "Mean ± standard deviation over seeds, of the runs in which the number is defined; in brackets how many, where "
        "not all are.",
        f"What the value is: {named}.",
    )
    return Table(f"{task.title}: all points", head, tuple(rows), notes, long=True)


def _groups(task: TaskResults) -> list[tuple[int, str]]:
    return list(enumerate(task.group_names))


def chosen_table(comparison: Comparison) -> Table:
    """Every method at the points the validation part chose."""
    task = comparison.task
    head = ("method", "groups used", "values chosen (seeds)", "seeds within the rule", "accuracy", "balanced accuracy",
            "EOP", "Δ-EO, signed", "gap", "gap − gap of Vanilla", "share of the gap closed",
            "area dominated (× 1000)")  # fmt: skip
    rows = [_chosen_row(comparison, runs) for runs in task.methods.values()]
    least, most = comparison.reference
    notes = (
        "Differences: paired over seeds, 95 % t interval. Share: from means over seeds, 95 % bootstrap interval over "
        "seeds from five seeds on; no interval where the gap that all groups known closes may be zero.",
        f"Area: between the curve's mean points and accuracy {number(least)} (the commoner label for everybody), gap "
        f"{number(most)} (Vanilla's + {EXTRA_GAP:g}).",
        MARKS,
    )
    return Table(f"{task.title}: points chosen on the validation part", head, tuple(rows), notes)


def _chosen_row(comparison: Comparison, runs: MethodRuns) -> tuple[str, ...]:
    chosen = comparison.chosen[runs.name]
    ran = chosen.index >= 0
    counts = Counter(runs.values[k] for k in chosen.index[ran])
    values = ", ".join(f"{value:g} ({n})" for value, n in sorted(counts.items()))
    columns = ("accuracy", "balanced_accuracy", "eop", "delta_eo", "gap")
    cells = {column: spread(comparison.at_choice(runs.name, column)[ran]) for column in columns}
    cells["gap"] += marks(comparison, runs.name)
    is_vanilla = runs.name == "vanilla"
    return (
        runs.title,
        ANNOTATION.get(runs.annotation, runs.annotation),
        values,
        f"{int(chosen.within.sum())} of {int(ran.sum())}",
        *cells.values(),
        DASH if is_vanilla else interval(comparison.change(runs.name, "vanilla", "gap")),
        DASH if is_vanilla else interval(comparison.share(runs.name), 2),
        number(1000 * comparison.area(runs.name), 2),
    )


def differences_table(comparison: Comparison) -> Table:
    """Every other method minus APOD at the chosen points."""
    task = comparison.task
    columns = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "gap": "gap", "eop": "EOP",
               "delta_eo": "Δ-EO, signed"}  # fmt: skip
    rows = tuple(
        (runs.title, *(interval(comparison.change(runs.name, "apod", column)) for column in columns))
        for runs in task.methods.values()
        if runs.name != "apod"
    )
    note = (
        "Method − APOD, paired over seeds, with 95 % t intervals, not corrected for their number. A positive "
        "difference of gaps means that APOD is fairer; of accuracies, that APOD is less accurate."
    )
    return Table(
        f"{task.title}: differences to APOD at the chosen points", ("method", *columns.values()), rows, (note,)
    )


def matched_table(comparison: Comparison, column: str, title: str) -> Table:
    """Every other method minus APOD at equal places of their ranges of values."""
    task = comparison.task
    strengths = task.methods["apod"].values
    head = ("method", *(f"{k + 1} ({value:g})" for k, value in enumerate(strengths)), "mean of all")
    rows = []
    for runs in task.methods.values():
        pair = comparison.matched(runs.name, "apod", column) if runs.name != "apod" else None
        if pair is not None:
            rows.append((runs.title, *(interval(span) for span in pair[0]), interval(pair[1])))
    note = (
        "Method − APOD, paired over seeds, 95 % t intervals. Columns: place in the range of values (APOD's strength); "
        "methods with another number of values are left out."
    )
    return Table(f"{task.title}: differences of {title} to APOD at matched values", head, tuple(rows), (note,), True)


def collapse_table(task: TaskResults) -> Table | None:
    """Who gave everybody the same answer, where, and how often; None where nobody did."""
    rows = []
    for runs in task.methods.values():
        collapsed = runs["collapsed"] == 1
        if not collapsed.any():
            continue
        n, ran = collapsed.sum(axis=0), runs.present.sum(axis=0)
        where = ", ".join(f"{value:g} ({n[k]} of {ran[k]})" for k, value in enumerate(runs.values) if n[k])
        nobody = collapsed & (runs["selection_rate"] < FEW_SELECTED)
        everybody = collapsed & (runs["selection_rate"] > 1 - FEW_SELECTED)
        kinds = (nobody.sum(), everybody.sum(), (collapsed & ~nobody & ~everybody).sum())
        rows.append((runs.title, where, *(str(int(kind)) for kind in kinds)))
    head = ("method", "value (seeds)", "runs that predict (nearly) nobody positive", "(nearly) everybody positive",
            "otherwise no better than chance")  # fmt: skip
    return Table(f"{task.title}: collapsed runs", head, tuple(rows), words=True) if rows else None


def published_table(comparison: Comparison) -> Table:
    """The authors' MEPS figures beside ours."""
    methods = comparison.task.methods
    head = ("method", "accuracy, published", "accuracy, ours at the chosen points", "accuracy, ours at all values",
            "EOP as ratio of averages, published", "EOP as ratio of averages, ours at all values",
            "EOP as mean of runs, published", "EOP as mean of runs, ours at the chosen points",
            "EOP as mean of runs, ours at all values", "TPR 0 / 1, published",
            "TPR 0 / 1, ours at the chosen points")  # fmt: skip
    rows = []
    for theirs in PUBLISHED_MEPS:
        if (runs := methods.get(theirs.method)) is None:
            continue
        accuracy, eop, *tpr = (
            comparison.at_choice(runs.name, column) for column in ("accuracy", "eop", "tpr_0", "tpr_1")
        )
        rows.append(
            (
                runs.title, theirs.accuracy, spread(accuracy), _range(mean_over_seeds(runs["accuracy"])),
                theirs.ratio_of_averages, _range(ratio_of_averages(runs)),
                theirs.mean_of_runs or DASH, spread(eop), _range(mean_over_seeds(runs["eop"])),
                theirs.rates or DASH, " / ".join(number(float(mean_over_seeds(rate)), 2) for rate in tpr),
            )
        )  # fmt: skip
    return Table("MEPS: the authors' published figures beside ours", head, tuple(rows), (CAUTION,), words=True)


def _range(values: FloatArray) -> str:
    known = values[~np.isnan(values)]
    if not len(known):
        return DASH
    low, high = number(float(known.min())), number(float(known.max()))
    return low if low == high else f"{low} to {high}"


def matrix(
    title: str,
    comparisons: Sequence[Comparison],
    cell: Callable[[Comparison, str], str],
    notes: Sequence[str] = (),
) -> Table:
    """Methods by tasks."""
    titles: Mapping[str, str] = {m.name: m.title for c in comparisons for m in c.task.methods.values()}
    rows = [
        (text, *(cell(c, name) if name in c.chosen else DASH for c in comparisons)) for name, text in titles.items()
    ]
    return Table(title, ("method", *(c.task.title for c in comparisons)), tuple(rows), tuple(notes))


def failed_table(failed: pd.DataFrame) -> Table:
    """Runs that ended in an error, with the error."""
    rows = tuple(
        (str(row["dataset"]), str(row["seed"]), str(row["method"]), f"{row['value']:g}", str(row["error"]))
        for _, row in failed.iterrows()
    )
    return Table("Failed runs", ("dataset", "seed", "method", "value", "error"), rows, words=True)


def marks(comparison: Comparison, method: str) -> str:
    """What a reader must know of a chosen point before believing it; see MARKS."""
    chosen = comparison.chosen[method]
    collapsed = int(np.nansum(comparison.at_choice(method, "collapsed")))
    lost = int(((chosen.index >= 0) & ~chosen.within).sum())
    return (f" {DAGGER}{collapsed}" if collapsed else "") + (f" {DOUBLE}{lost}" if lost else "")


def at_choice_cell(column: str) -> Callable[[Comparison, str], str]:
    """For a matrix: mean and standard deviation at the chosen points, with their marks."""

    def cell(comparison: Comparison, method: str) -> str:
        values = comparison.at_choice(method, column)
        return spread(values[comparison.chosen[method].index >= 0]) + marks(comparison, method)

    return cell
