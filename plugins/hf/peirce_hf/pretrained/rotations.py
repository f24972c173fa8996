"""How rotary embeddings of `transformers` depend on the length of a text, as those of longrope and dynamic NTK do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def same_rotations(body: nn.Module, before: int, after: int) -> bool:
    """Whether the first tokens of a text are turned alike where it has `before` tokens and where it has `after`."""
    return all(map(torch.equal, _rotations(body, before), _rotations(body, after)))


def _rotations(body: nn.Module, length: int) -> list[Tensor]:
    """How the first two tokens of a text of so many are turned, by each rotary embedding of a network, made anew."""
    with torch.device("cpu"):
        places, like = torch.tensor([[0, 1, max(length - 1, 1)]]), torch.zeros(1)
        return [
            turned[..., :2, :]
            for module in _rotary_embeddings(body)
            for layer_type, kind in _kinds(module)
            if kind != "default"  # whose angles are the places times a constant
            for turned in type(module)(module.config)(like, places, *layer_type)
        ]


def forget_lengths(body: nn.Module) -> None:
    """Have a network's rotary embeddings scale with the text that they read, not with the longest that they met."""
    for module in _rotary_embeddings(body):
        if any("dynamic" in kind for _, kind in _kinds(module)):
            module.register_forward_pre_hook(_forget_length)


def _forget_length(module: nn.Module, *_: Any) -> None:
    for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")]:
        setattr(module, name, 0)


def _rotary_embeddings(body: nn.Module) -> list[Any]:
    return [module for module in body.modules() if hasattr(module, "rope_type")]


def _kinds(module: Any) -> list[tuple[tuple[str, ...], str]]:
    """The types of layers that a rotary embedding tells apart, as arguments, and how it scales angles for each."""
    kinds = module.rope_type
    return [((layer,), kind) for layer, kind in kinds.items()] if isinstance(kinds, dict) else [((), kinds)]
