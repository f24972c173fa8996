"""Feed-forward networks of one hidden layer, each token by itself: plain ones, and gated ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch.nn.functional as F
from attrs import frozen
from torch import Tensor, nn

from peirce.algebra import Predicates, Scope
from peirce.parts import (
    Dims,
    PlainMap,
    PlainScope,
    StateOperator,
    plain_gelu,
    plain_linear,
    plain_relu,
    plain_sigmoid,
)

Activation = Callable[[Tensor], Tensor]


@frozen(kw_only=True)
class BiasOptions:
    """The parameters beside the weights.

    Args:
        bias: whether the maps have biases.
    """

    bias: bool = True


@frozen(kw_only=True)
class GeluOptions(BiasOptions):
    """The parameters beside the weights, and which gelu it is.

    Args:
        bias: whether the maps have biases.
        tanh: whether gelu is approximated by tanh, as in GPT-2 and Gemma; otherwise it is exact, by the error function.
    """

    tanh: bool = False


class Hidden(nn.Module):
    """One hidden layer: W2 f(W1 x), or W2 (f(G x) * W1 x) where it is gated.

    Args:
        width: of what it reads and gives.
        hidden: of the hidden layer.
        activation: f.
        gated: whether there is a gate G.
        bias: whether the maps have biases.
    """

    def __init__(self, width: int, hidden: int, activation: Activation, *, gated: bool, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.hidden = nn.Linear(width, hidden, bias=bias)
        self.gate = nn.Linear(width, hidden, bias=bias) if gated else None
        self.output = nn.Linear(hidden, width, bias=bias)

    def forward(self, atoms: Tensor) -> Tensor:
        """[..., d] -> [..., d]."""
        hidden = self.hidden(atoms)
        if self.gate is None:
            return self.output(self.activation(hidden))
        return self.output(self.activation(self.gate(atoms)) * hidden)


class FeedForward(StateOperator):
    """u(x) += W2 f(W1 u(x)), or W2 (f(G u(x)) * W1 u(x)) where it is gated. Relations of tokens stay as they are.

    Attributes:
        activation: f, a static method.
        gated: whether there is a gate G.
    """

    typing = "U <- U"
    scope_rule = "none"
    Options: ClassVar[type] = BiasOptions
    activation: ClassVar[Any]
    gated: ClassVar[bool] = False

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.unary = hidden_layer(type(self), options, dims)

    def forward(self, state: Predicates, scope: Scope) -> Predicates:
        """The increments of the unary atoms, [b, x, d1]."""
        return Predicates(self.unary(state.unary))

    def reference(self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims) -> PlainMap:
        """The network on each token."""
        return {"unary": plain_hidden(given["unary"], self.name, self.options, parameters, "unary", dims)}


def plain_hidden(
    atoms: Any, kind: str, options: Any, parameters: Mapping[str, Any], name: str, dims: Dims
) -> Any:
    """The network of a kind and a name among the parameters, in plain numbers: [..., d] -> [..., d]."""

    def read(part: str) -> Any:
        return plain_linear(atoms, parameters, f"{name}.{part}", dims.feedforward_unary, bias=options.bias)

    def activate(z: Any) -> Any:
        if kind in ("relu", "reglu"):
            return plain_relu(z)
        return z * plain_sigmoid(z) if kind in ("silu", "swiglu") else plain_gelu(z, tanh=options.tanh)

    gated = kind in ("reglu", "geglu", "swiglu")
    hidden = activate(read("gate")) * read("hidden") if gated else activate(read("hidden"))
    return plain_linear(hidden, parameters, f"{name}.output", dims.unary, bias=options.bias)


def hidden_layer(kind: type[FeedForward], options: BiasOptions, dims: Dims) -> Hidden:
    """The hidden layer of a kind of network, `dims.feedforward_unary` wide."""
    activation: Activation = kind.activation
    if isinstance(options, GeluOptions) and options.tanh:
        activation = partial(F.gelu, approximate="tanh")
    return Hidden(dims.unary, dims.feedforward_unary, activation, gated=kind.gated, bias=options.bias)


class Gelu(FeedForward):
    """u(x) += W2 gelu(W1 u(x))."""

    name = "gelu"
    source = "GELU (Hendrycks & Gimpel, 2016), Section 2; BERT (Devlin et al., 2018), Appendix A.2"
    Options = GeluOptions
    activation = staticmethod(F.gelu)


class Relu(FeedForward):
    """u(x) += W2 relu(W1 u(x))."""

    name = "relu"
    source = "Vaswani et al. (2017), eq. 2"
    activation = staticmethod(F.relu)


class Silu(FeedForward):
    """u(x) += W2 silu(W1 u(x)), with silu(z) = z sigmoid(z)."""

    name = "silu"
    source = "Swish (Ramachandran et al., 2017), eq. 1 with beta = 1; Elfwing et al. (2018), eq. 5"
    activation = staticmethod(F.silu)


class ReGLU(FeedForward):
    """u(x) += W2 (relu(G u(x)) * W1 u(x))."""

    name = "reglu"
    source = "GLU variants (Shazeer, 2020), eq. 6"
    activation = staticmethod(F.relu)
    gated = True


class GEGLU(FeedForward):
    """u(x) += W2 (gelu(G u(x)) * W1 u(x))."""

    name = "geglu"
    source = "GLU variants (Shazeer, 2020), eq. 6"
    Options = GeluOptions
    activation = staticmethod(F.gelu)
    gated = True


class SwiGLU(FeedForward):
    """u(x) += W2 (silu(G u(x)) * W1 u(x))."""

    name = "swiglu"
    source = "GLU variants (Shazeer, 2020), eq. 6; Llama (Touvron et al., 2023), Section 2.2"
    activation = staticmethod(F.silu)
    gated = True


KINDS = {kind.name: kind for kind in (Gelu, Relu, Silu, ReGLU, GEGLU, SwiGLU)}
"""The networks by name."""
