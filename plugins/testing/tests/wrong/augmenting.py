"""Augmenters that see too much, keep too much, or say something else to heads than they do to tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from torch import Tensor, nn

from peirce.parts import Augmenter, Dims, TensorSpec, Tokens
from wrong import flaw, flawed, wrong


@frozen(kw_only=True)
class GateOptions:
    """How much is added."""

    strength: float = field(default=0.5, validator=validators.gt(0))


class Gate(Augmenter):
    """w + strength * sigmoid(G w) * tanh(V w), for each embedding w alone."""

    name = "gate"
    Options = GateOptions

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.strength = options.strength
        self.gate = nn.Linear(dims.unary, dims.unary)
        self.value = nn.Linear(dims.unary, dims.unary)

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        return self.added(embeddings)

    def added(self, embeddings: Tensor) -> Tensor:
        """[..., d1] -> [..., d1]."""
        return embeddings + self.strength * self.gate(embeddings).sigmoid() * self.value(embeddings).tanh()

    def words(self, embeddings: Tensor) -> Tensor:
        return self.added(embeddings)


flaw(
    Gate, "words", "other_words", "Leaves the words that heads tie to as they are.",
    words=lambda self, embeddings: embeddings,
)  # fmt: skip


@flawed(Gate, "forward", "purity")
def adds_in_place(self: Gate, embeddings: Tensor, tokens: Tokens) -> Tensor:
    """Adds to the embeddings that it was given."""
    if embeddings.requires_grad:
        return Gate.forward(self, embeddings, tokens)
    return embeddings.copy_(Gate.forward(self, embeddings, tokens))


flaw(
    Gate, "purity", "noise_always", "Adds noise in evaluation too.",
    forward=lambda self, embeddings, tokens: (
        Gate.forward(self, embeddings, tokens) + 1e-3 * torch.randn_like(embeddings)
    ),
)  # fmt: skip


@flawed(Gate, "added", "gradients")
def no_gradient_past(self: Gate, embeddings: Tensor) -> Tensor:
    """Lets no gradient reach the embeddings by way of its gate."""
    gate = self.gate(embeddings.detach()).sigmoid()
    return embeddings + self.strength * gate * self.value(embeddings).tanh()


@flawed(Gate, "added", "precision")
def bfloat_gate(self: Gate, embeddings: Tensor) -> Tensor:
    """Opens its gate in bfloat16, for speed."""
    half = torch.bfloat16
    gate = F.linear(embeddings.to(half), self.gate.weight.to(half), self.gate.bias.to(half)).sigmoid()
    return embeddings + self.strength * gate.to(embeddings.dtype) * self.value(embeddings).tanh()


class Window(Augmenter):
    """w(x) + the mean of V w over x and its neighbours that are real, and a vector for each marked token."""

    name = "window"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.value = nn.Linear(dims.unary, dims.unary)
        self.mark = nn.Embedding(2, dims.unary)

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else "a token would see the next one"

    def inputs(self) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec(
                name="marks", dtype="int64", dims=("batch", "length"), required=False, default=1, high=2,
                meaning="Whether each token is marked; all are where it is absent.",
            ),
        )  # fmt: skip

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        marks = tokens.inputs.get("marks")
        mark = self.mark.weight[self.unmarked] if marks is None else self.mark_of(tokens.rows(marks))
        return embeddings + self.near(self.value(embeddings), self.real(embeddings, tokens)) + mark

    unmarked = 1

    def mark_of(self, marks: Tensor) -> Tensor:
        """[b, x] -> [b, x, d1]."""
        return self.mark(marks)

    def real(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        """[b, x, 1]: 1 at real tokens."""
        if tokens.real is None:
            return torch.ones_like(embeddings[..., :1])
        return tokens.rows(tokens.real).unsqueeze(2).to(embeddings.dtype)

    def near(self, values: Tensor, real: Tensor) -> Tensor:
        """[b, x, d1]: the mean over a real token and its real neighbours, where padding may stand between."""
        order = (1 - real).argsort(dim=1, stable=True)
        back = order.argsort(dim=1)
        together, there = values.take_along_dim(order, 1), real.take_along_dim(order, 1)
        sums, counts = (three(each * there) for each in (together, torch.ones_like(there)))
        return (sums / counts.clamp_min(1)).take_along_dim(back, 1)


def three(values: Tensor) -> Tensor:
    """The sum of each token's values and its neighbours', [b, x, c] -> [b, x, c]."""
    wide = F.pad(values, (0, 0, 1, 1))
    return wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]


flaw(
    Window, "padding", "window_over_padding", "Takes its neighbours as they stand, padding included.",
    near=lambda self, values, real: three(values) / three(torch.ones_like(real)),
)  # fmt: skip
flaw(
    Window, "inputs", "unmarked_by_default", "Takes absent marks for 0, where its declaration says 1.",
    unmarked=0,
)  # fmt: skip
flaw(
    Window, "batch", "over_the_batch_too", "Takes off the mean embedding of the batch.",
    forward=lambda self, embeddings, tokens: (
        Window.forward(self, embeddings - embeddings.mean(0, keepdim=True), tokens)
    ),
)  # fmt: skip


@flawed(Gate, "forward", "no_look_ahead")
def sees_the_next(self: Gate, embeddings: Tensor, tokens: Tokens) -> Tensor:
    """Adds each next embedding, in causal scopes too."""
    return Gate.forward(self, embeddings, tokens) + F.pad(embeddings[:, 1:], (0, 0, 0, 1))


class Echo(Augmenter):
    """w(x) + the mean of V w over the tokens before it in its own text; new tokens alone have none before them."""

    name = "echo"

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.value = nn.Embedding(dims.vocabulary, dims.unary)

    def forward(self, embeddings: Tensor, tokens: Tokens) -> Tensor:
        before = self.before(tokens)
        if tokens.real is not None:
            before = before & tokens.real.unsqueeze(1)
        shares = tokens.rows(before).to(embeddings.dtype)
        sums = shares @ self.value(tokens.inputs["input_ids"])
        return embeddings + sums / shares.sum(2, keepdim=True).clamp_min(1)

    def before(self, tokens: Tokens) -> Tensor:
        """bool [b, x, a]."""
        return self.earlier(tokens) & (tokens.types.unsqueeze(2) == tokens.types.unsqueeze(1))

    def earlier(self, tokens: Tokens) -> Tensor:
        """bool [b or 1, x, a]."""
        return tokens.index.unsqueeze(1) < tokens.index.unsqueeze(2)


flaw(
    Echo, "no_look_ahead", "echo_of_each_text", "Takes the places of another text for earlier ones.",
    before=Echo.earlier,
)  # fmt: skip
flaw(
    Window, "inputs", "marks_from_the_end", "Chooses vectors by one less than the mark, so that 0 chooses the last.",
    mark_of=lambda self, marks: self.mark.weight[marks - 1],
)  # fmt: skip


@wrong("learning")
class BeginsAtNothing(Gate):
    """Multiplies two maps that both begin at zero, so that neither ever gets a gradient."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def added(self, embeddings: Tensor) -> Tensor:
        return embeddings + self.strength * self.gate(embeddings) * self.value(embeddings).tanh()


@frozen(kw_only=True)
class DividedOptions:
    """How much is added."""

    strength: float = 0.0


@wrong("defaults")
class DividesByItsDefault(Gate):
    """Divides by an option that is zero unless it is given."""

    Options = DividedOptions
    example: ClassVar[Mapping[str, Any]] = {"strength": 0.5}

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.strength = 1 / options.strength
