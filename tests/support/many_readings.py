"""Operators of one, three and four readings, and one with a weight, which several tests compose; a plug-in too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import peirce
from peirce.algebra import Scope
from peirce.parts import PureOperator, Reader, Weight, Writer


class Edges(PureOperator):
    """u[h,s](x,y) = sum_a K[h](x,a,y) l[h,s](x,a) r[h,s](a,y), K a softmax over a of sum_w q[h,w](x,a) k[h,w](a,y)."""

    name = "edges"
    typing = "B <- B x B x B x B"
    scope_rule = "reduce"
    source = "Edge Transformer (Bergen et al., 2021): triangular attention"

    def readings(self) -> Mapping[str, Reader]:
        """q and l: [b, x, a, h, s]; k and r: [b, a, y, h, s]."""
        shape, scale = self.output().shape, self.dims.head_size**-0.25
        return {
            "query": Reader(branch="B", shape=shape, scale=scale, dropout=True),
            "key": Reader(branch="B", shape=shape, scale=scale, cached=True, tokens_last=True),
            "left": Reader(branch="B", shape=shape, bias=False, tokens_last=True),
            "right": Reader(branch="B", shape=shape, bias=False, cached=True),
        }

    def output(self) -> Writer:
        """u: [b, x, y, h, s]."""
        return Writer(branch="B", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, query: Tensor, key: Tensor, left: Tensor, right: Tensor, scope: Scope) -> Tensor:
        """The weights [b, x, a, y, h] of each path from x by a to y, and the sum over a."""
        weights = scope.softmax((query.unsqueeze(3) * key.unsqueeze(1)).sum(-1))
        if scope.dropout:
            weights = torch.dropout(weights, scope.dropout, True)
        return (weights.unsqueeze(-1) * left.unsqueeze(3) * right.unsqueeze(1)).sum(2)

    def reference(
        self, query: list[Any], key: list[Any], left: list[Any], right: list[Any], scope: list[list[bool]]
    ) -> list[Any]:
        """Row by row, over the tokens that it may attend to."""
        q, k, v, w = map(np.asarray, (query, key, left, right))
        rows = []
        for x, seen in enumerate(map(np.asarray, scope)):
            scores = np.einsum("ahs,ayhs->ayh", q[x][seen], k[seen])
            scores = np.exp(scores - scores.max(0, initial=-1e300))
            rows.append(np.einsum("ayh,ahs,ayhs->yhs", scores / scores.sum(0), v[x][seen], w[seen]).tolist())
        return rows


class Difference(PureOperator):
    """u[h,s](x) = sum_a (K[h](x,a) - L[h](x,a) / 2) v[h,s](a), with K and L softmaxes over a."""

    name = "difference"
    typing = "U <- B x B x U"
    scope_rule = "reduce"
    source = "Differential attention (Ye et al., 2025), with kernels that are read from relations"

    def readings(self) -> Mapping[str, Reader]:
        """K and L: [b, x, a, h], one of them with dropout; v: [b, a, h, s]."""
        kernel = {"h": self.dims.heads}
        return {
            "signal": Reader(branch="B", shape=kernel, activation="softmax", dropout=True),
            "noise": Reader(branch="B", shape=kernel, activation="softmax", bias=False),
            "values": Reader(branch="U", shape=self.output().shape, cached=True),
        }

    def output(self) -> Writer:
        """u: [b, x, h, s]."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, signal: Tensor, noise: Tensor, values: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h] twice and [b, a, h, s] -> [b, x, h, s]."""
        weights = (signal - noise / 2).permute(0, 3, 1, 2)
        return (weights @ values.transpose(1, 2)).transpose(1, 2)

    def reference(
        self, signal: list[Any], noise: list[Any], values: list[Any], scope: list[list[bool]]
    ) -> list[Any]:
        """Two sums over a, and their difference."""
        one, other = (np.einsum("xah,ahs->xhs", kernel, values) for kernel in (signal, noise))
        return [row.tolist() for row in one - other / 2]


class Bend(PureOperator):
    """u[d](x) = tanh v[d](x)."""

    name = "bend"
    typing = "U <- U"
    scope_rule = "none"

    def readings(self) -> Mapping[str, Reader]:
        """v: [b, x, d]."""
        return {"atoms": Reader(branch="U", shape={"d": self.dims.unary})}

    def output(self) -> Writer:
        """u: [b, x, d]."""
        return Writer(branch="U", shape={"d": self.dims.unary})

    def infer(self, atoms: Tensor, scope: Scope) -> Tensor:
        """[b, x, d] -> [b, x, d]."""
        return atoms.tanh()

    def reference(self, atoms: list[Any], scope: list[list[bool]]) -> list[Any]:
        """Number by number."""
        return [row.tolist() for row in np.tanh(np.asarray(atoms))]


class Retention(PureOperator):
    """u[h,s](x) = sigmoid(g[h,s](x)) G[h,s] n[h,s](x), with n the norm over s of sum_a K[h](x,a) v[h,s](a)."""

    name = "retention"
    typing = "U <- B x U x U"
    scope_rule = "reduce"
    source = "Retentive networks (Sun et al., 2023), eq. 8, with kernels that are read from relations"

    def readings(self) -> Mapping[str, Reader]:
        """K: [b, x, a, h]; v: [b, a, h, s]; g: [b, x, h, s]."""
        shape = self.output().shape
        return {
            "kernel": Reader(branch="B", shape={"h": self.dims.heads}),
            "values": Reader(branch="U", shape=shape, cached=True),
            "gate": Reader(branch="U", shape=shape),
        }

    def weights(self) -> Mapping[str, Weight]:
        """G: [h, s]."""
        return {"gain": Weight(shape=self.output().shape)}

    def output(self) -> Writer:
        """u: [b, x, h, s]."""
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, values: Tensor, gate: Tensor, gain: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], [b, a, h, s], [b, x, h, s], [h, s] -> [b, x, h, s]."""
        sums = (kernel.permute(0, 3, 1, 2) @ values.transpose(1, 2)).transpose(1, 2)
        return torch.sigmoid(gate) * gain * sums * (sums.square().mean(-1, keepdim=True) + 1e-3).rsqrt()

    def reference(
        self, kernel: list[Any], values: list[Any], gate: list[Any], gain: list[Any], scope: list[list[bool]]
    ) -> list[Any]:
        """The sum over a, its norm, the gain and the gate."""
        sums = np.einsum("xah,ahs->xhs", kernel, values)
        normed = sums / np.sqrt((sums**2).mean(-1, keepdims=True) + 1e-3)
        return (np.asarray(gain) * normed / (1 + np.exp(-np.asarray(gate)))).tolist()


@peirce.hookimpl
def register_operators() -> list[type[PureOperator]]:
    """All four."""
    return [Edges, Difference, Bend, Retention]
