"""f_h: a bank of K small MLP heads on the same frozen embeddings, trained together as batched matrix products.

The paper draws its curve by training again for each strength, method and seed. The body is frozen, so all those heads
read the same embeddings and differ only in their loss: one batched program trains them all. A two- or three-layer
MLP's gradient is a few matrix products, written out in `HeadBank.step`; the loss enters as the gradient with respect
to the logits, which is all that POD, Group DRO, LfF and the others differ in.

Shapes: K heads, R rows, M inputs, H hidden units, C outputs. All heads share the dropout masks (`apod.schedule`),
so a head's result is the same alone or in any bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

LogitGradient = Callable[[Tensor], Tensor]
"""Gradient of the loss with respect to the logits: (K, R, C) in, (K, R, C) out."""

_EVALUATION_ROWS = 8192  # rows per forward pass in evaluation: bounds memory at K x rows x H floats


@dataclass(frozen=True)
class Layer:
    """Views of one linear layer's weights for all heads, inside a bank's flat buffer."""

    weight: Tensor  # (K, in, out)
    bias: Tensor  # (K, 1, out)


def layer_views(flat: Tensor, sizes: Sequence[int]) -> list[Layer]:
    """Cut a (K, P) buffer into the layers of a network with these sizes, without copying."""
    views, start, heads = [], 0, flat.shape[0]
    for fan_in, fan_out in pairwise(sizes):
        middle, end = start + fan_in * fan_out, start + (fan_in + 1) * fan_out
        weight = flat[:, start:middle].view(heads, fan_in, fan_out)
        views.append(Layer(weight, flat[:, middle:end].view(heads, 1, fan_out)))
        start = end
    return views


def initial_parameters(sizes: Sequence[int], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """(P,) parameters of one head, uniform in +-1/sqrt(fan in) as in torch's linear layers."""
    parts = []
    for fan_in, fan_out in pairwise(sizes):
        bound = 1 / np.sqrt(fan_in)
        parts.append(rng.uniform(-bound, bound, size=(fan_in + 1) * fan_out))
    return np.concatenate(parts)


class Adam:
    """Adam (lr 1e-3 in the paper) over a bank's flat parameters; its state survives from round to round."""

    def __init__(self, parameters: Tensor, lr: float = 1e-3) -> None:
        self.lr, self.steps = lr, 0
        self.mean, self.square = torch.zeros_like(parameters), torch.zeros_like(parameters)

    def step(self, parameters: Tensor, gradient: Tensor, beta1: float = 0.9, beta2: float = 0.999) -> None:
        """Move the parameters in place along one gradient."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = self.square.sqrt().div_((1 - beta2**self.steps) ** 0.5).add_(1e-8)
        parameters.addcdiv_(self.mean, scale, value=-self.lr / (1 - beta1**self.steps))


class HeadBank:
    """K heads with the same sizes, e.g. (64, 32, 2): linear, ReLU, dropout, ..., linear."""

    def __init__(self, parameters: Tensor, sizes: Sequence[int], lr: float = 1e-3) -> None:
        self.sizes = tuple(sizes)
        self.parameters = parameters.clone()  # (K, P)
        self.gradient = torch.zeros_like(self.parameters)
        self.layers = layer_views(self.parameters, self.sizes)
        self._gradients = layer_views(self.gradient, self.sizes)
        self.adam = Adam(self.parameters, lr)

    @classmethod
    def replicate(
        cls,
        parameters: npt.NDArray[np.float64],
        heads: int,
        sizes: Sequence[int],
        dtype: torch.dtype = torch.float32,
    ) -> HeadBank:
        """K copies of one head: every strength starts from the same pre-trained one."""
        one = torch.as_tensor(parameters, dtype=dtype)
        return cls(one.expand(heads, -1), sizes)

    def __len__(self) -> int:
        return self.parameters.shape[0]

    @torch.no_grad()
    def step(
        self,
        shared: Tensor | None,
        own: Tensor | None,
        masks: Sequence[Tensor],
        logit_gradient: LogitGradient,
        scale: float,
    ) -> None:
        """One Adam step on rows all heads see, `shared` (B, M), followed by rows of each head, `own` (K, S, M).

        `masks` holds one dropout mask (B+S, H) per hidden layer, 0 for a dropped unit and `scale` = 1/(1-p) else.
        """
        activations = [self._first_layer(shared, own)]  # (K, R, H)
        for mask, layer in zip(masks, self.layers[1:], strict=True):
            activations[-1].relu_().mul_(mask)
            activations.append(torch.baddbmm(layer.bias, activations[-1], layer.weight))
        slope = logit_gradient(activations.pop())  # (K, R, C)
        for depth in range(len(self.layers) - 1, 0, -1):
            hidden = activations.pop()  # (K, R, H), zero where ReLU or dropout closed the unit
            self._store(depth, torch.bmm(hidden.transpose(1, 2), slope), slope)
            # `hidden` is zero wherever a unit was dropped, so its slope needs the mask's scale but not the mask
            slope = torch.bmm(slope, (self.layers[depth].weight * scale).transpose(1, 2))
            torch.ops.aten.threshold_backward.grad_input(slope, hidden, 0, grad_input=slope)
        self._store(0, self._first_weight_gradient(shared, own, slope), slope)
        self.adam.step(self.parameters, self.gradient)

    def _store(self, depth: int, weight: Tensor, slope: Tensor) -> None:
        self._gradients[depth].weight.copy_(weight)
        torch.sum(slope, dim=1, keepdim=True, out=self._gradients[depth].bias)

    def _first_layer(self, shared: Tensor | None, own: Tensor | None) -> Tensor:
        first, heads = self.layers[0], len(self)
        if own is None:
            assert shared is not None
            return torch.baddbmm(first.bias, shared.expand(heads, -1, -1), first.weight)
        if shared is None:
            return torch.baddbmm(first.bias, own, first.weight)
        size = shared.shape[0]
        both = first.bias.expand(-1, size + own.shape[1], -1).contiguous()
        both[:, :size].baddbmm_(shared.expand(heads, -1, -1), first.weight)
        both[:, size:].baddbmm_(own, first.weight)
        return both

    def _first_weight_gradient(self, shared: Tensor | None, own: Tensor | None, slope: Tensor) -> Tensor:
        if shared is None:
            assert own is not None
            return torch.bmm(own.transpose(1, 2), slope)
        size = shared.shape[0]
        gradient = torch.bmm(shared.T.expand(len(self), -1, -1), slope[:, :size])
        if own is not None:
            gradient.baddbmm_(own.transpose(1, 2), slope[:, size:])
        return gradient

    @torch.no_grad()
    def logits(self, embeddings: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(K, N, C) logits of all rows, for all heads or these.

        In evaluation mode: dropout left on would score one question two ways.
        """
        chosen = self.parameters if heads is None else self.parameters[list(heads)]
        *hidden_layers, last = layer_views(chosen, self.sizes)
        blocks = []
        for rows in torch.split(embeddings, _EVALUATION_ROWS):
            hidden = rows.expand(len(chosen), -1, -1)
            for layer in hidden_layers:
                hidden = torch.baddbmm(layer.bias, hidden, layer.weight).relu_()
            blocks.append(torch.baddbmm(last.bias, hidden, last.weight))
        return torch.cat(blocks, dim=1)

    def margins(self, embeddings: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(K, N) logit of label 1 minus logit of label 0; positive means predicted 1."""
        logits = self.logits(embeddings, heads)
        return logits[..., 1] - logits[..., 0]

    def weights(self, head: int) -> list[npt.NDArray[np.float64]]:
        """The weight matrices (in, out) of one head, without biases."""
        return [layer.weight[head].double().numpy().copy() for layer in self.layers]

    def state(self) -> dict[str, npt.NDArray[np.float64]]:
        """Everything needed to go on training: parameters and Adam's memory, in the bank's own precision."""
        adam = self.adam
        named = {"parameters": self.parameters, "mean": adam.mean, "square": adam.square}
        arrays = {name: tensor.numpy().copy() for name, tensor in named.items()}
        return arrays | {"steps": np.array(adam.steps)}

    def restore(self, state: dict[str, npt.NDArray[np.float64]]) -> None:
        """Take over a saved state; the layers stay views of the same buffer."""
        self.parameters.copy_(torch.as_tensor(state["parameters"]))
        self.adam.mean.copy_(torch.as_tensor(state["mean"]))
        self.adam.square.copy_(torch.as_tensor(state["square"]))
        self.adam.steps = int(state["steps"])
