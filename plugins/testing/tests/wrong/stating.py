"""State operators that keep, leak, or lose what they have parameters for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.parts import Dims, StateOperator
from wrong import flaw, flawed, wrong


@frozen(kw_only=True)
class MillOptions:
    """How much of the context is added."""

    share: float = field(default=0.5, validator=validators.gt(0))


class Mill(StateOperator):
    """u(x) += W tanh(V u(x)) + share * the mean of C u(y,x) over the scope of x, and u(x,y) += tanh(R u(y,x))."""

    name = "mill"
    typing = "UB <- UB"
    scope_rule = "reduce"
    Options = MillOptions

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.share = options.share
        self.rate = dims.dropout
        self.inner = nn.Linear(dims.unary, dims.feedforward_unary)
        self.outer = nn.Linear(dims.feedforward_unary, dims.unary)
        self.relations = nn.Linear(dims.binary, dims.binary) if dims.binary else None
        self.gathered = nn.Linear(dims.binary, dims.unary, bias=False) if dims.binary else None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        unary, pairs = self.hidden(state.unary), None
        if state.binary is not None and self.relations is not None and self.gathered is not None:
            turned = self.turned(state.binary, scope)
            pairs = self.relations(turned).tanh()
            sums = self.gathered(scope.zero_binary(turned).sum(2))
            unary = unary + self.share * sums / self.count(state.binary, scope)
        return Predicates(unary, pairs)

    def hidden(self, unary: Tensor) -> Tensor:
        """[b, x, d1] -> [b, x, d1]."""
        return self.outer(F.dropout(self.inner(unary).tanh(), self.rate, self.training))

    def count(self, binary: Tensor, scope: Scope) -> Tensor:
        """How many tokens each row may attend to, [b or 1, x or 1, 1]."""
        if scope.pairs is None:
            return binary.new_full((1, 1, 1), binary.shape[2])
        return scope.pairs.sum(2, keepdim=True).clamp_min(1).to(binary.dtype)

    def turned(self, binary: Tensor, scope: Scope) -> Tensor:
        """u(y, x) in the place of u(x, y)."""
        return scope.converse(binary)


flaw(
    Mill, "padding", "mean_with_padding", "Divides by the number of tokens, padding included.",
    count=lambda self, binary, scope: binary.new_full((1, 1, 1), binary.shape[2]),
)  # fmt: skip


@wrong("modes")
class NormsTheBatch(Mill):
    """Normalises over the batch in training, and by what it then saw in evaluation."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.norm = nn.BatchNorm1d(dims.unary)

    def hidden(self, unary: Tensor) -> Tensor:
        return self.norm(super().hidden(unary).transpose(1, 2)).transpose(1, 2)


@wrong("state_dict")
class KeepsAList(Mill):
    """Keeps its maps in a list, where no state dict finds them."""

    name = "keeps_a_list"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.more = [nn.Linear(dims.unary, dims.unary).to(torch.float64)]

    def hidden(self, unary: Tensor) -> Tensor:
        return super().hidden(unary) + self.more[0].to(unary.dtype)(unary)


@wrong("purity")
class Iterates(Mill):
    """Estimates the norm of a map by one step of power iteration in each call, in evaluation too."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.direction: Tensor
        self.register_buffer("direction", F.normalize(torch.randn(dims.unary), dim=0))

    def hidden(self, unary: Tensor) -> Tensor:
        with torch.no_grad():
            turned = self.outer.weight @ (self.outer.weight.T @ self.direction)
            self.direction.copy_(F.normalize(turned, dim=0))
        return super().hidden(unary) * self.direction


flaw(
    Mill, "purity", "cuts_in_place", "Cuts off what is negative in the atoms that it was given.",
    hidden=lambda self, unary: Mill.hidden(self, unary if unary.requires_grad else unary.relu_()),
)  # fmt: skip


@flawed(Mill, "__init__", "gradients")
def learns_nothing_there(self: Mill, options: Any, dims: Dims) -> None:
    """Has a map that nothing reads."""
    Mill.__init__(self, options, dims)
    self.gate = nn.Linear(dims.unary, dims.unary)


flaw(
    Mill, "purity", "drops_out_always", "Drops out whether it is trained or not.",
    hidden=lambda self, unary: self.outer(F.dropout(self.inner(unary).tanh(), 0.1, True)),
)  # fmt: skip
flaw(
    Mill, "modes", "never_drops_out",
    "Scales in training what it would drop, and so computes another function than in evaluation.",
    hidden=lambda self, unary: Mill.hidden(self, unary) * (0.9 if self.training else 1.0),
)  # fmt: skip
flaw(
    Mill, "memory", "transposes_rows",
    "Takes the transpose for the converse, which it is where every token is a row.",
    turned=lambda self, binary, scope: binary.transpose(1, 2),
)  # fmt: skip


@flawed(Mill, "hidden", "modes")
def drops_only_with_gradients(self: Mill, unary: Tensor) -> Tensor:
    """Drops nothing without gradients, as in the first pass of a layer that is recomputed."""
    rate = self.rate if torch.is_grad_enabled() else 0.0
    return self.outer(F.dropout(self.inner(unary).tanh(), rate, self.training))


flaw(
    Mill, "modes", "drops_by_its_own_rate", "Drops out a tenth, whatever the rate is.",
    hidden=lambda self, unary: self.outer(
        F.dropout(self.inner(unary).tanh(), 0.1 if self.rate else 0.0, self.training)
    ),
)  # fmt: skip
flaw(
    Mill, "compiled", "forgets_the_tanh_when_compiled", "Has another way under torch.compile, which is not the same.",
    hidden=lambda self, unary: (
        self.outer(self.inner(unary)) if torch.compiler.is_compiling() else Mill.hidden(self, unary)
    ),
)  # fmt: skip


class Weighed(Mill):
    """The mill, which adds the mean square of its hidden values to the loss."""

    name = "weighed"
    lost: Tensor | None = None

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        if self.training:
            self.lost = self.mean(self.inner(state.unary).square().mean(2), scope.tokens)
        return super().forward(state, scope)

    def mean(self, each: Tensor, real: Tensor | None) -> Tensor:
        """[b, x], over the real tokens."""
        return each.mean() if real is None else (each * real).sum() / real.sum().clamp_min(1)

    def terms(self) -> dict[str, Tensor]:
        lost, self.lost = self.lost, None
        return {} if lost is None else {"squares": lost}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lost": None}


flaw(
    Weighed, "terms", "weighs_padding", "Takes the mean over padding too.",
    mean=lambda self, each, real: each.mean(),
)  # fmt: skip
flaw(
    Weighed, "terms", "weighs_nothing", "Divides zero by zero where all is padding.",
    mean=lambda self, each, real: each.mean() if real is None else (each * real).sum() / real.sum(),
)  # fmt: skip
flaw(
    Weighed, "terms", "weighs_each_token", "Leaves the mean to whoever trains.",
    mean=lambda self, each, real: each,
)  # fmt: skip
flaw(
    Weighed, "gradients", "weighs_for_show", "Adds to the loss what nothing is trained by.",
    mean=lambda self, each, real: Weighed.mean(self, each, real).detach(),
)  # fmt: skip


@wrong("modes")
class RemembersItsSteps(Mill):
    """Adds what it sees in training to a buffer that no state dict has."""

    seen: Tensor

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.register_buffer("seen", torch.zeros(0), persistent=False)

    def hidden(self, unary: Tensor) -> Tensor:
        if self.training:
            self.seen = torch.cat([self.seen, unary.detach().flatten()])
        return super().hidden(unary)


@wrong("modes")
class ListsItsSteps(Mill):
    """Keeps the sizes that it sees in training, each in a tensor."""

    def hidden(self, unary: Tensor) -> Tensor:
        if self.training:
            self.__dict__.setdefault("steps", []).append(torch.tensor(unary.shape))
        return super().hidden(unary)
