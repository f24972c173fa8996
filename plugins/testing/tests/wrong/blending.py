"""Operators that are no function of what they are given, or not at every size, mode, dtype and place."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, Operator, Reader, Writer
from wrong import exact, flaw, flawed, wrong


@frozen(kw_only=True)
class BlendOptions:
    """How steep the blend is."""

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
        values = steep(self, exact(premise)).tanh()
        return torch.stack([(row[..., None] * values).sum(0) for row in exact(kernel)]).tolist()


def steep(part: Blend, premise: Tensor) -> Tensor:
    """The premise times the sharpness."""
    return premise * part.options.sharpness


@flawed(Blend, "infer", "purity")
def overwrites(self: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    """Saves a tensor by writing over the premise."""
    if not premise.requires_grad:
        premise.mul_(self.options.sharpness)
        return self.summed(kernel, premise.tanh())
    return Blend.infer(self, kernel, premise, scope)


flaw(
    Blend, "purity", "overwrites_whole", "Does so only where every token may attend to every one.",
    infer=lambda self, kernel, premise, scope: (
        Blend if scope.pairs is not None else overwrites
    ).infer(self, kernel, premise, scope),
)  # fmt: skip
flaw(
    Blend, "purity", "always_drops", "Calls dropout as a function, which is in training by default.",
    summed=lambda self, kernel, values: Blend.summed(self, kernel, F.dropout(values, 0.1)),
)  # fmt: skip


@flawed(Blend, "summed", "precision")
def half_inside(self: Blend, kernel: Tensor, values: Tensor) -> Tensor:
    """Multiplies in bfloat16 where the model is in float32, as mixed precision would; float64 stays as it is."""
    with torch.autocast(kernel.device.type, torch.bfloat16):
        return Blend.summed(self, kernel, values).to(kernel.dtype)


flaw(
    Blend, "precision", "single_inside",
    "Computes the tanh in float32 for the sake of half precision, and so in float64 too.",
    infer=lambda self, kernel, premise, scope: self.summed(
        kernel, steep(self, premise.float()).tanh().to(kernel.dtype)
    ),
)  # fmt: skip


@flawed(Blend, "summed", "limits")
def drops_the_rest(self: Blend, kernel: Tensor, values: Tensor) -> Tensor:
    """Sums over blocks of 128 tokens, and forgets those after the last whole one."""
    blocks = max(values.shape[1] // 128, 1)
    parts = [slice(128 * i, 128 * (i + 1)) for i in range(blocks)]
    return torch.stack([Blend.summed(self, kernel[:, :, part], values[:, part]) for part in parts]).sum(0)


flaw(
    Blend, "limits", "small_weights_vanish",
    "Leaves out weights below a thousandth, which short texts do not have.",
    summed=lambda self, kernel, values: Blend.summed(
        self, F.threshold(kernel, 1e-3, 0.0) if kernel.shape[2] > 64 else kernel, values
    ),
)  # fmt: skip


@wrong("calls")
class SharesScratch(Blend):
    """Writes every result of one shape to the same memory, where no gradient is asked for."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.scratch: dict[Any, Tensor] = {}

    def summed(self, kernel: Tensor, values: Tensor) -> Tensor:
        if kernel.requires_grad or values.requires_grad:
            return super().summed(kernel, values)
        shape = (*kernel.shape[:2], *values.shape[2:])
        out = self.scratch.setdefault((shape, kernel.dtype), kernel.new_empty(shape))
        return out.copy_(super().summed(kernel, values))


@flawed(Blend, "infer", "purity")
def passes_by_itself(self: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    """Hands the values to its own next step in an attribute, which two threads share."""
    self.values = premise * self.options.sharpness
    self.values = self.values.tanh()
    return self.summed(kernel, self.values)


@wrong("calls")
class HoldsALock(Blend):
    """Guards itself by a lock, which cannot be copied or sent to a worker."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.lock = threading.Lock()

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        with self.lock:
            return super().infer(kernel, premise, scope)


@wrong("calls")
class KeepsConstants(Blend):
    """Keeps a constant for each length; one that was made in inference mode is of no use in training."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.factors: dict[Any, Tensor] = {}

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        key = premise.shape[1], premise.dtype, premise.device
        if key not in self.factors:
            self.factors[key] = premise.new_full((premise.shape[1], 1, 1), self.options.sharpness)
        return self.summed(kernel, (premise * self.factors[key]).tanh())


@wrong("calls")
class StartsAnew(Blend):
    """Forgets its state when a call fails, and never sets it up again."""

    busy = False

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if self.busy:
            return torch.zeros_like(premise)
        self.busy = True
        result = super().infer(kernel, premise, scope)
        self.busy = False
        return result


def scaled_over_the_batch(part: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    if len(premise) > 1:
        premise = premise / premise.abs().amax().clamp_min(1.0)
    return Blend.infer(part, kernel, premise, scope)


def without_gradients(part: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    if not (kernel.requires_grad or premise.requires_grad):
        torch.set_grad_enabled(False)
    return Blend.infer(part, kernel, premise, scope)


flaw(
    Blend, "batch", "over_the_batch", "Scales by the largest premise of the batch.", infer=scaled_over_the_batch
)  # fmt: skip
flaw(
    Blend, "batch", "only_the_first",
    "Has room for 64 examples, and takes the last of them for each of the rest.",
    infer=lambda self, kernel, premise, scope: Blend.infer(
        self, kernel, premise[torch.arange(len(premise)).clamp_max(63)], scope
    ),
)  # fmt: skip
flaw(
    Blend, "purity", "switches_gradients_off", "Switches gradients off for itself, and leaves it so.",
    infer=without_gradients,
)  # fmt: skip
flaw(
    Blend, "shapes", "batch_for_one", "Squeezes away a batch of one, and a single head with it.",
    summed=lambda self, kernel, values: Blend.summed(self, kernel, values).squeeze(2),
)  # fmt: skip
flaw(
    Blend, "options", "dead_option", "Has an option that nothing reads.",
    infer=lambda self, kernel, premise, scope: self.summed(kernel, premise.tanh()),
    reference=lambda self, *given: Blend(BlendOptions(sharpness=1.0), self.dims).reference(*given),
)  # fmt: skip


@flawed(Blend, "infer", "gradients")
def clips_gradients(self: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    """Clips what flows back through it."""
    values = (premise * self.options.sharpness).tanh()
    if values.requires_grad:
        values.register_hook(lambda gradient: gradient.clamp(-0.5, 0.5))
    return self.summed(kernel, values)


flaw(
    Blend, "gradients", "straight_through", "Lets no gradient through where the tanh is all but flat.",
    summed=lambda self, kernel, values: Blend.summed(
        self, kernel, torch.where(values.abs() > 0.9, values.detach(), values)
    ),
)  # fmt: skip


@flawed(Blend, "summed", "gradients")
def detaches_one_head(self: Blend, kernel: Tensor, values: Tensor) -> Tensor:
    """Keeps the last of several heads out of the gradient."""
    if values.shape[2] > 1:
        values = torch.cat([values[:, :, :-1], values[:, :, -1:].detach()], 2)
    return Blend.summed(self, kernel, values)


flaw(
    Blend, "memory", "not_attended", "Reads the tokens that rows attend to without saying so.",
    premise=lambda self: Reader(branch="U", shape=self.output().shape),
)  # fmt: skip
flaw(
    Blend, "calls", "wants_its_layout", "Takes a view of what may lie in memory in any order.",
    infer=lambda self, kernel, premise, scope: Blend.infer(
        self, kernel, premise.view(*premise.shape[:2], -1).view(premise.shape), scope
    ),
)  # fmt: skip
flaw(
    Blend, "devices", "on_the_processor", "Makes its constants on the CPU.",
    infer=lambda self, kernel, premise, scope: Blend.infer(
        self, kernel, premise * torch.ones(self.dims.head_size, dtype=premise.dtype), scope
    ),
)  # fmt: skip


@flawed(Blend, "infer", "purity")
def seeds_the_world(self: Blend, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
    """Makes itself reproducible at everybody else's expense."""
    torch.manual_seed(0)
    return Blend.infer(self, kernel, premise, scope)


@frozen(kw_only=True)
class SlopesOptions:
    """A factor for each head."""

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
        sums = exact(Blend(BlendOptions(sharpness=1.0), self.dims).reference(kernel, premise, scope))
        return (sums * exact(self.slopes)[:, None]).tolist()


@frozen(kw_only=True)
class SharedOptions:
    """A factor for each head."""

    slopes: list[float] = [2.0]  # noqa: RUF008 (the flaw)


@wrong("declaration")
class SharesItsDefault(Slopes):
    """Fills up the list of its options, which every part with the default has."""

    Options = SharedOptions

    def filled(self, slopes: list[float], heads: int) -> list[float]:
        slopes += [1.0] * (heads - len(slopes))
        return slopes[:heads]


flaw(
    Slopes, "limits", "eight_slopes", "Has a table of factors for the eight heads that its author's model has.",
    filled=lambda self, slopes, heads: [*slopes, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][:heads],
)  # fmt: skip


class Turning(Blend):
    """u[h](x) = sum_a K[h](x,a) of v[h](a), turned by 90 degrees in each two channels."""

    name = "turning"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return "it turns channels in twos, and head_size is odd" if dims.head_size % 2 else None

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel, self.turned(premise), scope)

    def turned(self, premise: Tensor) -> Tensor:
        """[..., s] -> [..., s]."""
        one, two = premise.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([-two, one], -1).flatten(-2)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        return super().reference(kernel, self.turned(exact(premise)).tolist(), scope)


flaw(
    Turning, "shapes", "takes_odd_sizes", "Says that it works at every size.",
    check=classmethod(lambda cls, options, dims, scope: None),
)  # fmt: skip


flaw(
    Blend, "compiled", "steep_unless_compiled", "Leaves its sharpness out under torch.compile.",
    infer=lambda self, kernel, premise, scope: self.summed(
        kernel, (premise if torch.compiler.is_compiling() else steep(self, premise)).tanh()
    ),
)  # fmt: skip
