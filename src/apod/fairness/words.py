"""How people read of a fairness notion: of two labels where the notion stands, of more here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Words:
    """How people read of a notion."""

    title: str
    gap: str  # the formula, for two groups and two labels
    two: str  # the formula in words, for two groups
    many: str  # and for more
    fair: str  # what holds where the gap is 0

    def explain(self, n_groups: int) -> str:
        """What the gap is, in a sentence or two."""
        return f"{self.two if n_groups == 2 else self.many}, in percentage points. 0 = {self.fair}."


MORE_LABELS: Mapping[str, Words] = MappingProxyType(
    {
        "equalized_odds": Words(
            "equalized odds",
            "sum over labels of the total variation between the groups' decisions",
            "How far apart the groups' decisions are among people of a label (total variation), summed over the labels",
            "Half of highest minus lowest share of a decision among people of one label, summed over both",
            "among people of any label, all groups get every decision equally often",
        ),
        "true_positive_rate_parity": Words(
            "true positive rate parity",
            "sum over labels of |d P(predicted right)|",
            "Difference of the groups' shares of people of a label who are predicted right, summed over the labels",
            "Highest minus lowest share of people of a label who are predicted right, summed over the labels",
            "people of any label are recognised equally often in all groups",
        ),
        "false_positive_rate_parity": Words(
            "false positive rate parity",
            "sum over labels of |dFPR|, one label against the rest",
            "Difference of the groups' shares of people called a label that is not theirs, summed over the labels",
            "Highest minus lowest share of people called a label that is not theirs, summed over the labels",
            "people of all groups are called what they are not equally often",
        ),
        "demographic_parity": Words(
            "demographic parity",
            "total variation between the groups' decisions",
            "How far apart the groups' shares of every decision are (total variation)",
            "Half of highest minus lowest share of every decision, summed over the decisions",
            "all groups get every decision equally often",
        ),
        "selection_rate_ratio": Words(
            "selection-rate ratio",
            "1 - lowest / highest share of a decision",
            "1 minus the ratio of the groups' shares of the decision for which they differ most",
            "1 minus the ratio of the lowest to the highest share of the decision for which they differ most",
            "all groups get every decision equally often; above 20, a ratio is below four fifths",
        ),
        "predictive_parity": Words(
            "predictive parity",
            "sum over labels of |d precision|",
            "Difference of the groups' precision of every decision, without sign, summed over the decisions",
            "Highest minus lowest precision of every decision, summed over the decisions",
            "every decision is right equally often in all groups",
        ),
    }
)
"""Every notion's words with more than two labels, by name."""
