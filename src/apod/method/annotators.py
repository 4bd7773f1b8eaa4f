"""Who answers: a recorded column, a function, a person at the terminal. Only an annotator holds true groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apod.data.dataset import UNKNOWN, Dataset, Grouping, IntArray, answer_code
from apod.errors import AnnotatorError
from apod.method.algorithm1 import Question
from apod.text import printable

Told = str | None | Sequence[str | None]
Annotator = Callable[[int], Told]
"""Gives the group name of a dataset row, or None when it cannot be told; of several attributes one each."""


class RecordedGroups:
    """Answers from a recorded column, and remembers which rows were read: the only object that holds true groups."""

    def __init__(self, groups: IntArray, group_names: Sequence[str], further: Sequence[Grouping] = ()) -> None:
        self._groupings = (Grouping("", tuple(group_names), groups), *further)
        self.read: set[int] = set()

    def __call__(self, row: int) -> Told:
        """The recorded group of one row, of several attributes one each."""
        self.read.add(row)
        codes = [(one.names, int(one.codes[row])) for one in self._groupings]
        told = [None if code == UNKNOWN else names[code] for names, code in codes]
        return told if len(told) > 1 else told[0]


class TerminalPrompt:
    """Shows one row at a time and asks the person at the terminal for a number."""

    def __init__(
        self, dataset: Dataset, say: Callable[[str], None] = print, listen: Callable[[str], str] = input
    ) -> None:
        self._dataset, self._say, self._listen = dataset, say, listen

    def __call__(self, row: int) -> Told:
        """Show the row, and ask about every attribute until each answer is one of the numbers."""
        self._say("")
        self._say(printable(f"Row {self._dataset.rows[row]} of {self._dataset.name}"))
        shown = self._dataset.features if self._dataset.shown is None else self._dataset.shown
        for column, value in shown.iloc[row].items():
            self._say(printable(f"  {column}: {value}"))
        groupings = self._dataset.groupings
        if len(groupings) == 1:
            return self._ask("Group", self._dataset.group_names)
        return [self._ask(one.name, one.names) for one in groupings]

    def _ask(self, what: str, names: Sequence[str]) -> str | None:
        choices = ", ".join(f"{number} = {name}" for number, name in enumerate(names, start=1))
        while True:
            try:
                reply = self._listen(printable(f"{what}? {choices}, 0 = cannot tell: ")).strip()
            except EOFError:
                raise AnnotatorError("The input ended before the last answer: run again with --resume.") from None
            if reply == "0":
                return None
            if reply in names:
                return reply
            if reply.isdecimal() and 1 <= int(reply) <= len(names):
                return names[int(reply) - 1]
            self._say(f"Please type a number from 0 to {len(names)}, or a group's name.")


class Interview:
    """Puts questions about training rows to an annotator, checks what comes back, and never asks the same twice.

    `heard` are answers from an earlier, interrupted run; `keep` is called with every new one before it is used.
    """

    def __init__(
        self,
        annotator: Annotator,
        group_names: Sequence[str],
        rows: IntArray,
        heard: dict[tuple[int, int], int] | None = None,
        keep: Callable[[Question, int], None] = lambda question, group: None,
        further: Sequence[Sequence[str]] = (),
    ) -> None:
        self._annotator = annotator
        self._codes = [{name: code for code, name in enumerate(names)} for names in (group_names, *further)]
        self._rows, self._heard, self._keep = rows, heard or {}, keep

    def __call__(self, question: Question) -> int:
        """The group code of the question's row; of several attributes one number for all (`answer_code`)."""
        known = self._heard.get((question.trajectory, question.row))
        if known is not None:
            return known
        group = self._ask(int(self._rows[question.row]))
        self._keep(question, group)
        return group

    def _ask(self, row: int) -> int:
        try:
            answer = self._annotator(row)
        except AnnotatorError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a user's function raises is one kind of failure here
            # the message of a user's exception may hold a person's group, so only its type is told
            raise AnnotatorError(f"The annotator failed with {type(error).__name__} on row {row}.") from None
        if answer is None:
            return UNKNOWN
        told = [answer] if isinstance(answer, str) else list(answer) if isinstance(answer, Sequence) else [answer]
        if len(told) != len(self._codes):
            count = len(self._codes)
            raise AnnotatorError(
                f"The annotator's answer for row {row} names {len(told)} of {count} attributes' groups."
            )
        found = []
        for one, codes in zip(told, self._codes, strict=True):
            if one is not None and (not isinstance(one, str) or one not in codes):
                known = ", ".join(codes)
                raise AnnotatorError(f"The annotator's answer for row {row} is none of the groups ({known}).")
            found.append(UNKNOWN if one is None else codes[one])
        return answer_code(found, [len(codes) for codes in self._codes])
