"""The gated recurrences of torch, lstm and gru: their parameters, their steps and torch's fused kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from peirce.parts import Dims, RecurrentOperator, plain_sigmoid


class Gated(RecurrentOperator):
    """A recurrence that is one of torch's own modules too, by whose names its parameters are saved."""

    def read(self, atoms: Tensor) -> Tensor:
        """The inputs' part of the gates: [b, x, d1] -> [b, x, gates * r]."""
        return F.linear(atoms, self.get_parameter("weight_ih_l0"), self.get_parameter("bias_ih_l0"))

    def weights(self) -> Mapping[str, Tensor]:
        """The state's part of the gates."""
        return {name: self.get_parameter(f"{name}_hh_l0") for name in ("weight", "bias")}

    def fused(self, atoms: Tensor) -> Tensor | None:
        """torch's own recurrence."""
        outputs: Tensor = self(atoms)[0]
        return outputs


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
                cell[r] = float(plain_sigmoid(keep) * cell[r] + plain_sigmoid(entry) * math.tanh(content))
                output[r] = float(plain_sigmoid(exit_) * math.tanh(cell[r]))
            outputs.append(list(output))
        return outputs


class GRU(Gated, nn.GRU):
    """h = (1 - z) tanh(n + r m) + z h, with the gates r, z and the content n, m from the token and from h."""

    name = "gru"
    source = "Cho et al. (2014), with the reset gate behind the state's map, as torch has it"

    def __init__(self, options: Any, dims: Dims) -> None:
        nn.GRU.__init__(self, dims.unary, dims.recurrent, batch_first=True)

    def initial(self) -> Mapping[str, Tensor]:
        """Zeros, [r]."""
        return {"output": self.get_parameter("bias_hh_l0").new_zeros(self.hidden_size)}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """See `RecurrentOperator.step`."""
        last, sizes = state["output"], [self.hidden_size] * 3
        reset, update, content = read.split_with_sizes(sizes, -1)
        recurrent = F.linear(last, weights["weight"], weights["bias"]).split_with_sizes(sizes, -1)
        update = (update + recurrent[1]).sigmoid()
        content = (content + (reset + recurrent[0]).sigmoid() * recurrent[2]).tanh()
        output = (1 - update) * content + update * last
        return output, {"output": output}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, channel by channel; the gates stand in the order r, z, n."""
        size = self.hidden_size
        output, outputs = [0.0] * size, []
        for atom in atoms:
            read, recurrent = gates(atom, output, parameters)
            for r in range(size):
                reset = plain_sigmoid(read[r] + recurrent[r])
                update = plain_sigmoid(read[size + r] + recurrent[size + r])
                content = math.tanh(read[2 * size + r] + reset * recurrent[2 * size + r])
                output[r] = float((1 - update) * content + update * output[r])
            outputs.append(list(output))
        return outputs


def gates(
    atom: list[float], state: list[float], parameters: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    """What the gates are given of a token and of a state, number by number."""
    read, recurrent = (
        np.array(parameters[f"weight_{of}_l0"]) @ values + parameters[f"bias_{of}_l0"]
        for of, values in (("ih", atom), ("hh", state))
    )
    return read.tolist(), recurrent.tolist()
