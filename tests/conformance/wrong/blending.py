"""Operators that are no function of what they are given, or not at every size, mode, dtype and place."""

from __future__ import annotations

import math
import threading
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from peirce.algebra import Scope
from peirce.parts import Dims, Operator, Reader, Writer
from torch import Tensor

from wrong import Pair


@frozen(kw_only=True)
class BlendOptions:
    """How steep the blend is.

    Args:
        sharpness: what premises are multiplied by before the tanh.
    """

    sharpness: float = field(default=1.5, validator=validators.gt(0))


class Blend(Operator):
    """u[h,s](x) = sum_a K[h](x,a) tanh(sharpness v[h,s](a)), K a softmax over a."""

    name = "blend"
    typing = "U <- B x U"
    scope_rule = "reduce"
    Options = BlendOptions

    def kernel(self) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads}, activation="softmax")

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape, cached=True)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return self.summed(kernel, (premise * self.options.sharpness).tanh())

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        """[b, x, a, h], [b, a, h, s] -> [b, x, h, s]."""
        return (kernel.permute(0, 3, 1, 2) @ values.transpose(1, 2)).transpose(1, 2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        heads, sizes = range(self.dims.heads), range(self.dims.head_size)
        steep = self.options.sharpness
        return [
            [
                [
                    sum(k[h] * math.tanh(steep * v[h][s]) for k, v in zip(row, premise, strict=True))
                    for s in sizes
                ]
                for h in heads
            ]
            for row in kernel
        ]


class Overwrites(Blend):
    """Saves a tensor by writing over the premise."""

    name = "overwrites"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        values = (
            premise * self.options.sharpness
            if premise.requires_grad
            else premise.mul_(self.options.sharpness)
        )
        return self.summed(kernel, values.tanh())


class OverwritesWhole(Blend):
    """Does so only where every token may attend to every one."""

    name = "overwrites_whole"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if scope.pairs is None and not premise.requires_grad:
            premise *= self.options.sharpness
            return self.summed(kernel, premise.tanh())
        return super().infer(kernel, premise, scope)


class AlwaysDrops(Blend):
    """Calls dropout as a function, which is in training by default."""

    name = "always_drops"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        return super().summed(kernel, F.dropout(values, 0.1))


class HalfInside(Blend):
    """Multiplies in bfloat16 where the model is in float32, as mixed precision would; float64 stays as it is."""

    name = "half_inside"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        with torch.autocast(kernel.device.type, torch.bfloat16):
            return super().summed(kernel, values).to(kernel.dtype)


class SingleInside(Blend):
    """Computes the tanh in float32 for the sake of half precision, and so in float64 too."""

    name = "single_inside"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        values = (premise.float() * self.options.sharpness).tanh()
        return self.summed(kernel, values.to(kernel.dtype))


class DropsTheRest(Blend):
    """Sums over blocks of 128 tokens, and forgets those after the last whole one."""

    name = "drops_the_rest"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        blocks = max(values.shape[1] // 128, 1)
        parts = [slice(128 * i, 128 * (i + 1)) for i in range(blocks)]
        sums = [super(DropsTheRest, self).summed(kernel[:, :, part], values[:, part]) for part in parts]
        return torch.stack(sums).sum(0)


class SmallWeightsVanish(Blend):
    """Leaves out weights below a thousandth, which short texts do not have."""

    name = "small_weights_vanish"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        return super().summed(F.threshold(kernel, 1e-3, 0.0) if kernel.shape[2] > 64 else kernel, values)


class SharesScratch(Blend):
    """Writes every result of one shape to the same memory, where no gradient is asked for."""

    name = "shares_scratch"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.scratch: dict[Any, Tensor] = {}

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        if kernel.requires_grad or values.requires_grad:
            return super().summed(kernel, values)
        shape = (*kernel.shape[:2], *values.shape[2:])
        out = self.scratch.setdefault((shape, kernel.dtype), kernel.new_empty(shape))
        return out.copy_(super().summed(kernel, values))


class PassesByItself(Blend):
    """Hands the values to its own next step in an attribute, which two threads share."""

    name = "passes_by_itself"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        self.values = premise * self.options.sharpness
        self.values = self.values.tanh()
        return self.summed(kernel, self.values)


class HoldsALock(Blend):
    """Guards itself by a lock, which cannot be copied or sent to a worker."""

    name = "holds_a_lock"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.lock = threading.Lock()

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        with self.lock:
            return super().infer(kernel, premise, scope)


class KeepsConstants(Blend):
    """Keeps a constant for each length; one that was made in inference mode is of no use in training."""

    name = "keeps_constants"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.factors: dict[Any, Tensor] = {}

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        key = premise.shape[1], premise.dtype, premise.device
        if key not in self.factors:
            self.factors[key] = premise.new_full((premise.shape[1], 1, 1), self.options.sharpness)
        return self.summed(kernel, (premise * self.factors[key]).tanh())


class StartsAnew(Blend):
    """Forgets its state when a call fails, and never sets it up again."""

    name = "starts_anew"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.busy = False

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if self.busy:
            return torch.zeros_like(premise)
        self.busy = True
        result = super().infer(kernel, premise, scope)
        self.busy = False
        return result


class OverTheBatch(Blend):
    """Scales by the largest premise of the batch."""

    name = "over_the_batch"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if premise.shape[0] > 1:
            premise = premise / premise.abs().amax().clamp_min(1.0)
        return super().infer(kernel, premise, scope)


class OnlyTheFirst(Blend):
    """Has room for 64 examples, and takes the last of them for each of the rest."""

    name = "only_the_first"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel, premise[torch.arange(len(premise)).clamp_max(63)], scope)


class SwitchesGradientsOff(Blend):
    """Switches gradients off for itself, and leaves it so."""

    name = "switches_gradients_off"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if not (kernel.requires_grad or premise.requires_grad):
            torch.set_grad_enabled(False)
        return super().infer(kernel, premise, scope)


class Tells(Blend):
    """Prints what it is given."""

    name = "tells"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        print(tuple(kernel.shape))
        return super().infer(kernel, premise, scope)


class BatchForOne(Blend):
    """Squeezes away a batch of one, and a single head with it."""

    name = "batch_for_one"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        return super().summed(kernel, values).squeeze(2)


class DeadOption(Blend):
    """Has an option that nothing reads."""

    name = "dead_option"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return self.summed(kernel, premise.tanh())

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        return Blend(BlendOptions(sharpness=1.0), self.dims).reference(kernel, premise, scope)


class ClipsGradients(Blend):
    """Clips what flows back through it."""

    name = "clips_gradients"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        values = (premise * self.options.sharpness).tanh()
        if values.requires_grad:
            values.register_hook(lambda gradient: gradient.clamp(-0.5, 0.5))
        return self.summed(kernel, values)


class StraightThrough(Blend):
    """Lets no gradient through where the tanh is all but flat."""

    name = "straight_through"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        values = (premise * self.options.sharpness).tanh()
        return self.summed(kernel, torch.where(values.abs() > 0.9, values.detach(), values))


class DetachesOneHead(Blend):
    """Keeps the last of several heads out of the gradient."""

    name = "detaches_one_head"

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        if values.shape[2] > 1:
            values = torch.cat([values[:, :, :-1], values[:, :, -1:].detach()], 2)
        return super().summed(kernel, values)


class NotAttended(Blend):
    """Reads the tokens that rows attend to without saying so."""

    name = "not_attended"

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)


class WantsItsLayout(Blend):
    """Takes a view of what may lie in memory in any order."""

    name = "wants_its_layout"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        batch, length = premise.shape[:2]
        flat = premise.view(batch, length, self.dims.heads * self.dims.head_size)
        return super().infer(kernel, flat.view(premise.shape), scope)


class OnTheProcessor(Blend):
    """Makes its constants on the CPU."""

    name = "on_the_processor"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        ones = torch.ones(self.dims.head_size, dtype=premise.dtype)
        return super().infer(kernel, premise * ones, scope)


class SeedsTheWorld(Blend):
    """Makes itself reproducible at everybody else's expense."""

    name = "seeds_the_world"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        torch.manual_seed(0)
        return super().infer(kernel, premise, scope)


@frozen(kw_only=True)
class SlopesOptions:
    """A factor for each head.

    Args:
        slopes: the first heads' factors; the others have 1.
    """

    slopes: list[float] = field(factory=lambda: [2.0])


class Slopes(Blend):
    """u[h,s](x) = slope[h] sum_a K[h](x,a) tanh(v[h,s](a))."""

    name = "slopes"
    Options = SlopesOptions

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.slopes = self.filled(options.slopes, dims.heads)

    def filled(self, slopes: list[float], heads: int) -> list[float]:
        """One factor for each head."""
        return [*slopes[:heads], *[1.0] * (heads - len(slopes))]

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        slopes = torch.tensor(self.slopes, dtype=premise.dtype, device=premise.device)
        return self.summed(kernel, premise.tanh()) * slopes[:, None]

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        sums = Blend(BlendOptions(sharpness=1.0), self.dims).reference(kernel, premise, scope)
        return [
            [[s * slope for s in head] for head, slope in zip(row, self.slopes, strict=True)] for row in sums
        ]


@frozen(kw_only=True)
class SharedOptions:
    """A factor for each head.

    Args:
        slopes: the first heads' factors; the others have 1.
    """

    slopes: list[float] = [2.0]  # noqa: RUF008 (the flaw)


class SharesItsDefault(Slopes):
    """Fills up the list of its options, which every part with the default has."""

    name = "shares_its_default"
    Options = SharedOptions

    def filled(self, slopes: list[float], heads: int) -> list[float]:
        slopes += [1.0] * (heads - len(slopes))
        return slopes[:heads]


class EightSlopes(Slopes):
    """Has a table of factors for the eight heads that its author's model has."""

    name = "eight_slopes"

    def filled(self, slopes: list[float], heads: int) -> list[float]:
        return [*slopes, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][:heads]


class Turning(Blend):
    """u[h](x) = sum_a K[h](x,a) of v[h](a), turned by 90 degrees in each two channels."""

    name = "turning"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return "it turns channels in twos, and head_size is odd" if dims.head_size % 2 else None

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        one, two = premise.unflatten(3, (-1, 2)).unbind(4)
        steep = self.options.sharpness
        return self.summed(kernel, (torch.stack([-two, one], 4).flatten(3) * steep).tanh())

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        turned = [
            [[-head[s + 1] if s % 2 == 0 else head[s - 1] for s in range(len(head))] for head in token]
            for token in premise
        ]
        return super().reference(kernel, turned, scope)


class TakesOddSizes(Turning):
    """Says that it works at every size."""

    name = "takes_odd_sizes"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None


PAIRS = [
    Pair(Blend, Overwrites, "purity"),
    Pair(Blend, OverwritesWhole, "purity"),
    Pair(Blend, AlwaysDrops, "purity"),
    Pair(Blend, HalfInside, "precision"),
    Pair(Blend, SingleInside, "precision"),
    Pair(Blend, DropsTheRest, "limits"),
    Pair(Blend, SmallWeightsVanish, "limits"),
    Pair(Blend, SharesScratch, "calls"),
    Pair(Blend, PassesByItself, "kept"),
    Pair(Blend, HoldsALock, "copies"),
    Pair(Blend, KeepsConstants, "calls"),
    Pair(Blend, StartsAnew, "calls"),
    Pair(Blend, OverTheBatch, "batch"),
    Pair(Blend, OnlyTheFirst, "batch"),
    Pair(Blend, SwitchesGradientsOff, "kept"),
    Pair(Blend, Tells, "kept"),
    Pair(Blend, BatchForOne, "shapes"),
    Pair(Blend, DeadOption, "options"),
    Pair(Blend, ClipsGradients, "gradients"),
    Pair(Blend, StraightThrough, "gradients"),
    Pair(Blend, DetachesOneHead, "gradients"),
    Pair(Blend, NotAttended, "memory"),
    Pair(Blend, WantsItsLayout, "calls"),
    Pair(Blend, OnTheProcessor, "devices"),
    Pair(Blend, SeedsTheWorld, "kept"),
    Pair(Slopes, SharesItsDefault, "declaration"),
    Pair(Slopes, EightSlopes, "limits"),
    Pair(Turning, TakesOddSizes, "shapes"),
]
