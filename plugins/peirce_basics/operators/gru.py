"""gru: a recurrence whose state is partly replaced at each token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from peirce.parts import Dims
from torch import Tensor, nn

from peirce_basics.operators.gates import Gated, gates, sigmoid


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
        own = F.linear(last, weights["weight"], weights["bias"]).split_with_sizes(sizes, -1)
        update = (update + own[1]).sigmoid()
        content = (content + (reset + own[0]).sigmoid() * own[2]).tanh()
        output = (1 - update) * content + update * last
        return output, {"output": output}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        """Token by token, channel by channel; the gates stand in the order r, z, n."""
        size = self.hidden_size
        output, outputs = [0.0] * size, []
        for atom in atoms:
            read, own = gates(atom, output, parameters)
            for r in range(size):
                reset = sigmoid(read[r] + own[r])
                update = sigmoid(read[size + r] + own[size + r])
                content = math.tanh(read[2 * size + r] + reset * own[2 * size + r])
                output[r] = (1 - update) * content + update * output[r]
            outputs.append(list(output))
        return outputs
