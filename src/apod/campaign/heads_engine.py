"""The engine of campaigns that train heads on a body: the very rounds of Algorithm 1, behind the `Engine` protocol.

The body is pre-trained on the pool, the rows not held out for an audit; all rows are embedded once and kept with the
campaign. Inside, rows are numbered within the pool. A canonical fit replays the rounds answer by answer, as `apod run`
would, up to a hundred of them; a warm one adds a single round for all answers that came in meanwhile; one in haste
replays a few. Choosing among heads is left to the classifier, which keeps a validation part of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from apod.campaign.engine import GroupAnswer, ModelState
from apod.campaign.json_types import OutcomeJson
from apod.campaign.materials import Materials
from apod.campaign.measuring import measure, outlook, remember_plane
from apod.campaign.outcomes import people_left
from apod.campaign.pool_rows import one_by_one, part, pool_rows, proposal, table_encoder
from apod.campaign.settings import settings_of
from apod.campaign.state import Proposal
from apod.data.blocks import encode_numbers, fit_numbers, is_large, joined, take_rows
from apod.data.dataset import IntArray
from apod.errors import CheckpointError
from apod.fairness.notions import NOTIONS, Notion
from apod.maxmin import SharedCoverage
from apod.method.algorithm1 import Answers
from apod.method.head_mitigation import Mitigation, Plan
from apod.method.pod import Training, pretrain_head
from apod.method.pool import Pool, first_choices, mapped_tensor
from apod.method.prepare import table_body
from apod.method.proxy import inputs_for
from apod.method.selection import Choice, first_answers_done
from apod.method.settings import Settings
from apod.models.body import Body
from apod.models.perceptron import PerceptronBody

MOST_ROUNDS = 100  # of a canonical fit: with thousands of answers a round for each would take hours
HASTY_ROUNDS = 8
HIDDEN = (32,)
WIDTH = 64


@dataclass(frozen=True, eq=False)
class CampaignModel:
    """The state of a `Mitigation` after a refit."""

    arrays: dict[str, npt.NDArray[Any]]
    round: int

    def state(self) -> ModelState:
        """Plain arrays."""
        return ModelState(self.arrays, {"round": self.round})


class MitigationEngine:
    """Algorithm 1 for one campaign: nothing is kept between calls but the pool and its pre-trained head."""

    def __init__(self, materials: Materials) -> None:
        self._materials = materials
        self._names = materials.settings.groups
        self.settings = settings_of(materials.settings.engine)
        seed, name = materials.settings.seed, materials.settings.name
        self._rows = pool_rows(materials)
        labels = materials.labels()[self._rows.training]
        parts = _Embedded(materials, self.settings).parts()
        self._reserved, self._reserved_inputs = parts.tensor("held_out"), parts.tensor("held_out_inputs")
        embeddings = parts.pool("embeddings")
        assert embeddings is not None
        inputs = parts.pool("inputs")
        self.pool = Pool(
            dataset=name,
            seed=seed,
            embeddings=embeddings,
            labels=torch.from_numpy(labels),
            validation=embeddings[:0],
            validation_labels=torch.from_numpy(labels[:0]),
            n_groups=len(self._names),
            inputs=inputs,
            validation_inputs=None if inputs is None else inputs[:0],
        )
        self._training = Training.from_settings(self.settings, HIDDEN)
        state = materials.files.folder / f"coverage-{materials.campaign}.state"
        kept = state if is_large(len(self.pool.embeddings)) else None
        self._distances = SharedCoverage(self.pool.embeddings.numpy(), kept)
        first = len(materials.original.training_rows())
        self._pretrained = np.array(materials.remember("head", lambda: self._pretrain(first))["parameters"])

    @property
    def notion(self) -> Notion:
        """What is equalised: measurements and the audit speak of its gap."""
        return NOTIONS[self.settings.notion]

    def _pretrain(self, first: int) -> dict[str, npt.NDArray[Any]]:
        """The head of the rows that the campaign began with."""
        pool = self.pool
        inputs = None if pool.inputs is None else pool.inputs[:first]
        begun = replace(pool, embeddings=pool.embeddings[:first], labels=pool.labels[:first], inputs=inputs)
        return {"parameters": pretrain_head(begun, self._training)}

    def fit(self, answers: Sequence[GroupAnswer], start: CampaignModel | None) -> CampaignModel | None:
        """Replay the rounds from the pre-trained head, or add one round to `start`; None while groups are unseen."""
        told = self._answers(answers)
        if start is None:
            return self._replayed(told, MOST_ROUNDS)
        enough = self._enough(told, self._materials.budget())
        return self._refitted(self._restored(start), told) if enough else None

    def fit_in_haste(self, answers: Sequence[GroupAnswer]) -> CampaignModel | None:
        """Replay a few rounds only, whatever the number of answers."""
        return self._replayed(self._answers(answers), HASTY_ROUNDS)

    def _replayed(self, told: Answers, most: int) -> CampaignModel | None:
        """A round after every answer from the first that can be fitted; where those are too many, evenly spaced."""
        budget = self._materials.budget()  # as it is now: it may have been extended
        if not self._enough(told, budget):
            return None
        order = list(dict.fromkeys(told.rows))
        first = next(n for n in range(1, len(order) + 1) if self._enough(_up_to(told, order[:n]), budget))
        rounds = min(most, len(order) - first + 1)
        model, engine = None, self._fresh()
        for number in np.linspace(len(order), first, rounds).round().astype(int)[::-1].tolist():
            model = self._refitted(engine, _up_to(told, order[:number]))
        return model

    def load(self, state: ModelState) -> CampaignModel:
        """The model of this state, checked against the campaign's heads."""
        model = CampaignModel(dict(state.arrays), int(state.meta["round"]))
        expected = self._fresh().heads.parameters.shape
        if model.arrays["heads.parameters"].shape != tuple(expected):
            raise CheckpointError("A saved model does not fit this campaign's heads: it will be fitted again.")
        return model

    def propose(
        self, model: CampaignModel | None, answers: Sequence[GroupAnswer], unavailable: AbstractSet[int], k: int
    ) -> list[Proposal]:
        """The selector's choices by the model; without one, random people balanced by label."""
        if model is None:
            barred = set(self._rows.inside(unavailable))
            choices = (choice for choice in first_choices(self.pool) if choice.row not in barred)
            return [self._proposal(choice) for choice in islice(choices, k)]
        engine, told = self._restored(model), self._answers(answers)
        engine.answers[0] = told
        with self._distances.to(dict.fromkeys(told.rows)) as engine.coverage[0]:
            chosen = [question.choice for question in engine.ask(k, self._rows.inside(unavailable))]
        return [self._proposal(choice) for choice in one_by_one(chosen)]

    def decisions(self, model: CampaignModel | None, rows: IntArray) -> dict[str, IntArray]:
        """Of held-out people: before, by the head without a penalty."""
        engine = self._fresh() if model is None else self._restored(model)
        margins = engine.heads.margins(self._of_held_out(self._reserved, rows), [0])
        return {"before": (margins[0] > 0).numpy().astype(np.int64)}

    def proxies(self, model: CampaignModel | None, rows: IntArray) -> npt.NDArray[np.float64]:
        """(n, g) P(group) of held-out people by f_a; even shares before the first model."""
        if model is None:
            return np.full((len(rows), len(self._names)), 1 / len(self._names))
        seen = self._reserved if self._reserved_inputs is None else self._reserved_inputs
        guessed = self._restored(model).membership(self._of_held_out(seen, rows))[0]
        return np.asarray(guessed.numpy(), dtype=np.float64)

    def _of_held_out(self, matrix: torch.Tensor | None, rows: IntArray) -> torch.Tensor:
        places = self._rows.among_held_out(rows)
        assert matrix is not None
        return matrix[places]

    def measure(self, model: CampaignModel, answers: Sequence[GroupAnswer]) -> OutcomeJson:
        """What the model's heads achieve; the map of the pool is made along with the first."""
        remember_plane(self._materials, self._everybody)
        engine, told = self._restored(model), self._answers(answers)
        engine.answers[0] = told
        with self._distances.to(dict.fromkeys(told.rows)) as engine.coverage[0]:
            found = measure(engine, self._names)
        return {**found, **self._outlook(engine)}

    def _outlook(self, engine: Mitigation) -> OutcomeJson:
        """The gap to expect, where somebody may see it or a pause rests on it, and whether it may be shown."""
        rules, covers = self._materials.settings, engine.posterior_covers
        wanted = self.settings.looks_ahead and (covers or rules.least_gain > 0)
        people = round(people_left(rules, self._materials.budget()))
        return {"outlook": outlook(engine, people) if wanted else None, "outlook_covers": covers}

    def _everybody(self) -> npt.NDArray[np.float32]:
        """Embeddings of all rows of the campaign, those held out included, in its own order."""
        return self._rows.everybody(
            self.pool.embeddings.numpy(), None if self._reserved is None else self._reserved.numpy()
        )

    def _proposal(self, choice: Choice) -> Proposal:
        return proposal(self._materials, self._rows, choice)

    def _answers(self, answers: Sequence[GroupAnswer]) -> Answers:
        rows, told = self._rows.learnable(answers)
        return Answers(tuple(rows), tuple(answer.group for answer in told), tuple(answer.weight for answer in told))

    def _enough(self, told: Answers, budget: int) -> bool:
        """Whether there is something to fit: random answers are done, and one group at least was named."""
        seen = len(told.groups_seen())
        return seen > 0 and first_answers_done(len(set(told.rows)), seen, self.pool.n_groups, budget)

    def _fresh(self) -> Mitigation:
        # whoever asks gets distances of their own; a fit needs none
        return Mitigation(
            self.pool, Plan.from_settings(self.settings), self._training, self._pretrained, self._distances.none
        )

    def _restored(self, model: CampaignModel) -> Mitigation:
        engine = self._fresh()
        engine.restore(model.arrays, model.round)
        return engine

    def _refitted(self, engine: Mitigation, told: Answers) -> CampaignModel:
        engine.answers[0] = told
        engine.refit()
        return CampaignModel(engine.arrays(), engine.round)


Arrays = dict[str, npt.NDArray[Any]]
BODY = "body."
"""What the names of a body's own arrays begin with."""


@dataclass(frozen=True, eq=False)
class _Parts:
    """Matrices of everybody by name, batch by batch: of the pool, and of those held out."""

    batches: list[Arrays]

    def pool(self, name: str) -> torch.Tensor | None:
        """A copy of the pool's matrix; of a large one a tensor over the mapped file. None where there is none.

        A campaign of an earlier version has no inputs: its f_a goes on with the embeddings.
        """
        if name not in self.batches[0]:
            return None
        stored = joined([batch[name] for batch in self.batches])
        return mapped_tensor(stored) if is_large(len(stored)) else torch.tensor(stored)

    def tensor(self, name: str) -> torch.Tensor | None:
        """The matrix of those held out; None where nobody is."""
        found = [batch[name] for batch in self.batches if name in batch]
        return torch.tensor(np.concatenate(found)) if found else None


@dataclass(frozen=True, eq=False)
class _Embedded:
    """What the body makes of a campaign's rows; it is trained on those that the campaign began with."""

    materials: Materials
    settings: Settings

    def parts(self) -> _Parts:
        """Embeddings of the pool and, apart from them, of those held out; their inputs, where f_a reads them."""
        first = self.materials.remember("embedding", self._first)
        return _Parts([first, *self.materials.remember_later("embedding", lambda batch: self._later(first, batch))])

    @property
    def _scales_in_sweeps(self) -> bool:
        first = self.materials.original
        given = first.batch_features(0)
        return self.settings.body == "precomputed" and isinstance(given, np.ndarray) and is_large(len(first))

    def _first(self) -> Arrays:
        given = self.materials.batch_features(0)
        if self._scales_in_sweeps:
            return self._split(0, {"embeddings": self._scaled(np.asarray(given))})
        body, encoded = self._body(), table_encoder(self.materials, self.settings).transform(given)
        found = self._split(0, self._matrices(body, encoded))
        own = body.state() if isinstance(body, PerceptronBody) else {}
        return found | {f"{BODY}{name}": array for name, array in own.items()}

    def _later(self, first: Arrays, batch: int) -> Arrays:
        given = self.materials.batch_features(batch)
        if self._scales_in_sweeps:
            return self._split(batch, {"embeddings": self._scaled(np.asarray(given))})
        own = {name.removeprefix(BODY): np.asarray(first[name]) for name in first if name.startswith(BODY)}
        body = PerceptronBody.from_state(own) if own else self._body()  # an earlier version kept none: trained again
        encoded = table_encoder(self.materials, self.settings).transform(given)
        return self._split(batch, self._matrices(body, encoded))

    def _body(self) -> Body:
        first, rules = self.materials.original, self.materials.settings
        rows, encoder = first.training_rows(), table_encoder(self.materials, self.settings)
        seen = encoder.transform(part(first.features(), rows))
        return table_body(seen, encoder, first.labels()[rows], self.settings, WIDTH, rules.seed, rules.name)

    def _scaled(self, matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A large matrix scaled by the rows that the campaign began with, in sweeps."""
        first = self.materials.original
        begun = np.asarray(first.batch_features(0))
        seen = take_rows(begun, first.training_rows()) if len(first.held_out()) else begun
        return encode_numbers(fit_numbers(seen), matrix)

    def _matrices(self, body: Body, encoded: npt.NDArray[np.float32]) -> Arrays:
        inputs = inputs_for(self.settings.f_a_reads, encoded, len(self.materials.settings.groups))
        return {"embeddings": body.embed(encoded)} | ({} if inputs is None else {"inputs": inputs})

    def _split(self, batch: int, matrices: Arrays) -> Arrays:
        """Each matrix of a batch in two: the pool, and those held out."""
        names = {"embeddings": "held_out", "inputs": "held_out_inputs"}
        file = self.materials.batches[batch].get("held_out")
        if file is None:
            return matrices
        held_out = self.materials.files.array(file)
        training = np.delete(np.arange(self.materials.batches[batch]["rows"]), held_out)
        found = {name: matrix[training] for name, matrix in matrices.items()}
        return found | {names[name]: matrix[held_out] for name, matrix in matrices.items()}


def _up_to(told: Answers, rows: Sequence[int]) -> Answers:
    """The answers about these rows."""
    wanted = set(rows)
    kept = [entry for entry in zip(told.rows, told.groups, told.weights, strict=True) if entry[0] in wanted]
    return Answers(*(tuple(column) for column in zip(*kept, strict=True))) if kept else Answers()
