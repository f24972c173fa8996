"""Recurrent operators: what they read, keep, compute and let through must be what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from peirce.parts import Dims, RecurrentOperator
from wrong import exact, flaw, wrong


class Echo(RecurrentOperator):
    """h = tanh(W x + (A B) h): Elman's recurrence, whose state is mapped by a product that is made once a pass."""

    name = "echo"
    keeps = True

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.input = nn.Linear(dims.unary, dims.recurrent)
        self.left = nn.Parameter(torch.randn(2, dims.recurrent))
        self.right: Tensor
        self.register_buffer("right", torch.randn(dims.recurrent, 2), persistent=self.keeps)

    def read(self, atoms: Tensor) -> Tensor:
        return self.input(self.seen(atoms))

    def weights(self) -> Mapping[str, Tensor]:
        return {"own": self.right @ self.left}

    def initial(self) -> Mapping[str, Tensor]:
        return {"h": self.left.new_zeros(self.left.shape[1])}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        h = (read + state["h"] @ weights["own"].T).tanh()
        return h, {"h": h}

    def reference(self, atoms: list[list[float]], parameters: Mapping[str, Any]) -> list[list[float]]:
        weight, bias, left, right = (
            exact(parameters[name]) for name in ("input.weight", "input.bias", "left", "right")
        )
        h, outputs = torch.zeros_like(bias), []
        for atom in self.seen(exact(atoms)):
            h = (weight @ atom + bias + right @ (left @ h)).tanh()
            outputs.append(h.tolist())
        return outputs

    def seen(self, atoms: Tensor) -> Tensor:
        """What is read at each token, [..., x, d1] -> [..., x, d1]."""
        return atoms


class Peeks(Echo):
    """Reads each token beside the next one of the text."""

    name = "peeks"

    def seen(self, atoms: Tensor) -> Tensor:
        return atoms + atoms.roll(-1, -2)


flaw(
    Echo, "reference", "rushes", "Has a fast way that leaves the state out.",
    fused=lambda self, atoms: self.input(atoms).tanh(),
)  # fmt: skip


@wrong("reference")
class Truncates(Echo):
    """Has a fast way whose gradient stops at each step."""

    name = "truncates_where_fused"

    def fused(self, atoms: Tensor) -> Tensor:
        h, weights, outputs = self.initial()["h"].expand(len(atoms), -1), self.weights(), []
        for read in self.read(atoms).unbind(1):
            output, _ = self.step({"h": h.detach()}, read, weights)
            h = output
            outputs.append(h)
        return torch.stack(outputs, 1)


class Widens(Echo):
    """Steps by its parameter itself, and so in half precision where the state is in float32."""

    name = "widens"

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        return super().step(state, read, {"own": self.right @ self.left})


flaw(
    Echo, "state_dict", "forgets", "Keeps a random buffer out of the state dict.",
    keeps=False,
    reference=lambda self, atoms, parameters: (
        Echo.reference(self, atoms, {**parameters, "right": self.right.tolist()})
    ),
)  # fmt: skip
flaw(
    Echo, "gradients", "truncates", "Lets no gradient through its state.",
    step=lambda self, state, read, weights: Echo.step(self, {"h": state["h"].detach()}, read, weights),
)  # fmt: skip


@wrong("limits")
class TruncatesFar(Echo):
    """Lets no gradient through every 32nd step, as truncated training would."""

    def initial(self) -> Mapping[str, Tensor]:
        return {**super().initial(), "steps": self.left.new_zeros(1)}

    def step(
        self, state: Mapping[str, Tensor], read: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        cut = state["steps"] % 32 == 31
        h, after = super().step({"h": torch.where(cut, state["h"].detach(), state["h"])}, read, weights)
        return h, {**after, "steps": state["steps"] + 1}


SEEN_TWICE = {Peeks: {"padding", "no_look_ahead"}, Widens: {"dtypes", "finite"}}
"""What reads the next token sees padding too, and what fails in a dtype gives no finite values in it."""
