"""What layers of every network share: a pass through them, the names of what each caches, and the pooled output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, final

from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.kernels import PairTerm, Rotation
from peirce.networks.channels import CachedState, drop_out
from peirce.networks.mixing import Norms
from peirce.parts import StateOperator, TensorSpec


def cached_state_specs(layers: Iterable[nn.Module]) -> tuple[TensorSpec, ...]:
    """What the layers cache, in order: [batch, past, ...] of unary atoms, [batch, past, past, ...] of binary ones.

    Args:
        layers: with a method `cached_channels`, which gives the branch that channels are read from and their sizes,
            by name; with `past` among the sizes, tokens stand there. A recurrent state has no branch, and is
            [batch, ...].
    """
    axes = {"U": ("past",), "B": ("past", "past"), None: ()}
    return tuple(
        TensorSpec(
            name=_cache_name(i, name),
            dtype="float",
            dims=("batch", *(() if "past" in shape else axes[branch]), *shape),
            meaning=f"What layer {i} {'attends to' if branch else 'remembers'} of the tokens before.",
        )
        for i, layer in enumerate(cast(Iterable[Any], layers))
        for name, (branch, shape) in layer.cached_channels().items()
    )


def run_layers(
    layers: Iterable[nn.Module],
    state: Any,
    scopes: Iterable[Scope],
    terms: Iterable[Sequence[PairTerm | Rotation]],
    cache: CachedState | None = None,
) -> tuple[Any, dict[str, Tensor]]:
    """The state of the rows after all layers, and what the layers cache for later tokens.

    Args:
        layers: called with a state, a scope, what positions do in them and their own part of the cache.
        state: what the first layer is given.
        scopes: who may attend to whom in each layer.
        terms: of each layer, as `TokenInput.pairs` gives them.
        cache: the cached state of the tokens before; None where nothing is cached.
    """
    new_cache: dict[str, Tensor] = {}
    for i, (layer, scope, each) in enumerate(zip(layers, scopes, terms, strict=True)):
        state, layer_cache = layer(
            state, scope, each, None if cache is None else select_layer_cache(i, cache)
        )
        if cache is not None:
            new_cache |= flatten_layer_cache(i, layer_cache)
    return state, new_cache


def flatten_layer_cache(layer: int, layer_cache: CachedState) -> dict[str, Tensor]:
    """What one layer caches, by its names in the cached state of all."""
    return {_cache_name(layer, name): value for name, value in layer_cache.items()}


def select_layer_cache(layer: int, cache: CachedState) -> dict[str, Tensor]:
    """The inverse of `flatten_layer_cache`, for one layer of the cached state of all."""
    start = _cache_name(layer, "")
    return {name.removeprefix(start): value for name, value in cache.items() if name.startswith(start)}


def _cache_name(layer: int, name: str) -> str:
    return f"memory_{layer}_{name}"


def add_increment(state: Predicates, increment: Predicates, rate: float) -> Predicates:
    """The atoms with what a state operator adds to them, dropped out at a rate; a branch without increments stays."""
    unary = state.unary + drop_out(increment.unary, rate)
    if increment.binary is None or state.binary is None:
        return Predicates(unary, state.binary)
    return Predicates(unary, state.binary + drop_out(increment.binary, rate))


def deduce_state(
    operator: StateOperator, state: Predicates, norms: Norms, scope: Scope, rate: float
) -> Predicates:
    """The atoms with what a state operator makes of their norms, dropped out at a rate, added.

    The operator's own kernel computes it, where it has one that takes these atoms.
    """
    if norms.is_plain and not (operator._forward_hooks or operator._forward_pre_hooks):
        fused = operator.fused(state, scope, norms.unary.epsilon, rate)
        if fused is not None:
            return fused
    return add_increment(state, operator(norms(state, scope), scope), rate)


def two_branch_sizes(dims: Any) -> Mapping[str, int]:
    """The sizes of layers that keep both branches; feed-forward widths of 0 are four times the branch's.

    Args:
        dims: `[model.dims]`, with `layers`, `unary`, `binary`, `heads`, `head_size` and both feed-forward widths.
    """
    return {
        "layers": dims.layers,
        "unary": dims.unary,
        "binary": dims.binary,
        "heads": dims.heads,
        "head_size": dims.head_size,
        "feedforward_unary": dims.feedforward_unary or 4 * dims.unary,
        "feedforward_binary": dims.feedforward_binary or 4 * dims.binary,
    }


@final
class Pooler(nn.Module):
    """tanh of a linear map of one token's atoms: the first real token, where [CLS] stands in a text."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, unary: Tensor, real: Tensor | None) -> Tensor:
        """[b, x, d1], bool [b, x] or None -> [b, d1]."""
        if real is None:
            first = unary[:, 0]
        else:
            index = real.long().argmax(1)
            first = unary.gather(1, index[:, None, None].expand(-1, 1, unary.shape[-1])).squeeze(1)
        return self.dense(first).tanh()


def unary_output(width: int) -> TensorSpec:
    """The final unary atoms."""
    return _output("unary", "Final properties of each token.", "length", width)


def binary_output(width: int) -> TensorSpec:
    """The final binary atoms."""
    return _output("binary", "Final relations between tokens.", "length", "length", width)


def pooled_output(width: int) -> TensorSpec:
    """The pooled output."""
    return _output("pooled", "One vector for the whole input.", width)


def _output(name: str, meaning: str, *dims: str | int) -> TensorSpec:
    return TensorSpec(name=name, dtype="float", dims=("batch", *dims), meaning=meaning)
