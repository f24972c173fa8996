"""How rotary embeddings of `transformers` depend on the length of a text, as those of longrope do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def same_rotations(body: nn.Module, before: int, after: int) -> bool:
    """Whether the first tokens of a text are turned alike where it has `before` tokens and where it has `after`."""
    return all(map(torch.equal, _rotations(body, before), _rotations(body, after)))


def _rotations(body: nn.Module, length: int) -> list[Tensor]:
    """How the first two tokens of a text of so many are turned, by each rotary embedding of a network.

    The embeddings are made anew: some keep what they computed for the longest text, and a network may have no storage.
    """
    with torch.device("cpu"):
        places, like = torch.tensor([[0, 1, max(length - 1, 1)]]), torch.zeros(1)
        return [
            turned[..., :2, :]
            for module in body.modules()
            for layer_type, kind in _kinds(module)
            if kind != "default"  # whose angles are the places times a constant
            for turned in type(module)(module.config)(like, places, *layer_type)
        ]


def keep_rotations(body: nn.Module) -> None:
    """Have rotary embeddings of dynamic NTK scaling turn as in the shortest text, without asking how long a text is.

    A graph cannot ask it, and no text of the model is long enough to be turned otherwise.
    """
    for module in body.modules():
        if any("dynamic" in kind for _, kind in _kinds(module)):
            kinds: Any = module.rope_type
            module.rope_type = dict.fromkeys(kinds, "default") if isinstance(kinds, dict) else "default"  # type: ignore[assignment]


def _kinds(module: Any) -> list[tuple[tuple[str, ...], str]]:
    """How a rotary embedding scales angles, for each type of layers that it tells apart, given as an argument."""
    kinds = getattr(module, "rope_type", None)
    if isinstance(kinds, dict):
        return [((layer,), kind) for layer, kind in kinds.items()]
    return [] if kinds is None else [((), kinds)]
