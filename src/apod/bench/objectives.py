"""The losses of the baselines, each as its gradient with respect to the margins of a bank."""

from __future__ import annotations

import torch
from torch import Tensor


def _losses(margin: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every row and its slope in the margin, (K, R) each."""
    ones = labels.to(margin.dtype)
    return torch.nn.functional.softplus(margin * (1 - 2 * ones)), margin.sigmoid().sub_(ones)


class GroupDro:
    """Group DRO (Sagawa et al.): min over heads, max over q, of  sum_a q_a x mean loss of group a.

    q takes an exponentiated-gradient step on every mini-batch, then weighs the groups' losses.
    """

    def __init__(self, step_sizes: Tensor, n_groups: int) -> None:
        self._step_sizes = step_sizes  # (K,)
        self.q = torch.full((len(step_sizes), n_groups), 1 / n_groups)  # (K, G)
        self._groups = torch.arange(n_groups)

    def slope(self, margin: Tensor, labels: Tensor, groups: Tensor) -> Tensor:
        """Update q on this mini-batch and give the gradient; a group without rows here keeps its weight.

        groups (R,): codes, -1 where a row belongs to no group and does not count.
        """
        losses, slope = _losses(margin, labels)
        member = (groups[:, None] == self._groups).to(losses.dtype)  # (R, G)
        sizes = member.sum(dim=0).clamp(min=1)
        group_loss = losses @ member / sizes  # (K, G)
        self.q = self.q * (self._step_sizes[:, None] * group_loss).exp()
        self.q = self.q / self.q.sum(dim=1, keepdim=True)
        return slope.mul_((self.q / sizes) @ member.T)


def learning_from_failure_slope(margin: Tensor, labels: Tensor, powers: Tensor) -> Tensor:
    """Gradient of LfF (Nam et al.) for K biased heads followed by their K debiased twins.

    Biased: generalised cross-entropy (1 - p_y^q) / q, whose gradient is p_y^q x that of cross-entropy.
    Debiased: cross-entropy weighed by l_B / (l_B + l_D); the weights are constants of the step.
    """
    heads, size = len(powers), margin.shape[1]
    losses, slope = _losses(margin, labels)
    biased, debiased = losses[:heads], losses[heads:]
    confident = (-biased).exp() ** powers[:, None]  # p_y^q
    failed = biased / (biased + debiased).clamp(min=torch.finfo(losses.dtype).tiny)
    return slope.mul_(torch.cat([confident, failed])).div_(size)
