"""Operators that see padding or the future, give NaN, sum over the wrong axis, or know one length or dtype."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from peirce.algebra import Scope
from peirce.kernels import weigh
from peirce.parts import Dims, NoOptions, Operator, Reader, Writer
from wrong import exact, flaw, flawed, pair_of, wrong
from wrong.blending import Blend


class Sharing(Operator):
    """u[h,s](x) = K[h,s](x) * the mean of v[h,s](a) over what x may attend to."""

    name = "sharing"
    typing = "U <- U x U"
    scope_rule = "reduce"

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else "it was made for encoders"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        length = kernel.shape[1]
        pairs = kernel.new_ones(1, length, length)
        if scope.pairs is not None:
            pairs = scope.pairs.to(kernel.dtype)
        sums = (pairs @ premise.flatten(2)).unflatten(2, premise.shape[2:])
        return kernel * sums / self.count(pairs)

    def count(self, pairs: Tensor) -> Tensor:
        """How many tokens each row attends to."""
        return pairs.sum(2).clamp_min(1)[:, :, None, None]

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        values, rows = exact(premise), zip(exact(kernel), scope, strict=True)
        return torch.stack(
            [k * values[torch.tensor(row)].sum(0) / self.number(row) for k, row in rows]
        ).tolist()

    def number(self, row: list[bool]) -> int:
        """How many tokens one row attends to."""
        return max(sum(row), 1)


flaw(
    Sharing, "padding", "ignores_padding", "Divides by the length, padding included.",
    count=lambda self, pairs: torch.tensor(pairs.shape[2]),
    number=lambda self, row: len(row),
)  # fmt: skip
flaw(
    Sharing, "limits", "counts_in_bytes", "Counts in bytes, which end at 255.",
    count=lambda self, pairs: pairs.sum(2, dtype=torch.uint8).clamp_min(1)[:, :, None, None],
)  # fmt: skip
flaw(
    Sharing, "gradients", "detaching", "Keeps the kernel out of the gradient.",
    infer=lambda self, kernel, premise, scope: Sharing.infer(self, kernel.detach(), premise, scope),
)  # fmt: skip


@wrong("gradients")
class RoundsPremises(Sharing):
    """Rounds the premise, so that nothing flows back to it."""

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return super().infer(kernel, premise.round(), scope)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        return super().reference(kernel, exact(premise).round().tolist(), scope)


flaw(
    Sharing, "declaration", "declares_another_typing", "Says that its kernel is binary.",
    typing="U <- B x U",
)  # fmt: skip


class Gathering(Blend):
    """u[h,s](x) = sum_a K[h](x,a) v[h,s](a) (h + 1), K a softmax over a: join with heads of growing weight."""

    name = "gathering"
    Options = NoOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, scope: str) -> str | None:
        return None if scope == "bidirectional" else "it was made for encoders"

    def premise(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape)

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return self.summed(kernel, premise) * self.growing(premise)

    def growing(self, like: Tensor) -> Tensor:
        """The weight of each head."""
        return torch.arange(1, self.dims.heads + 1, dtype=like.dtype, device=like.device)[:, None]

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        values = exact(premise)
        rows = [(row[..., None] * values).sum(0) for row in exact(kernel)]
        return (torch.stack(rows) * self.growing(values)).tolist()


flaw(
    Gathering, "reference", "wrong_axis", "Sums over the rows, not over the tokens that they attend to.",
    infer=lambda self, kernel, premise, scope: Gathering.infer(self, kernel.transpose(1, 2), premise, scope),
)  # fmt: skip
flaw(
    Gathering, "dtypes", "only_float64",
    "Takes its constants in float64, and so gives float64 whatever it is given.",
    growing=lambda self, like: Gathering.growing(self, like.double()),
)  # fmt: skip


@wrong("calls")
class RemembersLength(Gathering):
    """Keeps what it made at the first length."""

    def __init__(self, options: Any, dims: Dims) -> None:
        super().__init__(options, dims)
        self.ones: Tensor | None = None

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        if self.ones is None:
            self.ones = kernel.new_ones(kernel.shape[1])
        return super().infer(kernel * self.ones[:, None], premise, scope)


class FixesLength(Gathering):
    """Loops over tokens, so that a traced graph has the length of its example."""

    name = "fixes_length"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        total = torch.zeros_like(premise)
        for a in range(kernel.shape[2]):
            total = total + kernel[:, :, a, :, None] * premise[:, a : a + 1]
        return total * self.growing(premise)


class Scatters(Gathering):
    """Adds up by a scatter, which TensorRT does not take; the values are right."""

    name = "scatters"

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        products = kernel[..., None] * premise[:, None]
        first = torch.zeros_like(products, dtype=torch.int64)
        sums = torch.zeros_like(products).scatter_add(2, first, products)[:, :, 0]
        return sums * self.growing(premise)


FIXES_LENGTH, SCATTERS = pair_of(FixesLength, "onnx"), pair_of(Scatters, "tensorrt")


class Choosing(Operator):
    """u[h](x) = sum_a K[h](a) v[h](a), K a softmax over what x may attend to, written out."""

    name = "choosing"
    typing = "U <- U x U"
    scope_rule = "reduce"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape={"h": self.dims.heads}, activation="softmax", cached=True)

    def premise(self) -> Reader:
        return Reader(branch="U", shape={"h": self.dims.heads}, cached=True)

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        count = kernel.shape[1] if scope.pairs is None else scope.pairs.shape[1]
        rows = kernel.unsqueeze(1).expand(-1, count, -1, -1)
        return (self.weights(rows, scope) * premise.unsqueeze(1)).sum(2)

    def weights(self, rows: Tensor, scope: Scope) -> Tensor:
        """[b, x, a, h], normalised over a."""
        return scope.softmax(rows)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        logits, values, rows = exact(kernel), exact(premise), map(torch.tensor, scope)
        return torch.stack([(logits[row].softmax(0) * values[row]).sum(0) for row in rows]).tolist()


@flawed(Choosing, "weights", "empty_rows")
def nan_on_empty_rows(self: Choosing, rows: Tensor, scope: Scope) -> Tensor:
    """Masks with minus infinity, as attention is often written."""
    if scope.pairs is not None:
        rows = rows.masked_fill(~scope.pairs.unsqueeze(3), -torch.inf)
    return rows.softmax(2)


@flawed(Choosing, "weights", "finite")
def overflows(self: Choosing, rows: Tensor, scope: Scope) -> Tensor:
    """Takes the exponential of the logits as they are."""
    weights = scope.zero_binary(rows.exp())
    return weights / weights.sum(2, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)


@flawed(Choosing, "weights", "no_look_ahead")
def fears_zero(self: Choosing, rows: Tensor, scope: Scope) -> Tensor:
    """Takes the largest logit of all tokens, and adds a small number to the denominator of those in scope."""
    exact = rows.to(torch.promote_types(rows.dtype, torch.float32))
    weights = scope.zero_binary((exact - exact.amax(2, keepdim=True)).exp())
    return (weights / (weights.sum(2, keepdim=True) + 1e-12)).to(rows.dtype)


@flawed(Choosing, "weights", "token_permutation")
def causal_sees_padding(self: Choosing, rows: Tensor, scope: Scope) -> Tensor:
    """Masks the future in causal scopes by a triangle, which knows no padding."""
    if not scope.causal:
        return scope.softmax(rows)
    length = rows.shape[1]
    past = torch.ones(length, length, dtype=torch.bool, device=rows.device).tril()
    return Scope.relation(past.unsqueeze(0)).softmax(rows)


class Weighing(Operator):
    """u[h,s](x) = sum_a K[h,s](x,a) v[h](x,a), K a softmax over what x may attend to: Table 2's cjoin."""

    name = "weighing"
    typing = "U <- U x B"
    scope_rule = "reduce"

    def kernel(self) -> Reader:
        return Reader(branch="U", shape=self.output().shape, activation="softmax", cached=True)

    def premise(self) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads})

    def output(self) -> Writer:
        return Writer(branch="U", shape={"h": self.dims.heads, "s": self.dims.head_size})

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        return weigh(kernel, premise, scope)

    def reference(self, kernel: list[Any], premise: list[Any], scope: list[list[bool]]) -> list[Any]:
        logits, values = exact(kernel), exact(premise)
        result = []
        for x, row in enumerate(map(torch.tensor, scope)):
            weights = (logits - logits[self.denominators(x, scope)].logsumexp(0)).exp()
            result.append((weights[row] * values[x, row, :, None]).sum(0))
        return torch.stack(result).tolist()

    def denominators(self, x: int, scope: list[list[bool]]) -> list[int]:
        """The tokens over which row x is normalised."""
        return [a for a in range(len(scope)) if scope[x][a]]


@wrong("no_look_ahead")
class LeaksTheFuture(Weighing):
    """One denominator for all rows, over every token that any row may attend to."""

    def infer(self, kernel: Tensor, premise: Tensor, scope: Scope) -> Tensor:
        logits = kernel if kernel.dtype == torch.float64 else kernel.float()
        if scope.pairs is not None:
            anyone = scope.pairs.any(1)[:, :, None, None]
            logits = logits.masked_fill(~anyone, torch.finfo(logits.dtype).min)
        weights = logits.softmax(1).to(kernel.dtype)
        return torch.einsum("bahs,bxah->bxhs", weights, premise)

    def denominators(self, x: int, scope: list[list[bool]]) -> list[int]:
        return [a for a in range(len(scope)) if any(row[a] for row in scope)]
