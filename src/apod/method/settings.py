"""Every setting of Algorithm 1, declared once: its type, default, check, option and meaning.

The command line, `APODClassifier`, campaigns and `result.json` read these fields by name. The defaults are those of the
preset `default`; the paper's are the preset `paper`. Nothing heavy is imported here: `apod --help` reads it.

To offer another selector, notion, relaxation or proxy, add its name to the type here and its code to the table of its
module (`SELECTORS`, `NOTIONS`, `RELAXATIONS`, `PROXIES`); a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from apod.errors import InputError, UnknownName
from apod.method.checks import (
    Meaning,
    assigned,
    below,
    different_strengths,
    named,
    number,
    one_of,
    optional,
    positive,
    share_or_count,
    valued,
    whole,
)

NotionName = Literal["equalized_odds", "true_positive_rate_parity", "false_positive_rate_parity", "demographic_parity"]
RelaxationName = Literal["sharp", "sigmoid", "linear", "tanh"]
OverName = Literal["annotated", "pool"]
SelectorName = Literal["gap", "cell", "typical", "apod", "random", "stratified", "uncertainty", "coreset", "group"]
ProxyName = Literal["laplace", "logistic", "perceptron"]
ReadsName = Literal["inputs", "embeddings"]
HeadChoiceName = Literal["posterior", "score"]
BodyName = Literal["contrastive", "cross_entropy", "precomputed"]
TrajectoriesName = Literal["shared", "per strength"]
OverGroupsName = Literal["marginal", "intersections"]

SHARED: TrajectoriesName = "shared"
PER_STRENGTH: TrajectoriesName = "per strength"

STRENGTHS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
"""The grid of penalty strengths: the paper's range (0, 2]."""

_SHARES = "Shares you know: GROUP=SHARE or GROUP:LABEL=SHARE, comma-separated, e.g. female=.48."
_PROBABILITIES = "Columns with P(group), as female:p_female; of two groups one will do. No model is fitted on them."


@dataclass(frozen=True)
class Settings:
    """One way of running Algorithm 1.

    Without a body a model is kept and its margin corrected (`HEAD_SETTINGS` then have no effect); with one, heads are
    trained on embeddings (and `CORRECTION_SETTINGS` have none).
    """

    notion: NotionName = field(
        default="equalized_odds",
        metadata=named(NotionName, "fairness notion", "What is equalised", "What is equalised", "--notion"),
    )
    relaxation: RelaxationName = field(
        default="sharp",
        metadata=named(
            RelaxationName,
            "relaxation",
            "How decisions are made differentiable",
            "How the step in the penalty is made differentiable",
            "--relaxation",
        ),
    )
    over: OverName = field(
        default="pool",
        metadata=named(
            OverName,
            "choice of whom the penalty is over",
            "Whom the penalty is computed over",
            "Whose rates the penalty compares (those of the pool are weighted by the proxy)",
            "--over",
        ),
    )
    over_groups: OverGroupsName = field(
        default="marginal",
        metadata=named(
            OverGroupsName,
            "choice of groups",
            "Whose gaps count, of several attributes",
            "Of several attributes, whether each alone counts or their intersections too",
            "--over-groups",
        ),
    )
    selector: SelectorName = field(
        default="gap",
        metadata=named(SelectorName, "selector", "Who is asked next", "Whom to ask next", "--selector"),
    )
    proxy: ProxyName = field(
        default="laplace",
        metadata=named(ProxyName, "proxy", "Model that guesses groups (proxy)", "How groups are guessed", "--proxy"),
    )
    proxy_reads: ReadsName = field(
        default="inputs",
        metadata=named(
            ReadsName,
            "input of the proxy",
            "What groups are guessed from",
            "What groups are guessed from (the encoded columns of a table, or the embeddings)",
        ),
    )
    head_choice: HeadChoiceName = field(
        default="posterior",
        metadata=named(
            HeadChoiceName,
            "way to choose the head",
            "How the strength is chosen",
            "How the strength is chosen (by the posterior of the proxy, where it has one, or by the paper's score)",
        ),
    )
    strengths: tuple[float, ...] = field(
        default=STRENGTHS,
        metadata=valued(
            different_strengths,
            "Strengths trained",
            "Strengths of the penalty, comma-separated, e.g. 0.1,0.5,1.",
            "--strengths",
        ),
    )
    trajectories: TrajectoriesName = field(
        default=SHARED,
        metadata=named(
            TrajectoriesName,
            "kind of trajectories",
            "Questions",
            "One annotated set for all strengths, or one each",
        ),
    )
    ask_strength: float = field(
        default=0.5,
        metadata=valued(
            positive,
            "Strength whose head asks",
            "The strength whose head chooses the questions, where all strengths share them.",
            "--ask-strength",
        ),
    )
    questions_per_round: int = field(
        default=1,
        metadata=valued(whole(1), "Questions per round", "Questions per round.", "--batch"),
    )
    least_gain: float = field(
        default=0.0,
        metadata=valued(
            below(2, ", a gap worth asking for, like 0.01"),
            "Least gain worth asking for",
            "Stop asking once the rest of the budget is expected to gain less, e.g. 0.005: of the expected fall of the "
            "gap minus caution times its deviation; of heads, experimental, of the gap. 0: never.",
            "--least-gain",
        ),
    )
    threshold: float | None = field(
        default=None,
        metadata=valued(
            optional(number),
            "Threshold",
            "The score from which on the model predicts the positive label (default: the model's own, 0.5 for "
            "probabilities).",
            "--threshold",
        ),
    )
    selection_rate: float | None = field(
        default=None,
        metadata=valued(
            optional(share_or_count),
            "Share or number of people to select",
            "In the place of a threshold: the share of people to select, or how many of the table's (200). Chosen on "
            "training scores; a correction keeps it.",
            "--selection-rate",
        ),
    )
    max_accuracy_loss: float = field(
        default=0.01,
        metadata=valued(
            below(1),
            "Accuracy that a correction may cost",
            "What a correction may cost in accuracy, as a fraction, its standard error included.",
            "--max-accuracy-loss",
        ),
    )
    max_balanced_loss: float = field(
        default=0.015,
        metadata=valued(
            below(1),
            "Balanced accuracy that a correction may cost",
            "What a correction may cost in balanced accuracy, as a fraction, its standard error included.",
            "--max-balanced-loss",
        ),
    )
    caution: float = field(
        default=0.6,
        metadata=valued(
            below(100),
            "Caution",
            "Standard deviations by which the expected fall of the gap must exceed 0 for a correction to be applied.",
            "--caution",
        ),
    )
    group_share: str | None = field(
        default=None,
        metadata=valued(optional(assigned("=", "GROUP=SHARE")), "Shares of the groups", _SHARES, "--group-share"),
    )
    group_probability: str | None = field(
        default=None,
        metadata=valued(
            optional(assigned(":", "GROUP:COLUMN")), "Columns of P(group)", _PROBABILITIES, "--group-probability"
        ),
    )
    body: BodyName | None = field(
        default=None,
        metadata={
            "meaning": Meaning(
                "How the body is pre-trained",
                "Train heads on embeddings instead of correcting a model; how the body is pre-trained: "
                f"{', '.join(get_args(BodyName))} (the columns are embeddings).",
                optional(one_of("body", BodyName)),
                "--body",
                get_args(BodyName),
            )
        },
    )
    body_epochs: int = field(
        default=50,
        metadata=valued(whole(1), "Epochs of the body", "Epochs of the body's pre-training."),
    )
    epochs: int = field(
        default=6,
        metadata=valued(whole(1), "Epochs per round", "Epochs of each round, and of pre-training the head."),
    )
    head_steps: int = field(
        default=300,
        metadata=valued(
            whole(0), "Least steps of pre-training the head", "The head is pre-trained for at least so many steps."
        ),
    )
    batch_size: int = field(
        default=256,
        metadata=valued(whole(2), "Batch size", "Rows of a mini-batch."),
    )
    dropout: float = field(
        default=0.5,
        metadata=valued(below(1), "Dropout", "Dropout in the heads, while they are trained."),
    )

    def __post_init__(self) -> None:
        for name, meaning in SETTINGS.items():
            meaning.check(name, getattr(self, name))
        object.__setattr__(self, "strengths", tuple(float(strength) for strength in self.strengths))
        if self.threshold is not None and self.selection_rate is not None:
            raise InputError("A threshold and a selection rate are both given: one follows from the other; give one.")
        if self.body is not None and self.selector in CORRECTION_SELECTORS:
            raise InputError(
                f"The selector {self.selector!r} asks by the posterior of a correction: choose another for heads on "
                "a body, or leave the body out."
            )
        if self.least_gain and not (self.corrects or self.looks_ahead):
            raise InputError(
                "Heads end early only by a posterior: a least gain needs the proxy 'laplace', a head chosen by its "
                "posterior, and one set of answers for all strengths; or leave the body and its preset out."
            )

    @property
    def corrects(self) -> bool:
        """Whether a model is kept and corrected, rather than heads trained on a body."""
        return self.body is None

    @property
    def by_posterior(self) -> bool:
        """Whether the posterior of f_a chooses the head; a proxy without one leaves it to the score."""
        return not self.corrects and self.head_choice == "posterior" and self.proxy == "laplace"

    @property
    def f_a_reads(self) -> ReadsName:
        """What f_a can read at most: where the columns are embeddings, there are no others."""
        return "embeddings" if self.body == "precomputed" else self.proxy_reads

    @property
    def looks_ahead(self) -> bool:
        """Whether the gap to expect after more answers can be estimated: by a posterior that all strengths share."""
        return self.by_posterior and self.trajectories == SHARED

    @property
    def asking_strength(self) -> float | None:
        """The strength whose head asks, the trained one nearest to `ask_strength`; None where every one asks."""
        if self.trajectories == PER_STRENGTH:
            return None
        return min(sorted(self.strengths), key=lambda strength: abs(strength - self.ask_strength))

    def to_dict(self) -> dict[str, Any]:
        """For result.json and the report: every setting that takes effect, by name."""
        if self.corrects:
            return {name: getattr(self, name) for name in SETTINGS if name not in HEAD_SETTINGS}
        effective = {
            "proxy_reads": self.f_a_reads,
            "head_choice": "posterior" if self.by_posterior else "score",
            "strengths": sorted(self.strengths),
            "ask_strength": self.asking_strength,
        }
        return {name: getattr(self, name) for name in SETTINGS if name not in CORRECTION_SETTINGS} | effective


CORRECTION_SELECTORS = ("gap", "cell")
"""Those that ask by the posterior of a correction alone."""
_LIMITS = ("threshold", "selection_rate", "max_accuracy_loss", "max_balanced_loss", "caution")
CORRECTION_SETTINGS = (*_LIMITS, "group_share", "group_probability", "over_groups")
"""Without effect where heads are trained on a body."""
HEAD_SETTINGS = (
    "relaxation",
    "over",
    "proxy",
    "proxy_reads",
    "head_choice",
    "strengths",
    "trajectories",
    "ask_strength",
    "body_epochs",
    "epochs",
    "head_steps",
    "batch_size",
    "dropout",
)
"""Without effect where a model is corrected."""

SETTINGS: Mapping[str, Meaning] = MappingProxyType(
    {declared.name: declared.metadata["meaning"] for declared in fields(Settings)}
)
"""What every setting means, by name."""

RENAMED: Mapping[str, str] = MappingProxyType({"penalty": "notion"})
"""Earlier names of settings: campaigns keep theirs, `--penalty` and `penalty=` go with the next release."""


PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "default": Settings(),
        "heads": Settings(body="contrastive", selector="typical"),
        "paper": Settings(
            body="contrastive",
            selector="apod",
            relaxation="linear",
            over="annotated",
            proxy="perceptron",
            proxy_reads="embeddings",
            head_choice="score",
            trajectories=PER_STRENGTH,
            epochs=10,
            head_steps=0,
        ),
    }
)
"""`default`: a model is kept and its margin corrected (docs/method.md). `paper`: the paper's settings to the letter, a
trajectory per strength. `heads`: heads on a body with a posterior over f_a, which `default` was before."""


def settings_from(options: Mapping[str, Any], **fixed: Any) -> Settings:
    """The settings of a preset (`preset`, or the default one) with others given by name; `fixed` cannot be given."""
    given = {RENAMED.get(name, name): value for name, value in options.items()}
    preset = str(given.pop("preset", "default"))
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    for name in given:
        if name not in SETTINGS or name in fixed:
            raise UnknownName("setting", name, [*(name for name in SETTINGS if name not in fixed), "preset"])
    if preset == "default" and given.get("body") is not None:
        preset = "heads"
    start = PRESETS[preset]
    body = given.get("body", start.body)
    idle = [name for name in given if name in (HEAD_SETTINGS if body is None else CORRECTION_SETTINGS)]
    if idle:
        raise InputError(_without_effect(idle[0], body is None))
    return replace(start, **given, **fixed)


def _without_effect(name: str, corrects: bool) -> str:
    option = SETTINGS[name].option or name
    if corrects:
        return f"{option} is a setting of heads on a body: add --body contrastive or --preset heads, or leave it out."
    return f"{option} is a setting of a corrected model: leave it out, or leave the body and its preset out."
