"""Rotary positions: channels of queries and keys, turned in pairs by angles that grow with the position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from peirce.algebra import at_least_float32


class Rotation(NamedTuple):
    """How far each pair of channels is turned at each row; the channels behind the pairs stay as they are.

    A pair (u, v) becomes (u cos - v sin, v cos + u sin). The product of a query at i and a key at j, both turned by
    their position, then depends on the two vectors and on i - j alone.

    Args:
        cos: [b or 1, x, w], of the angles of w pairs, in float32 at least; times a factor where a method has one.
        sin: likewise.
        pairing: `halves` pairs channel c with c + w, as GPT-NeoX and Llama do; `interleaved` pairs 2c with 2c + 1, as
            RoFormer and GPT-J do.

    Source: RoFormer (Su et al., 2021), eq. 34.
    """

    cos: Tensor
    sin: Tensor
    pairing: Literal["halves", "interleaved"] = "halves"

    def turn(self, channels: Tensor) -> Tensor:
        """[b, x, h, s] -> [b, x, h, s], in its dtype; computed in float32 at least.

        Raises:
            ValueError: a head has fewer channels than the pairs have.
        """
        width, size = self.cos.shape[2], channels.shape[3]
        if 2 * width > size:
            raise ValueError(f"a rotation of {width} pairs turns {2 * width} channels, and a head has {size}")
        exact = at_least_float32(channels)
        cos, sin = self.cos.unsqueeze(2), self.sin.unsqueeze(2)
        if self.pairing == "halves":
            one, other = exact[..., :width], exact[..., width : 2 * width]
        else:
            one, other = exact[..., : 2 * width].unflatten(3, (width, 2)).unbind(4)
        pairs = (one * cos - other * sin, other * cos + one * sin)
        turned = torch.cat(pairs, 3) if self.pairing == "halves" else torch.stack(pairs, 4).flatten(3)
        if 2 * width < size:
            turned = torch.cat([turned, exact[..., 2 * width :]], 3)
        return turned.to(channels.dtype)


def rotate(channels: Tensor, terms: Sequence[object]) -> Tensor:
    """Turn channels [b, x, h, s] by the rotations among a layer's terms."""
    for term in terms:
        if isinstance(term, Rotation):
            channels = term.turn(channels)
    return channels
