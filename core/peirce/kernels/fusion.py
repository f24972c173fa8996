"""Several linear maps as one matrix product, while each keeps its own parameters.

A fused map reads all the channels that a stage takes from one branch in one product, or writes all that it gives to
one branch in one. In inference the concatenated weights are kept until an optimizer steps or a parameter changes. Where
gradients are wanted each pass concatenates them, so that gradients reach every parameter; or each map is a product of
its own (`read_each`, `write_each`). For an export `folded` makes the concatenated weights constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

Weights = tuple[Tensor, Tensor | None]


class _Steps:
    """How many steps the optimizers of this process have made.

    Fused optimizers write to parameters without raising their versions, so versions alone do not show a change.
    """

    count = 0

    @classmethod
    def made(cls, *step: object) -> None:
        """Count one more; torch calls it after the step of any optimizer."""
        cls.count += 1


register_optimizer_step_post_hook(_Steps.made)


class FusedLinear(nn.Module):
    """Linear maps of one input into concatenated outputs, or of concatenated inputs into one summed output.

    Args:
        maps: the maps, which stay owned by whoever registered them, each with a factor on its result.
        along: `outputs` for maps that read one input, `inputs` for maps whose results are added.
        fuse: whether the maps become one product; otherwise `folded` leaves them apart, as their stage does.
    """

    def __init__(
        self,
        maps: Sequence[tuple[nn.Linear, float]],
        along: Literal["outputs", "inputs"],
        *,
        fuse: bool = True,
    ) -> None:
        super().__init__()
        self.maps = tuple(maps)  # a tuple registers nothing: the parameters keep their owners' names
        self.along = along
        self.fuse = fuse
        self.widths = [
            linear.out_features if along == "outputs" else linear.in_features for linear, _ in maps
        ]
        self._kept: tuple[object, Weights] | None = None
        self._folded: Weights | None = None

    def read(self, atoms: Tensor) -> Tensor:
        """[..., d] -> [..., sum of widths]: every map of one input, side by side, in one product."""
        return F.linear(atoms, *self.weights())

    def read_each(self, atoms: Tensor) -> list[Tensor]:
        """[..., d] -> one [..., width] a map, in one product each."""
        return [F.linear(atoms, *_scaled(linear, scale)) for linear, scale in self.maps]

    def write(self, channels: Sequence[Tensor]) -> Tensor:
        """One [..., width] a map -> [..., d]: the sum of the maps, in one product."""
        if len(channels) == 1:
            return F.linear(channels[0], *_scaled(*self.maps[0]))
        return F.linear(torch.cat(list(channels), -1), *self.weights())

    def write_each(self, channels: Sequence[Tensor]) -> Tensor:
        """The same in one product each, added as it is made, so that the channels are never joined."""
        first, *rest = channels
        parts = [_scaled(linear, scale) for linear, scale in self.maps]
        biases = [bias for _, bias in parts if bias is not None]
        written = F.linear(first, parts[0][0], sum(biases[1:], biases[0]) if biases else None)
        flat = written.flatten(0, -2)
        for x, (weight, _) in zip(rest, parts[1:], strict=True):
            flat = torch.addmm(flat, x.flatten(0, -2), weight.t())
        return flat.view(written.shape)

    def weights(self) -> Weights:
        """The weight and bias of the one product."""
        if self._folded is not None:
            return self._folded
        if torch.compiler.is_compiling():
            return self._join()
        if torch.is_grad_enabled():  # the parameters are about to change, and with them the joined weights
            self._kept = None
            return self._join()
        parameters = [p for linear, _ in self.maps for p in linear.parameters()]
        if any(p.is_inference() for p in parameters):
            return self._join()
        own = ((id(p), p._version, p.data_ptr(), p.dtype, p.device) for p in parameters)
        state = (_Steps.count, *own)
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, self._join())
        return self._kept[1]

    def _join(self) -> Weights:
        parts = [_scaled(linear, scale) for linear, scale in self.maps]
        weight = torch.cat([w for w, _ in parts], 0 if self.along == "outputs" else 1)
        biases = [b for _, b in parts]
        if all(b is None for b in biases):
            return weight, None
        if self.along == "outputs":
            return weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in parts])
        first, *rest = (b for b in biases if b is not None)
        return weight, sum(rest, first)


@contextmanager
def folded(model: nn.Module) -> Iterator[None]:
    """Within it every fused map of the model is one constant weight, as an export should see it."""
    fused = [module for module in model.modules() if isinstance(module, FusedLinear) and module.fuse]
    with torch.no_grad():
        for module in fused:
            module._folded = module._join()
    try:
        yield
    finally:
        for module in fused:
            module._folded = None


def fold_in(model: nn.Module, dtype: torch.dtype) -> None:
    """Make every fused map of the model constant for good, joined and scaled in its own dtype, then cast to `dtype`.

    An export in half precision rounds the folded weights once more than the parameters. This is the same rounding, for
    a reference that computes in another dtype.
    """
    for module in model.modules():
        if isinstance(module, FusedLinear) and module.fuse:
            weight, bias = module._join()
            module._folded = weight.to(dtype), None if bias is None else bias.to(dtype)


def _scaled(linear: nn.Linear, scale: float) -> Weights:
    if scale == 1.0:
        return linear.weight, linear.bias
    return linear.weight * scale, None if linear.bias is None else linear.bias * scale
