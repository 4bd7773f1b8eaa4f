"""A fit that trains heads: the body on the training part, then Algorithm 1's refits on the groups that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import expit

from apod.classifier.inputs import NAME, Rows, encodes
from apod.data import FairnessMetric, IntArray, TableEncoder, as_frame
from apod.data.blocks import is_large, take_rows
from apod.errors import InputError
from apod.fairness.metrics import METRICS, group_counts
from apod.heads.bank import HeadBank
from apod.method.algorithm1 import VANILLA
from apod.method.choice import BestHeads, RoundHeads
from apod.method.head_mitigation import HeadPlan, Mitigation, Plan, TrajectoryPlan
from apod.method.pod import Training
from apod.method.pool import Pool, first_choices
from apod.method.prepare import table_body
from apod.method.proxy import inputs_for
from apod.method.settings import Settings
from apod.models.body import Body, EmbeddingBody, ModuleBody
from apod.processes import one_thread

PREDICTED_AT_ONCE = 256  # rows per forward pass

BY_SCORE = "The best accuracy + fairness on the validation part, groups as the proxy guesses them."
NOBODY_KNOWN = "Nobody's group is known, so nothing was mitigated."

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class FittedHeads:
    """Heads on a body, as they predict the labels of the user."""

    classes: npt.NDArray[Any]  # (2,) in order
    positive: int  # which of them, 0 or 1
    encoder: TableEncoder | None  # None: X goes into the body as it is
    body: Body
    heads: HeadBank  # one per strength
    strengths: npt.NDArray[np.float64]
    tradeoff: pd.DataFrame
    selected: float = VANILLA
    because: str | None = None
    mitigation: Mitigation | None = None  # None once loaded
    training_rows: IntArray | None = None

    def checked_strength(self, strength: float) -> float:
        """The strength, or an InputError where no head was trained at it."""
        if strength not in self.strengths:
            trained = ", ".join(f"{one:g}" for one in self.strengths)
            why = "" if len(self.strengths) > 1 else " (a plain fit: pass sensitive_features for more)"
            raise InputError(f"No head was trained at strength {strength!r}, only at {trained}{why}.")
        return float(strength)

    def decision_function(self, given: Any, strength: float) -> npt.NDArray[np.float64]:
        """(n,) log-odds of the second class by the head of this strength; positive = predicted."""
        if self.encoder is not None:  # names were compared already, so columns go by position
            given = self.encoder.transform(given.set_axis([c.name for c in self.encoder.columns_], axis=1))
        embed, head = self.body.embed, [int(np.flatnonzero(self.strengths == strength)[0])]
        # A user's module may be large, so its rows are not padded; it promises to be row-wise itself.
        embeddings = embed(given) if isinstance(self.body, ModuleBody) else in_blocks(embed, given)
        margins = in_blocks(lambda block: self.heads.margins(torch.from_numpy(block), head)[0].numpy(), embeddings)
        return (margins if self.positive else -margins).astype(np.float64)

    def predict_proba(self, given: Any, strength: float) -> npt.NDArray[np.float64]:
        """(n, 2) probabilities of the two classes."""
        margins = self.decision_function(given, strength)
        return np.stack([expit(-margins), expit(margins)], axis=1)

    def predict(self, given: Any, strength: float) -> npt.NDArray[Any]:
        """(n,) the more probable class."""
        return np.asarray(self.classes[(self.decision_function(given, strength) > 0).astype(np.int64)])

    def query(self, count: int, barred: Sequence[int]) -> IntArray:
        """Rows worth asking about, among those that trained."""
        if self.mitigation is None or self.training_rows is None:
            raise InputError("A loaded classifier holds no training rows to choose from: fit again to query.")
        out = np.flatnonzero(np.isin(self.training_rows, np.asarray(barred, dtype=np.int64))).tolist()
        mitigation, answered = self.mitigation, self.mitigation.answers[0].rows
        if answered:
            if not mitigation.coverage[0].answered:  # only questions need distances, so no fit pays for them
                mitigation.coverage[0].add(answered)
            chosen = [question.row for question in mitigation.ask(count, out)]
        else:
            free = (choice.row for choice in first_choices(mitigation.pool) if choice.row not in out)
            chosen = list(islice(free, count))
        return self.training_rows[np.array(chosen, dtype=np.int64)]


def fit_bank(
    given: Any,
    classes: npt.NDArray[Any],
    positive: int,
    rows: Rows,
    settings: Settings,
    parameters: Mapping[str, Any],
    seed: int,
) -> FittedHeads:
    """Fit body and heads: `given` is a frame to be encoded, or a matrix for a body that is there already."""
    own, encoder, body, matrix = parameters["body"], None, None, given
    if encodes(own):
        encoder, body, matrix = fit_table_body(given, rows, settings, parameters["embedding"], seed)
    elif isinstance(own, str):
        encoder, body, matrix = fit_embeddings(given, rows)
    else:
        body = ModuleBody(own)
    inputs = inputs_for(settings.proxy_reads, matrix, max(2, len(rows.group_names))) if encodes(own) else None
    pool = make_pool(body.embed(matrix), inputs, rows, parameters["metric"], seed)
    fit = fit_heads(pool, rows, settings, tuple(parameters["hidden"]), parameters["rounds"])
    return FittedHeads(
        classes,
        positive,
        encoder,
        body,
        fit.kept,
        fit.strengths,
        fit.tradeoff,
        float(fit.strengths[fit.chosen]),
        fit.because,
        fit.mitigation,
        rows.training,
    )


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit leaves behind."""

    mitigation: Mitigation  # as after the last round: it asks the next question
    kept: HeadBank  # every strength at the round chosen for it, or else after the last: they predict
    strengths: npt.NDArray[np.float64]  # (K,) in the order of the heads, 0 first
    chosen: int  # the head that head selection prefers
    because: str  # and why, in a sentence
    tradeoff: pd.DataFrame


def fit_table_body(
    frame: pd.DataFrame, rows: Rows, settings: Settings, width: int, seed: int
) -> tuple[TableEncoder, Body, FloatArray]:
    """Encoder and perceptron body, fitted on the training part alone, and all rows encoded."""
    encoder = TableEncoder().fit(frame, rows.training)
    encoded = encoder.transform(frame)
    train = encoded[rows.training]
    body = table_body(train, encoder, rows.labels[rows.training], settings, width, seed, NAME)
    return encoder, body, encoded


def fit_embeddings(matrix: FloatArray, rows: Rows) -> tuple[TableEncoder, Body, FloatArray]:
    """What standardises the embeddings that X holds, by the training part alone, and all of them standardised."""
    frame = as_frame(matrix)
    encoder = TableEncoder(gaps=False).fit(frame, rows.training)
    return encoder, EmbeddingBody(matrix.shape[1]), encoder.transform(frame)


def make_pool(embeddings: FloatArray, inputs: FloatArray | None, rows: Rows, metric: FairnessMetric, seed: int) -> Pool:
    """The two parts as Algorithm 1 may see them: no groups in it."""
    labels = torch.from_numpy(rows.labels)
    return Pool(
        dataset=NAME,
        seed=seed,
        embeddings=_part(embeddings, rows.training),
        labels=labels[rows.training],
        validation=_part(embeddings, rows.validation),
        validation_labels=labels[rows.validation],
        n_groups=max(2, len(rows.group_names)),
        metric=metric,
        inputs=None if inputs is None else _part(inputs, rows.training),
        validation_inputs=None if inputs is None else _part(inputs, rows.validation),
    )


def _part(embeddings: FloatArray, rows: IntArray) -> torch.Tensor:
    """A copy of some rows; of many in one sweep, and on disk where they are too many for memory."""
    return torch.from_numpy(take_rows(embeddings, rows) if is_large(len(embeddings)) else embeddings[rows])


@one_thread()
def fit_heads(pool: Pool, rows: Rows, settings: Settings, hidden: tuple[int, ...], rounds: int) -> Fit:
    """Refit on the known groups `rounds` times, scoring all heads after each; without any group one plain head."""
    plain = Plan((HeadPlan(VANILLA),), (TrajectoryPlan(settings.selector, head=0),))
    mitigation = Mitigation(
        pool,
        Plan.from_settings(settings) if rows.annotated else plain,
        Training.from_settings(settings, hidden),
    )
    mitigation.answers[0] = rows.answers()
    posterior = rows.annotated and settings.by_posterior
    best = RoundHeads(mitigation.heads) if settings.by_posterior else BestHeads(mitigation.heads)
    known = rows.groups[rows.validation]
    scores = []
    for round_ in range(rounds):
        mitigation.refit()
        scores.append(mitigation.score(known))
        best.update(mitigation.heads, scores[-1], round_)
    if posterior and isinstance(best, RoundHeads):
        mitigation.choose_rounds(best, known)
    kept = best.bank(mitigation.heads.sizes)
    strengths = np.array([head.strength for head in mitigation.plan.heads])
    if posterior:
        choice = mitigation.choose(kept, known)
        chosen, because = choice.head, choice.reason
    else:
        chosen, because = (best.best(mitigation.strengths), BY_SCORE) if rows.annotated else (0, NOBODY_KNOWN)
    heads, at = np.arange(len(kept)), best.round
    accuracy, fairness = (
        np.array([getattr(one, what) for one in scores])[at, heads] for what in ("accuracy", "fairness")
    )
    table = head_tradeoff(mitigation, kept, at, accuracy, fairness, rows.group_names)
    return Fit(mitigation, kept, strengths, chosen, because, table)


def head_tradeoff(
    mitigation: Mitigation,
    kept: HeadBank,
    rounds: IntArray,
    accuracy: npt.NDArray[np.float64],
    fairness: npt.NDArray[np.float64],
    group_names: Sequence[str],
) -> pd.DataFrame:
    """One row per strength; columns as in the documentation of `APODClassifier.tradeoff_`.

    Of every head (K,): the round it was kept at, its accuracy and fairness on the validation part.
    """
    plan, pool = mitigation.plan, mitigation.pool
    answered = [answers.likeliest() for answers in mitigation.answers]
    own = [answered[head.trajectory] for head in plan.heads]
    table = pd.DataFrame(
        {
            "strength": [head.strength for head in plan.heads],
            "round": rounds,
            "validation_accuracy": accuracy,
            "validation_fairness": fairness,
            "score": accuracy + fairness,
            "annotated": [len(rows) for rows, _ in own],
        }
    )
    if not any(len(rows) for rows, _ in own):
        return table
    rates: dict[str, list[float]] = {f"{rate}_{name}": [] for rate in ("tpr", "fpr") for name in group_names}
    for head, (rows, groups) in enumerate(own):
        predicted = (kept.margins(pool.embeddings[rows], [head])[0] > 0).numpy()
        counts = group_counts(pool.labels.numpy()[rows], predicted, groups, len(group_names))
        for rate in ("tpr", "fpr"):
            for code, name in enumerate(group_names):
                rates[f"{rate}_{name}"].append(METRICS[rate](counts)[code])
    return table.assign(**rates)


@one_thread()
def in_blocks(function: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """The function's result for all rows, computed in blocks of one size, the last one filled up with repetitions.

    Matrix products round differently for different numbers of rows, or of threads: so a row gets the same bits in any
    company.
    """
    results = []
    for start in range(0, len(rows), PREDICTED_AT_ONCE):
        block = rows[start : start + PREDICTED_AT_ONCE]
        results.append(function(block[np.arange(PREDICTED_AT_ONCE) % len(block)])[: len(block)])
    return np.concatenate(results)
