"""f_h: a bank of K small MLP heads on the same frozen embeddings, trained together as batched matrix products.

The paper draws its curve by training again for each strength, method and seed. The body is frozen, so all those heads
read the same embeddings and differ only in their loss: one batched program trains them all. A two- or three-layer
MLP's gradient is a few matrix products, written out in `HeadBank.step`; the loss enters as the gradient with respect
to the logits, which is all that POD, Group DRO, LfF and the others differ in. Classifiers have two outputs and losses
that look at the margin alone, logit 1 minus logit 0: `HeadBank.step_margins` does that with half the products.

Shapes: K heads, R rows, M inputs, H hidden units, C outputs. All heads share the dropout masks (`apod.heads.schedule`),
so a head's result is the same alone or in any bank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

LogitGradient = Callable[[Tensor], Tensor]
"""Gradient of the loss with respect to the logits: (K, R, C) in, (K, R, C) out."""

MarginGradient = Callable[[Tensor], Tensor]
"""Gradient of the loss with respect to the margins: (K, R) in, (K, R) out."""

_EVALUATION_ROWS, _EVALUATION_HEADS = 512, 16  # per product in evaluation: hidden units stay in the cache
_TIDY_EVERY, _NEXT_TO_NOTHING = 64, 1e4
"""Adam's memory of a unit that is closed for good decays into denormal numbers, which a processor handles a hundred
times as slowly, and the square root of zero takes twenty times as long as that of another number: before that, what
cannot move a parameter any more becomes zero in the mean and next to nothing in the square."""


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
    """Adam (lr 1e-3 in the paper) over one flat buffer of parameters; its state survives from round to round.

    The mean square is corrected for its start at zero either within its root, as the definition reads, or outside of
    it, which saves a pass over a bank. Both are the same number to rounding; a body and a bank each keep their own, so
    that a seed gives the same bits from version to version.
    """

    def __init__(self, parameters: Tensor, lr: float = 1e-3, *, correct_square_first: bool = False) -> None:
        self.lr, self.steps, self._correct_square_first = lr, 0, correct_square_first
        self._floor = _NEXT_TO_NOTHING * torch.finfo(parameters.dtype).tiny  # its root is lost beside Adam's 1e-8
        self.mean, self.square = torch.zeros_like(parameters), torch.full_like(parameters, self._floor)
        self._scale = torch.empty_like(parameters)

    def step(self, parameters: Tensor, gradient: Tensor, beta1: float = 0.9, beta2: float = 0.999) -> None:
        """Move the parameters in place along one gradient."""
        self.steps += 1
        self.mean.lerp_(gradient, 1 - beta1)
        self.square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        # m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps)
        if self._correct_square_first:
            correction = 1.0
            scale = torch.div(self.square, 1 - beta2**self.steps, out=self._scale).sqrt_().add_(1e-8)
        else:
            correction = (1 - beta2**self.steps) ** 0.5
            scale = torch.sqrt(self.square, out=self._scale).add_(1e-8 * correction)
        parameters.addcdiv_(self.mean, scale, value=-self.lr * correction / (1 - beta1**self.steps))
        if self.steps % _TIDY_EVERY == 0:
            self.mean[self.mean.abs() < self._floor] = 0
            self.square.clamp_(min=self._floor)


class _Workspace:
    """Memory that one step leaves to the next: a fresh megabyte per product would cost more than the product."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor of this shape; what was taken under this name before is overwritten."""
        size, held = math.prod(shape), self._held.get(name)
        if held is None or len(held) < size or held.dtype != like.dtype:
            held = self._held[name] = like.new_empty(size)
        return held[:size].view(shape)


class HeadBank:
    """K heads with the same sizes, e.g. (64, 32, 2): linear, ReLU, dropout, ..., linear."""

    def __init__(self, parameters: Tensor, sizes: Sequence[int], lr: float = 1e-3) -> None:
        self.sizes = tuple(sizes)
        self.parameters = parameters.clone()  # (K, P)
        self.gradient = torch.zeros_like(self.parameters)
        self.layers = layer_views(self.parameters, self.sizes)
        self._gradients = layer_views(self.gradient, self.sizes)
        # products go into tensors of their own: into a part of a larger one they would not be done as one batch
        self._sums = [gradient.weight.clone() for gradient in self._gradients]
        self._workspace = _Workspace()
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
        inputs, last = self._forward(shared, own, masks), self.layers[-1]
        slope = logit_gradient(torch.baddbmm(last.bias, inputs[-1], last.weight))
        self._backward(inputs, slope, last.weight * scale, scale)
        self.adam.step(self.parameters, self.gradient)

    @torch.no_grad()
    def step_margins(
        self,
        shared: Tensor | None,
        own: Tensor | None,
        masks: Sequence[Tensor],
        margin_gradient: MarginGradient,
        scale: float,
    ) -> None:
        """The same step for heads with two outputs whose loss depends on the margin alone."""
        if len(self.layers) == 1:
            self.step(shared, own, [], lambda logits: _by_logit(margin_gradient(logits[..., 1] - logits[..., 0])), 1.0)
            return
        *inputs, top = self._forward(shared, own, masks)
        weight, bias = _margin_layer(self.layers[-1])  # (K, H), (K, 1)
        slope = margin_gradient(torch.bmm(weight[:, None], top.transpose(1, 2)).squeeze(1).add_(bias))  # (K, R)
        last = self._gradients[-1]
        last.weight.copy_(_by_logit(torch.bmm(slope[:, None], top).squeeze(1)))
        last.bias.copy_(_by_logit(slope.sum(dim=1, keepdim=True)))
        # a unit is zero where ReLU or dropout closed it, and no slope goes through there; the factor all rows have in
        # common comes after the sum over the rows, not before
        through, factor = _where_open(slope[..., None].expand_as(top), top, top), (weight * scale)[:, None]  # (K, 1, H)
        self._backward(inputs, through, self.layers[-2].weight * (factor * scale), scale, factor)
        self.adam.step(self.parameters, self.gradient)

    def _forward(self, shared: Tensor | None, own: Tensor | None, masks: Sequence[Tensor]) -> list[Tensor]:
        """What goes into every layer: the rows (K, R, M), then the activations (K, R, H) of every hidden layer.

        The memory is the next step's again.
        """
        values = self._rows(shared, own)
        inputs = [values]
        for depth, (mask, layer) in enumerate(zip(masks, self.layers[:-1], strict=True)):
            shape = (*values.shape[:2], layer.weight.shape[2])
            below, values = values, self._workspace.take(f"hidden {depth}", layer.weight, *shape)
            torch.baddbmm(layer.bias, below, layer.weight, out=values)
            inputs.append(values.relu_().mul_(mask))
        return inputs

    def _rows(self, shared: Tensor | None, own: Tensor | None) -> Tensor:
        """(K, R, M); copied together, because products with parts of a tensor would not be done as one batch."""
        if shared is None or own is None:
            return cast(Tensor, own) if shared is None else shared.expand(len(self), -1, -1)
        size = len(shared)
        both = self._workspace.take("rows", own, len(self), size + own.shape[1], own.shape[2])
        both[:, :size], both[:, size:] = shared, own
        return both

    def _backward(
        self, inputs: list[Tensor], slope: Tensor, weight: Tensor, scale: float, factor: Tensor | None = None
    ) -> None:
        """The gradients of the layers with these inputs, from the last one down.

        slope (K, R, H) of the last layer's output but for the factor (K, 1, H) · weight: its weights x factor x scale.
        """
        for depth in range(len(inputs) - 1, -1, -1):
            gradient, total = self._gradients[depth], self._sums[depth]
            torch.bmm(inputs[depth].transpose(1, 2), slope, out=total)
            torch.sum(slope, dim=1, keepdim=True, out=gradient.bias)
            if factor is None:
                gradient.weight.copy_(total)
            else:
                torch.mul(total, factor, out=gradient.weight)
                gradient.bias.mul_(factor)
                factor = None
            if depth > 0:
                # a dropped unit is zero in `hidden`, so its slope needs the mask's scale but not the mask
                hidden = inputs[depth]
                below = self._workspace.take(f"slope {depth}", slope, *hidden.shape)
                torch.bmm(slope, weight.transpose(1, 2), out=below)
                slope = _where_open(below, hidden, below)
                weight = self.layers[depth - 1].weight * scale

    @torch.no_grad()
    def logits(self, embeddings: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(K, N, C) logits of all rows, for all heads or these.

        In evaluation mode: dropout left on would score one question two ways.
        """
        chosen = self.parameters if heads is None else self.parameters[list(heads)]
        out = chosen.new_empty(len(chosen), len(embeddings), self.sizes[-1])
        for few, rows, hidden, last in self._evaluated(embeddings, chosen):
            torch.baddbmm(last.bias, hidden, last.weight, out=out[few, rows])
        return out

    @torch.no_grad()
    def margins(self, embeddings: Tensor, heads: Sequence[int] | None = None) -> Tensor:
        """(K, N) logit of label 1 minus logit of label 0; positive means predicted 1."""
        chosen = self.parameters if heads is None else self.parameters[list(heads)]
        if len(self.sizes) == 2:
            weight, bias = _margin_layer(layer_views(chosen, self.sizes)[0])
            return torch.addmm(bias, weight, embeddings.T)
        out = chosen.new_empty(len(chosen), len(embeddings))
        for few, rows, hidden, last in self._evaluated(embeddings, chosen):
            weight, bias = _margin_layer(last)
            out[few, rows] = torch.bmm(weight[:, None], hidden.transpose(1, 2)).squeeze(1).add_(bias)
        return out

    def _evaluated(self, embeddings: Tensor, parameters: Tensor) -> Iterator[tuple[slice, slice, Tensor, Layer]]:
        """Blocks of heads x rows: which, what goes into the last layer (k, n, H), and that layer."""
        for start in range(0, len(parameters), _EVALUATION_HEADS):
            few = slice(start, min(start + _EVALUATION_HEADS, len(parameters)))
            *hidden_layers, last = layer_views(parameters[few], self.sizes)
            for first in range(0, len(embeddings), _EVALUATION_ROWS):
                rows = slice(first, min(first + _EVALUATION_ROWS, len(embeddings)))
                hidden = embeddings[rows].expand(few.stop - few.start, -1, -1)
                for layer in hidden_layers:
                    hidden = torch.baddbmm(layer.bias, hidden, layer.weight).relu_()
                yield few, rows, hidden, last

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


def _margin_layer(layer: Layer) -> tuple[Tensor, Tensor]:
    """Weights (K, H) and bias (K, 1) of logit 1 minus logit 0."""
    return layer.weight[..., 1] - layer.weight[..., 0], layer.bias[..., 1] - layer.bias[..., 0]


def _where_open(slope: Tensor, hidden: Tensor, out: Tensor) -> Tensor:
    """The slope where the hidden unit is above zero, else zero: one pass, into the memory of one of the two."""
    return cast(Tensor, torch.ops.aten.threshold_backward.grad_input(slope, hidden, 0, grad_input=out))


def _by_logit(slope: Tensor) -> Tensor:
    """(..., 2) from the slope in the margin: what raises logit 1 lowers logit 0."""
    return torch.stack([-slope, slope], dim=-1)
