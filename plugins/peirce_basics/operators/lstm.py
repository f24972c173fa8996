"""lstm: a recurrence with a cell that is kept, written and read through gates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from peirce.parts import Dims
from torch import Tensor, nn

from peirce_basics.operators.gates import Gated, gates, sigmoid


class LSTM(Gated, nn.LSTM):
    """c = f c + i tanh(g), h = o tanh(c), with the gates i, f, o and the content g from the token and from h."""

    name = "lstm"
    source = "Hochreiter & Schmidhuber (1997); the forget gate: Gers et al. (2000)"

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.LSTM.__init__(self, dims.unary, dims.recurrent, batch_first=True)

    def initial(self) -> Mapping[str, Tensor]:
        """Zeros, [r] each."""
        zeros = self.get_parameter("bias_hh_l0").new_zeros(self.hidden_size)
        return {"output": zeros, "cell": zeros}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See `RecurrentOperator.step`."""
        mixed = read + F.linear(state["output"], weights["weight"], weights["bias"])
        entry, keep, content, exit_ = mixed.split_with_sizes([self.hidden_size] * 4, -1)
        cell = keep.sigmoid() * state["cell"] + entry.sigmoid() * content.tanh()
        output = exit_.sigmoid() * cell.tanh()
        return output, {"output": output, "cell": cell}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, channel by channel; the gates stand in the order i, f, g, o."""
        size = self.hidden_size
        output, cell, outputs = [0.0] * size, [0.0] * size, []
        for atom in atoms:
            mixed = [one + two for one, two in zip(*gates(atom, output, parameters), strict=True)]
            for r in range(size):
                entry, keep, content, exit_ = mixed[r::size]
                cell[r] = sigmoid(keep) * cell[r] + sigmoid(entry) * math.tanh(content)
                output[r] = sigmoid(exit_) * math.tanh(cell[r])
            outputs.append(list(output))
        return outputs
