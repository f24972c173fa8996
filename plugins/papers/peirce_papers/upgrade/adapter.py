"""adapter: a feed-forward network of its own, the control that an upgrade with as many parameters has no relations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims, PlainMap, PlainScope, PureOperator, Reader, Writer, plain_gelu, plain_linear


class Adapter(PureOperator):
    """u[w](x) = gelu(v[w](x)), over the hidden channels w of a feed-forward network."""

    name = "adapter"
    typing = "U <- U"
    scope_rule = "none"
    source = "Houlsby et al. (2019), Section 2.1"

    def readings(self) -> Mapping[str, Reader]:
        """v: [b, x, w], from the properties."""
        return {"hidden": Reader(branch="U", shape={"w": self.dims.feedforward_unary})}

    def output(self) -> Writer:
        """u: [b, x, w], to the properties."""
        return Writer(branch="U", shape={"w": self.dims.feedforward_unary})

    def infer(self, hidden: Tensor, scope: Scope) -> Tensor:
        """[b, x, w] -> [b, x, w]."""
        return F.gelu(hidden)

    def reference(self, hidden: list[Any], scope: PlainScope) -> list[Any]:
        """Token by token."""
        found: list[Any] = plain_gelu(hidden).tolist()
        return found

    def reference_of_atoms(
        self, given: PlainMap, scope: PlainScope, parameters: PlainMap, dims: Dims
    ) -> PlainMap:
        """The hidden layer and the output."""
        hidden = plain_linear(given["unary"], parameters, "hidden", dims.feedforward_unary)
        return {
            "unary": plain_linear(self.reference(hidden.tolist(), scope), parameters, "output", dims.unary)
        }
