"""Reading what a network computes between tokens: the values pass through an empty module, whose hooks see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from peirce.algebra.predicates import Predicates
from peirce.algebra.scope import Scope

WEIGHTS, ATOMS = "weights", "atoms"
"""The names of weights of attention, and of the binary atoms between layers."""


@final
class Attended(nn.Module):
    """Returns attention weights unchanged, so that hooks can read them.

    It has no parameters and computes nothing: state dicts, traced graphs and outputs are those of a network without
    it. An architecture puts one behind each attention softmax of its own. Where a hook reads it, it is also called
    with what else an operator computes between tokens, under other names.

    Args:
        operator: whose weights they are, as pictures name it.
    """

    def __init__(self, operator: str = "attention") -> None:
        super().__init__()
        self.operator, self.traced = operator, False

    def forward(self, values: Tensor, name: str = WEIGHTS, share: bool = True) -> Tensor:
        """[b, x, a, h] -> the same tensor; x are the rows, a the tokens that they attend to.

        Args:
            values: the weights, or other values of pairs.
            name: what they are, such as `weights` or `scores`.
            share: whether each row's numbers are shares of 1, as weights are; others have signs.
        """
        return values

    @property
    def is_read(self) -> bool:
        """Whether a hook reads the weights in this pass, so that they should come whole and not in blocks.

        A graph that is being traced is not read, unless `between_tokens` is asked to.
        """
        return bool(self._forward_hooks) and (self.traced or not torch.compiler.is_compiling())


class AttentionWeights(NamedTuple):
    """What was read at one place: the name of its module in the model, and the weights, [b, x, a, h]."""

    place: str
    weights: Tensor


class BetweenTokens(NamedTuple):
    """What was read at one place.

    place: the name of the module in the model, such as `network.layers.0.mixing.attended.1`.
    operator: the operator's name; `ATOMS` for the binary atoms.
    name: `weights`, one of the operator's readings, `scores` or `output`; for atoms, `before` or `after` the layer.
    share: whether rows are shares of 1.
    values: [b, x, a, c], the network's own: whoever keeps them copies them.
    """

    place: str
    operator: str
    name: str
    share: bool
    values: Tensor


@contextmanager
def between_tokens(
    model: nn.Module, keep: Callable[[BetweenTokens], None], *, traced: bool = False
) -> Iterator[None]:
    """Within it, `keep` is called with what a run of a model computes between tokens, in the order of the run.

    That is weights of attention, what operators read from the binary atoms and write to them, kernels of unary logits
    as each row normalises them, and the atoms before and after each layer: a numbered module, such as `layers.0`,
    that is given `Predicates` and a `Scope` and gives `Predicates` first.

    Args:
        model: the model.
        keep: the callback.
        traced: whether it is also called while a graph is traced, with the graph's own values.
    """

    def is_watched() -> bool:
        return traced or not torch.compiler.is_compiling()

    def attended_hook(place: str, module: Attended) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...], values: Tensor) -> None:
            if is_watched():
                name, share = given[1:] or (WEIGHTS, True)
                keep(BetweenTokens(place, module.operator, name, share, values.detach()))

        return hook

    def layer_hook(place: str) -> Any:
        def hook(_: nn.Module, given: tuple[Any, ...], result: Any) -> None:
            state, scope = (*given, None, None)[:2]
            if not is_watched() or not isinstance(state, Predicates):
                return
            after = result[0] if isinstance(result, tuple) else None
            if isinstance(scope, Scope) and isinstance(after, Predicates):
                for name, atoms in (("before", state.binary), ("after", after.binary)):
                    if atoms is not None:
                        values = scope.zero_binary(atoms.detach())
                        keep(BetweenTokens(place, ATOMS, name, False, values))

        return hook

    handles, attending = [], [module for module in model.modules() if isinstance(module, Attended)]
    for module in attending:
        module.traced = traced
    for place, module in model.named_modules():
        if isinstance(module, Attended):
            handles.append(module.register_forward_hook(attended_hook(place, module)))
        elif place.rpartition(".")[2].isdigit():
            handles.append(module.register_forward_hook(layer_hook(place)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in attending:
            module.traced = False


@contextmanager
def attention_of(model: nn.Module) -> Iterator[list[AttentionWeights]]:
    """Within it, each run of a model adds the weights of its attention to the list.

    A module that runs twice adds its weights twice. In training some weights are dropped. A graph that is being
    traced, or was compiled before, adds nothing: run the model itself.

    Args:
        model: the model; without attention the list stays empty.

    Yields:
        The weights in the order in which the network comes to them, detached, in its own dtype.
    """
    found: list[AttentionWeights] = []

    def keep_weights(each: BetweenTokens) -> None:
        if each.name == WEIGHTS:
            found.append(AttentionWeights(each.place, each.values.clone()))

    with between_tokens(model, keep_weights):
        yield found
