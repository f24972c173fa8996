"""clmpt: LMPNN whose variables attend to their messages, and whose entities stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.kernels import on_cpu
from peirce.parts import Linear, Plan, plain_linear, plain_relu, plain_softmax
from peirce_kg.parts.systems.lmpnn import Lmpnn
from peirce_kg.parts.systems.system import Norm, Numbers, SystemDims, plain_norm


@frozen(kw_only=True)
class ClmptOptions:
    """How messages are read, how often, and what a union is.

    Args:
        layers: layers of the encoder that reads the messages of a variable; 2 as published.
        heads: its heads; 8 as published.
        passes: how often messages are passed, as in `LmpnnOptions`.
        unions: what a union is, as in `LmpnnOptions`.
    """

    layers: int = field(default=2, validator=validators.ge(1))
    heads: int = field(default=1, validator=validators.ge(1))
    passes: Literal["path", "variables"] = "path"
    unions: Literal["apart", "whole"] = "apart"

    @property
    def nodes(self) -> Literal["variables"]:
        """Entities take no messages."""
        return "variables"


class Clmpt(Lmpnn):
    """Messages are those of `lmpnn`, and variables alone take them.

    A variable's next state is the mean over what a transformer's encoder makes of its messages and its own state, as a
    set: sqrt(d1) times each of them, then layers of attention and of a network, with norms before both and at the end,
    the published code's `pre_norm`.
    """

    name = "clmpt"
    source = "CLMPT (Zhang et al., 2024)"
    Options = ClmptOptions
    widening = 4

    @classmethod
    def check(cls, options: ClmptOptions, dims: SystemDims) -> str | None:
        """Heads share the width."""
        if dims.unary % options.heads:
            return f"unary = {dims.unary} numbers are not the same for each of {options.heads} heads"
        return super().check(options, dims)

    def mixer(self, plan: Plan) -> nn.Module:
        """See `Lmpnn.mixer`."""
        return _Encoder(self.options, plan.dims.unary, plan.dims.feedforward_unary, plan.dims.dropout)

    def update(
        self, state: Tensor, forwards: Tensor, backwards: Tensor, leads: Tensor, leaves: Tensor
    ) -> Tensor:
        """See `Lmpnn.update`."""
        real = torch.cat([leads, leaves, torch.ones_like(leads[..., :1])], 2)
        length, itself = forwards.shape[1], torch.arange(state.shape[1], device=state.device)
        # where each node finds its messages and itself among all of them
        places = torch.arange(2 * length + 1, device=state.device).expand(real.shape)
        places = torch.where(places < 2 * length, places, 2 * length + itself.unsqueeze(1))
        if on_cpu(
            real
        ):  # elsewhere a set has room for every message, since nothing waits for the largest count
            most = int(real.sum(2).max().item()) if real.numel() else 1
            kept = real.long().argsort(dim=2, descending=True, stable=True)[..., :most]
            real, places = real.gather(2, kept), places.gather(2, kept)
        messages = torch.cat([forwards, backwards, state], 1)
        index = places.flatten(1).unsqueeze(2).expand(-1, -1, messages.shape[2])
        return self.mix(messages.gather(1, index).unflatten(1, places.shape[1:]), real)

    def plain_update(self, state: Numbers, received: list[Numbers], parameters: Mapping[str, Any]) -> Numbers:
        """See the class."""
        options, width = self.options, len(state)
        values = np.stack([*received, state]) * width**0.5
        for layer in (f"mix.layers.{i}" for i in range(options.layers)):
            normed, read = plain_norm(values, parameters, f"{layer}.before"), []
            maps = (
                plain_linear(normed, parameters, f"{layer}.{each}", width, bias=False)
                for each in ("asked", "keys", "values")
            )
            for asked, keys, told in zip(*(np.split(each, options.heads, 1) for each in maps), strict=True):
                read.append(plain_softmax(asked @ keys.T * keys.shape[1] ** -0.5) @ told)
            mixed = np.concatenate(read, 1)
            values = values + plain_linear(mixed, parameters, f"{layer}.out", width, bias=False)
            between = plain_norm(values, parameters, f"{layer}.between")
            wide = plain_linear(between, parameters, f"{layer}.wide", len(parameters[f"{layer}.wide.bias"]))
            values = values + plain_linear(plain_relu(wide), parameters, f"{layer}.narrow", width)
        return np.asarray(plain_norm(values, parameters, "mix.norm").mean(0))


class _Encoder(nn.Module):
    """Sets of vectors, each encoded to one: [b, x, m, d1], bool [b, x, m] -> [b, x, d1]."""

    def __init__(self, options: ClmptOptions, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.scale, self.dropout = width**0.5, nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            _Layer(options.heads, width, hidden, dropout) for _ in range(options.layers)
        )
        self.norm = Norm(width)

    def forward(self, sets: Tensor, real: Tensor) -> Tensor:
        values = self.dropout(sets * self.scale)
        for layer in self.layers:
            values = layer(values, real)
        kept = real.unsqueeze(3).to(values.dtype)
        return (self.norm(values) * kept).sum(2) / kept.sum(2)


class _Layer(nn.Module):
    """Attention within each set, then a network, each added to what it is given."""

    def __init__(self, heads: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.before, self.between = Norm(width), Norm(width)
        self.asked, self.keys, self.values, self.out = (Linear(width, width, bias=False) for _ in range(4))
        self.wide, self.narrow = Linear(width, hidden), Linear(hidden, width)
        for layer in (self.asked, self.keys, self.values, self.out, self.wide, self.narrow):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, sets: Tensor, real: Tensor) -> Tensor:
        normed = self.before(sets)
        asked, keys, values = (
            layer(normed).unflatten(3, (self.heads, -1)).transpose(2, 3)
            for layer in (self.asked, self.keys, self.values)
        )
        scores = asked @ keys.transpose(3, 4) * (keys.shape[4] ** -0.5)
        scores = torch.where(real[:, :, None, None, :], scores, torch.finfo(scores.dtype).min)
        read = (self.dropout(scores.softmax(4)) @ values).transpose(2, 3).flatten(3)
        sets = sets + self.dropout(self.out(read))
        return sets + self.dropout(self.narrow(self.dropout(F.relu(self.wide(self.between(sets))))))
