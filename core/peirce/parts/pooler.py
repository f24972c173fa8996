"""The pooled output that both architectures offer, and how they declare what they give."""

from __future__ import annotations

from torch import Tensor, nn

from peirce.parts.signature import TensorSpec


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
    dims = ("batch", "length", width)
    return TensorSpec(name="unary", dtype="float", dims=dims, meaning="Final properties of each token.")


def binary_output(width: int) -> TensorSpec:
    """The final binary atoms."""
    dims = ("batch", "length", "length", width)
    return TensorSpec(name="binary", dtype="float", dims=dims, meaning="Final relations between tokens.")


def pooled_output(width: int) -> TensorSpec:
    """The pooled output."""
    dims = ("batch", width)
    return TensorSpec(name="pooled", dtype="float", dims=dims, meaning="One vector for the whole input.")
