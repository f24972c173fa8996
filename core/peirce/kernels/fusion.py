"""Several linear maps as one matrix product, while each keeps its own parameters.

A fused map reads all the channels that a stage takes from one branch in one product, or writes all that it gives to
one branch in one. In inference the concatenated weights are kept until an optimizer steps or a parameter changes. Where
gradients are wanted each pass concatenates them, so that gradients reach every parameter. For an export
`constant_weights` makes the concatenated weights constant.

Maps of [b, x, 8] atoms to 4 and 6 channels have weights [4, 8] and [6, 8]. Read together, they are one [10, 8], and the
product's [b, x, 10] is cut into [b, x, 4] and [b, x, 6]. Written together, maps of [b, x, 4] and [b, x, 6] channels to
[b, x, 8] have weights [8, 4] and [8, 6]; they are one [8, 10] on the joined [b, x, 10], and the product adds up what
each would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Generic, Literal, TypeVar, cast, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

Weights = tuple[Tensor, Tensor | None]
T = TypeVar("T")


class _StepCounter:
    """Counts the steps that the optimizers of this process make.

    Fused optimizers write to parameters without raising their versions, so versions alone do not show a change.
    """

    def __init__(self) -> None:
        self.count = 0
        register_optimizer_step_post_hook(self._add)

    def _add(self, *step: object) -> None:
        self.count += 1


@cache
def _step_counter() -> _StepCounter:
    """The counter of this process, which begins where a model's first cache is filled."""
    return _StepCounter()


@final
class Cache(Generic[T]):
    """A value computed from some tensors, kept in inference until one of them changes or an optimizer steps."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Compute it anew next time, as where a model changes its dtype or device."""
        self._state: object = None
        self._value: T | None = None

    def get(self, tensors: Iterable[Tensor | None], make: Callable[[], T]) -> T:
        """What `make` returns, which depends on these tensors alone."""
        if torch.compiler.is_compiling():
            return make()
        if torch.is_grad_enabled():  # parameters are about to change
            self.clear()
            return make()
        try:
            state = [_step_counter().count]
            for tensor in tensors:
                if tensor is not None:
                    state += (id(tensor), tensor._version, tensor.data_ptr())
        except RuntimeError:  # parameters that were made in inference mode have no version
            return make()
        if self._value is None or self._state != state:
            self._state, self._value = state, make()
        return self._value


@final
class FusedLinear(nn.Module):
    """Linear maps of one input into concatenated outputs, or of concatenated inputs into one summed output.

    Args:
        maps: the modules that own the maps, what the maps are called there, and a factor on each result. A map that
            another replaces there, such as an adapter around it, is replaced here.
        along: `outputs` for maps that read one input, `inputs` for maps whose results are added.
        fuse: whether the maps become one product; otherwise `constant_weights` leaves them apart, as their stage does.
    """

    def __init__(
        self,
        maps: Sequence[tuple[nn.Module, str, float]],
        along: Literal["outputs", "inputs"],
        *,
        fuse: bool = True,
    ) -> None:
        super().__init__()
        self._owners = tuple(maps)  # a tuple registers nothing: the parameters keep their owners' names
        self.along = along
        self.fuse = fuse
        self.widths = [
            linear.out_features if along == "outputs" else linear.in_features for linear, _ in self.maps
        ]
        self._cache = Cache[Weights]()
        self._constant: Weights | None = None

    @property
    def maps(self) -> list[tuple[nn.Linear, float]]:
        """The maps as they are now, each with its factor."""
        return [(cast(nn.Linear, owner._modules[name]), scale) for owner, name, scale in self._owners]

    def is_plain(self) -> bool:
        """Whether each map is what its weight says and no more; one with a hook, or parametrized, must be called."""
        return all(
            type(linear) is nn.Linear
            and not (linear._forward_hooks or linear._forward_pre_hooks)
            and not (linear._backward_hooks or linear._backward_pre_hooks)
            for linear, _ in self.maps
        )

    def call_each(self, inputs: Iterable[Tensor]) -> list[Tensor]:
        """The results of the maps as modules, of an input each, with their hooks."""
        return [linear(each) * scale for (linear, scale), each in zip(self.maps, inputs, strict=True)]

    def read(self, atoms: Tensor) -> Sequence[Tensor]:
        """[..., d] -> one [..., width] a map, in one product unless they are not fused."""
        if not self.is_plain():
            return self.call_each([atoms] * len(self.maps))
        if self.fuse:
            return F.linear(atoms, *self.weights()).split_with_sizes(self.widths, -1)
        return [F.linear(atoms, *_scaled_weights(linear, scale)) for linear, scale in self.maps]

    def write_each(self, channels: Sequence[Tensor]) -> Tensor:
        """The sum of the maps' results, one product a map: in training neither weights nor channels are joined."""
        first, *rest = channels
        if not self.is_plain():
            return torch.stack(self.call_each(channels)).sum(0)
        if not rest:
            return F.linear(first, *self.weights())
        parts = [_scaled_weights(linear, scale) for linear, scale in self.maps]
        biases = [bias for _, bias in parts if bias is not None]
        total = F.linear(first.flatten(0, -2), parts[0][0], sum(biases[1:], biases[0]) if biases else None)
        for each, (weight, _) in zip(rest, parts[1:], strict=True):
            total = torch.addmm(total, each.flatten(0, -2), weight.t())
        return total.view(*first.shape[:-1], -1)

    def weights(self) -> Weights:
        """The weight and bias of the one product."""
        if self._constant is not None:
            return self._constant
        maps = self.maps
        if len(maps) == 1 and maps[0][1] == 1.0:
            return maps[0][0].weight, maps[0][0].bias
        parameters = (p for linear, _ in maps for p in linear._parameters.values())
        return self._cache.get(parameters, self._join)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusedLinear:
        """Forget the joined weights where a model changes its dtype or device."""
        self._cache.clear()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _join(self) -> Weights:
        parts = [_scaled_weights(linear, scale) for linear, scale in self.maps]
        weight = torch.cat([w for w, _ in parts], 0 if self.along == "outputs" else 1)
        biases = [b for _, b in parts]
        if all(b is None for b in biases):
            return weight, None
        if self.along == "outputs":
            return weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in parts])
        first, *rest = (b for b in biases if b is not None)
        return weight, sum(rest, first)


def write_channels(
    channels: Sequence[Tensor], weight: Tensor, bias: Tensor | None, *, joined: bool
) -> Tensor:
    """The sum of maps of different channels.

    Args:
        channels: one [..., width] a map.
        weight: [d, sum of widths], as `FusedLinear.weights` gives it.
        bias: [d].
        joined: in one product; otherwise one each, added as it is made, so that the channels are never joined.

    Returns:
        [..., d].
    """
    if len(channels) == 1 or joined:
        return F.linear(channels[0] if len(channels) == 1 else torch.cat(list(channels), -1), weight, bias)
    first, *rest = channels
    first_weight, *others = weight.split_with_sizes([each.shape[-1] for each in channels], 1)
    total = F.linear(first.flatten(0, -2), first_weight, bias)
    for each, other in zip(rest, others, strict=True):
        total.addmm_(
            each.flatten(0, -2).to(total.dtype), other.to(total.dtype).t()
        )  # autocast leaves it alone
    return total.view(*first.shape[:-1], -1)


@contextmanager
def constant_weights(model: nn.Module) -> Iterator[None]:
    """Within it every fused map of the model is one constant weight, as an export should see it."""
    fused = [module for module in model.modules() if isinstance(module, FusedLinear) and module.fuse]
    with torch.no_grad():
        for module in fused:
            module._constant = module._join()
    try:
        yield
    finally:
        for module in fused:
            module._constant = None


def make_weights_constant(model: nn.Module, dtype: torch.dtype) -> None:
    """Make every fused map of the model constant for good, joined and scaled in its own dtype, then cast to `dtype`.

    An export in half precision rounds the folded weights once more than the parameters. This is the same rounding, for
    a reference that computes in another dtype.
    """
    for module in model.modules():
        if isinstance(module, FusedLinear) and module.fuse:
            weight, bias = module._join()
            module._constant = weight.to(dtype), None if bias is None else bias.to(dtype)


def _scaled_weights(linear: nn.Linear, scale: float) -> Weights:
    if scale == 1.0:
        return linear.weight, linear.bias
    return linear.weight * scale, None if linear.bias is None else linear.bias * scale
