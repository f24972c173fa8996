"""Who sees whom in one example of a check, and the tensors that checks pad, permute and perturb.

A `View` is what a scope and the positions of tokens are made of, so that one sequence can be shown with other padding,
in another order, or cut off. A `Slot` says which axes of a tensor count examples and tokens.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from attrs import evolve, frozen
from torch import Tensor

from peirce.algebra import Scope

SCOPE_KINDS = ("bidirectional", "causal", "prefix", "relation")
"""The kinds of scope that a spec may ask for."""


@frozen(eq=False)
class View:
    """Who sees whom among the tokens of a batch.

    Args:
        kind: the kind of scope, as in a spec.
        batch: the number of examples.
        length: the number of tokens.
        real: bool [b, x], the real tokens; None when no token is padding and none is masked.
        prefix: int64 [b], how many real tokens see each other both ways; for kind `prefix`.
        relation: bool [b, x, a], who may attend to whom; for kind `relation`.
        device: where its tensors are.
    """

    kind: str
    batch: int
    length: int
    real: Tensor | None = None
    prefix: Tensor | None = None
    relation: Tensor | None = None
    device: str = "cpu"

    @property
    def index(self) -> Tensor:
        """int64 [b or 1, x]: positions, counted over real tokens."""
        if self.real is None:
            return torch.arange(self.length, device=self.device).unsqueeze(0)
        return (self.real.long().cumsum(1) - 1).clamp_min(0)

    def scope(self) -> Scope:
        """The scope as the composer makes it, with its fast forms."""
        scope = Scope.padding(self.real)
        if self.kind == "causal":
            return scope & Scope.past(self.length, torch.device(self.device))
        if self.kind == "prefix":
            assert self.prefix is not None
            return scope & Scope.prefix(self.prefix, self.index)
        if self.kind == "relation":
            assert self.relation is not None
            return scope & Scope.relation(self.relation)
        return scope

    def allowed(self) -> Tensor:
        """bool [b, x, a]: the scope as a relation, padding included."""
        pairs = self.scope().pairs
        full = torch.ones(self.batch, self.length, self.length, dtype=torch.bool)
        return full if pairs is None else pairs & full

    def materialised(self) -> Scope:
        """The same scope as a plain relation, so that no fast form applies."""
        return Scope.padding(self.real) & Scope.relation(self.allowed())

    def example(self, i: int, where: Tensor) -> View:
        """Example i alone, only its tokens `where` (int64 [r]), none of them padding."""
        return View(
            kind=self.kind,
            batch=1,
            length=len(where),
            prefix=None if self.prefix is None else self.prefix[i : i + 1],
            relation=None if self.relation is None else self.relation[i : i + 1, where][:, :, where],
        )

    def reordered(self, order: Tensor) -> View:
        """The tokens in another order, as a relation: causal and prefix scopes know no other order."""
        scope = self.allowed()[:, order][:, :, order]
        real = None if self.real is None else self.real[:, order]
        return View(kind="relation", batch=self.batch, length=self.length, real=real, relation=scope)

    def batches(self, order: Tensor) -> View:
        """The examples in another order, or some of them (int64 [n])."""
        real, prefix, relation = (
            None if value is None else value[order] for value in (self.real, self.prefix, self.relation)
        )
        return evolve(self, batch=len(order), real=real, prefix=prefix, relation=relation)

    def on(self, device: str) -> View:
        """The same on a device."""
        real, prefix, relation = (
            None if value is None else value.to(device) for value in (self.real, self.prefix, self.relation)
        )
        return evolve(self, real=real, prefix=prefix, relation=relation, device=device)

    def __str__(self) -> str:
        parts = [f"{self.kind} scope, batch {self.batch}, length {self.length}"]
        for name, value in (
            ("real tokens", self.real),
            ("prefix lengths", self.prefix),
            ("pairs", self.relation),
        ):
            if value is not None and value.numel() <= 72:
                parts.append(f"{name} {value.int().tolist()}")
        return ", ".join(parts)


OTHER_AXES = 2
"""The size of symbolic axes other than batch and length."""


@frozen
class Slot:
    """What the axes of a tensor count: `batch`, `length`, a channel of any other name, or a sum as `length + rows`.

    Args:
        name: what the tensor is called in failures.
        axes: one name an axis.
        high: for integers, the exclusive upper bound of the values; None for floats.
        dtype: `float`, `int64` or `bool`.
        logits: whether a softmax over tokens is taken of the values.
    """

    name: str
    axes: tuple[str | int, ...]
    dtype: str = "float"
    high: int | None = None
    logits: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The axes that count tokens."""
        return tuple(i for i, axis in enumerate(self.axes) if axis == "length")

    def example(self, tensor: Tensor, i: int, where: Tensor) -> Tensor:
        """Example i alone, its tokens `where` only."""
        if "batch" in self.axes:
            tensor = tensor.narrow(self.axes.index("batch"), i, 1)
        return self.pick(tensor, where)

    def pick(self, tensor: Tensor, where: Tensor) -> Tensor:
        """The tokens `where` (int64 [r]) along every axis of tokens, and all of what a sum adds to them."""
        for i, axis in enumerate(self.axes):
            first, *others = str(axis).split(" + ")
            if first == "length":
                size = tensor.shape[i]
                tensor = tensor.index_select(
                    i, torch.cat([where, torch.arange(size - OTHER_AXES * len(others), size)])
                )
        return tensor

    def batches(self, tensor: Tensor, order: Tensor) -> Tensor:
        """The examples `order` (int64 [n])."""
        return tensor.index_select(self.axes.index("batch"), order) if "batch" in self.axes else tensor

    def mixed(self, tensor: Tensor, other: Tensor, outside: Tensor) -> Tensor:
        """`tensor` with the values of `other` wherever a token is outside.

        Args:
            tensor: the values to keep.
            other: the values to take, of the same shape.
            outside: bool [b, x], the tokens to change; a pair changes when either of its tokens is one.
        """
        changed = torch.zeros(1, dtype=torch.bool)
        for axis in self.tokens:
            shape = [1] * tensor.dim()
            shape[axis] = outside.shape[1]
            if "batch" in self.axes:
                shape[self.axes.index("batch")] = outside.shape[0]
                changed = changed | outside.reshape(shape)
            else:
                changed = changed | outside[0].reshape(shape)
        return torch.where(changed, other, tensor)


def plain_view(kind: str, batch: int, length: int) -> View:
    """A view without padding: half of the tokens are prefix, and every pair is in the relation."""
    prefix = torch.full((batch,), (length + 1) // 2) if kind == "prefix" else None
    relation = torch.ones(batch, length, length, dtype=torch.bool) if kind == "relation" else None
    return View(kind=kind, batch=batch, length=length, prefix=prefix, relation=relation)


def both(slots: Iterable[Slot], tensors: Iterable[Tensor]) -> list[tuple[Slot, Tensor]]:
    """Slots beside their tensors; the two must be equally many."""
    return list(zip(slots, tensors, strict=True))


def unpadded(view: View, i: int) -> Tensor:
    """int64 [r]: where example i has real tokens."""
    return torch.arange(view.length) if view.real is None else view.real[i].nonzero().squeeze(1)
