"""Architectures that see, save, cache, give or take something else than they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.algebra import Scope
from peirce.kernels import Rotation
from peirce.networks import TokenInput
from peirce.parts import Encoded, Plan, Tokens
from peirce_testing.stub_parts import Host, HostDims
from wrong import flaw, flawed, wrong

Given = frozenset[Literal["pooled", "binary", "past"]]


@frozen(kw_only=True)
class TowerOptions:
    """What comes after the layers."""

    stretch: float = field(default=1.5, validator=validators.gt(0))


class Tower(Host):
    """The least network that holds any part, its final atoms stretched and shifted by a learned vector."""

    name = "tower"
    Options = TowerOptions

    def __init__(self, options: Any, plan: Plan) -> None:
        super().__init__(options, plan)
        self.stretch = options.stretch
        self.shift = nn.Parameter(torch.zeros(plan.dims.unary))

    def begin(self) -> None:
        with torch.no_grad():
            self.shift.fill_(0.25)

    def _encoded(self, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
        encoded, kept = super()._encoded(tokens, cache)
        unary = encoded.scope.zero_unary(self.ended(encoded, tokens))
        return encoded._replace(unary=unary), kept

    def ended(self, encoded: Encoded, tokens: Tokens) -> Tensor:
        """The final atoms, [b, x, d1]."""
        return encoded.unary * self.stretch + self.shift


@flawed(Tower, "ended", "no_look_ahead")
def sees_the_end(self: Tower, encoded: Encoded, tokens: Tokens) -> Tensor:
    """Adds the mean of all real tokens to each, in causal scopes too."""
    count = encoded.unary.shape[1] if tokens.real is None else tokens.rows(tokens.real).sum(1)[:, None, None]
    return Tower.ended(self, encoded, tokens) + encoded.unary.sum(1, keepdim=True) / count


@flawed(Tower, "_encoded", "padding")
def averages_padding(self: Tower, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
    """Pools over the length, padding included."""
    encoded, kept = Tower._encoded(self, tokens, cache)
    return encoded._replace(pooled=encoded.unary.mean(1).tanh()), kept


@wrong("save_load")
class LosesItsStart(Tower):
    """Keeps what it begins with in an attribute, which no file has."""

    begun = 0.0

    def begin(self) -> None:
        self.begun = 0.25

    def ended(self, encoded: Encoded, tokens: Tokens) -> Tensor:
        return super().ended(encoded, tokens) + self.begun


@wrong("places")
class PromisesAPooler(Tower):
    """Gives no pooled output, and says that it does."""

    name = "promises_a_pooler"

    def outputs(self) -> Any:
        return super().outputs()[:2]

    def _encoded(self, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
        encoded, kept = super()._encoded(tokens, cache)
        return encoded._replace(pooled=None), kept


@wrong("shapes")
class SaysAnotherWidth(Tower):
    """Tells heads that its pooled output is wider than it is."""

    @classmethod
    def sizes(cls, options: Any, dims: Any) -> Mapping[str, int]:
        return {**super().sizes(options, dims), "pooled": dims.unary + 1}


@flawed(Tower, "__init__", "options")
def stretches_nothing(self: Tower, options: Any, plan: Plan) -> None:
    """Has an option that nothing reads."""
    Tower.__init__(self, TowerOptions(), plan)


@flawed(Tower, "_encoded", "memory")
def forgets_the_cache(self: Tower, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
    """Infers new tokens as if none stood before them."""
    if cache:
        cache = {
            name: torch.zeros_like(kept) if kept.is_floating_point() else kept for name, kept in cache.items()
        }
    return Tower._encoded(self, tokens, cache)


flaw(
    Tower, "purity", "drops_at_the_end", "Drops out of its final atoms in evaluation too.",
    ended=lambda self, encoded, tokens: torch.dropout(Tower.ended(self, encoded, tokens), 0.1, True),
)  # fmt: skip
flaw(
    Tower, "modes", "trains_differently", "Leaves its shift out of training.",
    ended=lambda self, encoded, tokens: (
        encoded.unary * self.stretch if self.training else Tower.ended(self, encoded, tokens)
    ),
)  # fmt: skip


@wrong("gradients")
class CutsTheLayersOff(Tower):
    """Lets no gradient into its layers, as when one forgets to unfreeze them."""

    def ended(self, encoded: Encoded, tokens: Tokens) -> Tensor:
        return super().ended(encoded._replace(unary=encoded.unary.detach()), tokens)

    def _encoded(self, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
        encoded, kept = super()._encoded(tokens, cache)
        assert encoded.binary is not None
        assert encoded.pooled is not None
        return encoded._replace(binary=encoded.binary.detach(), pooled=encoded.pooled.detach()), kept


@flawed(Tower, "ended", "scopes")
def takes_prefixes(self: Tower, encoded: Encoded, tokens: Tokens) -> Tensor:
    """Says that it works in prefix scopes, and stops when it meets one."""
    if "prefix_length" in tokens.inputs:
        raise NotImplementedError("prefix scopes")
    return Tower.ended(self, encoded, tokens)


@flawed(Tower, "_encoded", "scopes")
def ignores_relations(self: Tower, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
    """Takes relation scopes, and lets every token attend to every one in them."""
    if "relation" in tokens.inputs:
        whole = {**tokens.inputs, "relation": torch.ones_like(tokens.inputs["relation"])}
        tokens = Tokens(whole, tokens.real, tokens.index, tokens.length, tokens.before)
    return Tower._encoded(self, tokens, cache)


class _TurnsNothing(TokenInput):
    def rotations(self, tokens: Tokens) -> list[tuple[Rotation, ...]]:
        return [()] * self.plan.dims.layers


class _TurnsFromTheStart(TokenInput):
    def rotations(self, tokens: Tokens) -> list[tuple[Rotation, ...]]:
        first = tokens.rows(tokens.index)[:, :1]
        return super().rotations(replace(tokens, index=tokens.index - first))


@flawed(Tower, "__init__", "places")
def turns_nothing(self: Tower, options: Any, plan: Plan) -> None:
    """Has the place of rotary positions, and never asks them."""
    Tower.__init__(self, options, plan)
    self.input = _TurnsNothing(plan, sorted(self.places))


@flawed(Tower, "__init__", "memory")
def turns_from_the_start(self: Tower, options: Any, plan: Plan) -> None:
    """Turns new tokens as if none stood before them."""
    Tower.__init__(self, options, plan)
    self.input = _TurnsFromTheStart(plan, sorted(self.places))


@flawed(Tower, "_encoded", "scopes")
def tells_heads_another_scope(
    self: Tower, tokens: Tokens, cache: Any = None
) -> tuple[Encoded, dict[str, Tensor]]:
    """Tells heads that every token sees every one."""
    encoded, kept = Tower._encoded(self, tokens, cache)
    return encoded._replace(scope=Scope.padding(tokens.real)), kept


flaw(
    Tower, "modes", "drops_in_evaluation_too", "Calls dropout as a function, which is in training by default.",
    ended=lambda self, encoded, tokens: torch.dropout(
        Tower.ended(self, encoded, tokens), self.dims.dropout, True
    ),
)  # fmt: skip


@flawed(Tower, "_encoded", "scopes")
def shows_padding(self: Tower, tokens: Tokens, cache: Any = None) -> tuple[Encoded, dict[str, Tensor]]:
    """Tells heads that padding is text."""
    encoded, kept = Tower._encoded(self, tokens, cache)
    plain = not encoded.scope.causal and not {"relation", "prefix_length"} & {*tokens.inputs}
    return encoded._replace(scope=Scope.padding(None) if plain else encoded.scope), kept


@flawed(Tower, "ended", "batch")
def three_at_a_time(self: Tower, encoded: Encoded, tokens: Tokens) -> Tensor:
    """Takes a batch of three for three channels."""
    ended = Tower.ended(self, encoded, tokens)
    return ended.flip(1) if len(ended) == 3 else ended


flaw(
    Tower, "compiled", "shifts_less_when_traced", "Leaves its shift out where it is compiled.",
    ended=lambda self, encoded, tokens: (
        encoded.unary * self.stretch if torch.compiler.is_compiling() else Tower.ended(self, encoded, tokens)
    ),
)  # fmt: skip


flaw(
    Tower, "fused", "stretches_where_fused", "Is another network where its projections are fused.",
    ended=lambda self, encoded, tokens: (
        Tower.ended(self, encoded, tokens) * (1 + 1e-6 * self.input.plan.fuse)
    ),
)  # fmt: skip


@frozen(kw_only=True)
class SpareDims(HostDims):
    """One more than is needed."""

    spare: int = field(validator=validators.ge(1))


@wrong("dims")
class HasASpareSize(Tower):
    """Asks for a size that nothing depends on."""

    Dims = SpareDims

    @classmethod
    def sizes(cls, options: Any, dims: Any) -> Mapping[str, int]:
        return {name: size for name, size in super().sizes(options, dims).items() if name != "spare"}
