"""What one example of a check runs on: sizes, who sees whom, and tensors that can be padded, permuted and cut off.

A `View` is what a scope and the positions of tokens are made of. A `Slot` says which axes of a tensor count examples
and tokens. Everything is tiny: a contract that breaks, breaks at length 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from attrs import evolve, frozen
from torch import Tensor

from peirce.algebra import Scope
from peirce.parts import Dims

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""The dtypes that a model may have."""
SCOPE_KINDS = ("bidirectional", "causal", "prefix", "relation")
"""The kinds of scope that a spec may ask for."""
BASE = Dims(
    layers=2, unary=4, binary=3, heads=2, head_size=2, feedforward_unary=5, feedforward_binary=5,
    recurrent=3, pooled=7, vocabulary=11, token_types=2, max_length=40, pad_id=0,
)  # fmt: skip
"""The sizes that checks begin with: small, and different where nothing forces them to be equal."""
SHAPES = ((1, 1), (2, 2), (4, 2), (1, 3), (3, 2), (2, 3))
"""Numbers of heads and their sizes, the smallest first; of four heads, groups of two may share one of keys."""
OTHER_AXES = 2
"""The size of symbolic axes other than batch and length."""


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
        places: int64 [b, x], the positions of tokens that stand in another order; counted where it is None.
    """

    kind: str
    batch: int
    length: int
    real: Tensor | None = None
    prefix: Tensor | None = None
    relation: Tensor | None = None
    device: str = "cpu"
    places: Tensor | None = None

    @property
    def index(self) -> Tensor:
        """int64 [b or 1, x]: positions, counted over real tokens."""
        if self.places is not None:
            return self.places
        if self.real is None:
            return torch.arange(self.length, device=self.device).unsqueeze(0)
        return (self.real.long().cumsum(1) - 1).clamp_min(0)

    @property
    def given(self) -> dict[str, Tensor]:
        """The inputs of a model that say who sees whom, but for the mask."""
        named = {"prefix_length": self.prefix, "relation": self.relation}
        return {name: value for name, value in named.items() if value is not None}

    def scope(self) -> Scope:
        """The scope as the composer makes it, with its fast forms."""
        scope = Scope.padding(self.real).at(self.index, self.index)
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

    def real_places(self, i: int) -> Tensor:
        """int64 [r]: where example i has real tokens."""
        return torch.arange(self.length) if self.real is None else self.real[i].nonzero().squeeze(1)

    def example(self, i: int, where: Tensor) -> View:
        """Example i alone, only its tokens `where` (int64 [r]), none of them padding."""
        relation = None if self.relation is None else self.relation[i : i + 1, where][:, :, where]
        prefix = None if self.prefix is None else self.prefix[i : i + 1]
        return View(self.kind, 1, len(where), prefix=prefix, relation=relation)

    def until(self, cut: int) -> View:
        """The first tokens, which see nothing of those after them."""
        cuts: Any = {n: None if (t := getattr(self, n)) is None else t[:, :cut] for n in ("real", "places")}
        return evolve(self, length=cut, **cuts)

    def reorder(self, order: Tensor) -> View:
        """The tokens in another order, as a relation: causal and prefix scopes know no other order."""
        scope = self.allowed()[:, order][:, :, order]
        real = None if self.real is None else self.real[:, order]
        return View(
            "relation",
            self.batch,
            self.length,
            real,
            relation=scope,
            places=self.index.expand(self.batch, -1)[:, order],
        )

    def batches(self, order: Tensor) -> View:
        """The examples in another order, or some of them (int64 [n])."""
        return self._changed(lambda value: value[order], batch=len(order))

    def on(self, device: str) -> View:
        """The view with its tensors on a device."""
        return self._changed(lambda value: value.to(device), device=device)

    def _changed(self, change: Callable[[Tensor], Tensor], **others: Any) -> View:
        named = {"real": self.real, "prefix": self.prefix, "relation": self.relation, "places": self.places}
        tensors: Any = {name: change(value) for name, value in named.items() if value is not None}
        return evolve(self, **tensors, **others)

    def __str__(self) -> str:
        parts = [f"{self.kind} scope, batch {self.batch}, length {self.length}"]
        named = {"real tokens": self.real, "prefix lengths": self.prefix, "pairs": self.relation}
        for name, value in named.items():
            if value is not None and value.numel() <= 72:
                parts.append(f"{name} {value.int().tolist()}")
        return ", ".join(parts)


def plain_view(kind: str, batch: int, length: int, real: Tensor | None = None) -> View:
    """A view in which half of the tokens are prefix, and every pair is in the relation."""
    prefix = torch.full((batch,), (length + 1) // 2) if kind == "prefix" else None
    relation = torch.ones(batch, length, length, dtype=torch.bool) if kind == "relation" else None
    return View(kind, batch, length, real, prefix, relation)


PADDED = torch.tensor([[True, True, True, False], [False, True, True, True]])
"""Two examples of four tokens, with padding on the right and on the left."""
UNEVEN = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 1, 1]]).bool()
"""Four examples, padded on either side, whose lengths sort in an order that is not its own inverse, up and down."""


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


class Tensors(list[tuple[Slot, Tensor]]):
    """The tensors that a part reads or gives, each beside what its axes count."""

    def map(self, change: Callable[[Slot, Tensor], Tensor]) -> Tensors:
        """The tensors after a change of each."""
        return Tensors((slot, change(slot, tensor)) for slot, tensor in self)

    def pick(self, where: Tensor) -> Tensors:
        """The tokens `where` (int64 [r]) along every axis of tokens, and all of what a sum adds to them."""

        def picked(slot: Slot, tensor: Tensor) -> Tensor:
            for i, axis in enumerate(slot.axes):
                first, *others = str(axis).split(" + ")
                if first == "length":
                    size = tensor.shape[i]
                    rest = torch.arange(size - OTHER_AXES * len(others), size)
                    tensor = tensor.index_select(i, torch.cat([where, rest]))
            return tensor

        return self.map(picked)

    def batches(self, order: Tensor) -> Tensors:
        """The examples `order` (int64 [n])."""
        return self.map(lambda s, t: t.index_select(s.axes.index("batch"), order) if "batch" in s.axes else t)

    def example(self, i: int, where: Tensor) -> Tensors:
        """Example i alone, its tokens `where` only."""
        return self.batches(torch.tensor([i])).pick(where)

    def replaced_where(self, other: Tensors, outside: Tensor) -> Tensors:
        """The values of others wherever a token is outside, bool [b, x]; a pair is where either of its tokens is."""

        def changed(slot: Slot, tensor: Tensor) -> Tensor:
            marks = outside if "batch" in slot.axes else outside[:1]
            shape = [len(marks) if axis == "batch" else 1 for axis in slot.axes]
            every = [marks.reshape(*shape[:at], -1, *shape[at + 1 :]) for at in slot.tokens]
            return sum(every[1:], every[0])

        return Tensors(
            (slot, torch.where(changed(slot, tensor), new, tensor) if slot.tokens else tensor)
            for (slot, tensor), (_, new) in zip(self, other, strict=True)
        )

    def get(self, name: str) -> Tensor:
        """The tensor of a name."""
        return next(tensor for slot, tensor in self if slot.name == name)

    def fill(self, name: str, value: float) -> Tensors:
        """The tensors with one value everywhere under a name."""
        return self.replace_named(name, torch.full_like(self.get(name), value))

    def clone_all(self) -> Tensors:
        """Detached copies."""
        return self.map(lambda slot, tensor: tensor.detach().clone())

    def scale(self, size: float) -> Tensors:
        """The floats times a number."""
        return self.map(lambda slot, tensor: tensor * size if tensor.is_floating_point() else tensor)

    def replace_named(self, name: str, values: Tensor) -> Tensors:
        """The tensors with another one under a name."""
        return self.map(lambda slot, tensor: values if slot.name == name else tensor)

    def leaves(self) -> Tensors:
        """Copies, of which those of floats are leaves that get a gradient."""
        return self.clone_all().map(lambda slot, t: t.requires_grad_() if t.is_floating_point() else t)

    def floats(self) -> dict[str, Tensor]:
        """The tensors of floats, by name."""
        return {slot.name: tensor for slot, tensor in self if tensor.is_floating_point()}


@frozen
class Example:
    """What one example of a property runs on: who sees whom, and the seed of the values."""

    view: View
    seed: int

    def generator(self, salt: int = 0) -> torch.Generator:
        """A generator of the example's values; another salt gives other values."""
        return torch.Generator().manual_seed(self.seed * 1009 + salt)

    def __repr__(self) -> str:
        return f"<{self.view}, seed {self.seed}>"


def dims_of(heads: int, size: int, binary: int, other: int) -> Dims:
    """Sizes of a network whose unary width is its heads times their size, as tied attention heads need."""
    return evolve(
        BASE, heads=heads, head_size=size, unary=heads * size, binary=binary, feedforward_unary=other,
        feedforward_binary=other, recurrent=other, pooled=other + 1,
    )  # fmt: skip


def certain(
    kinds: Sequence[str], padded: bool | None = None, *, empty_rows: bool = False
) -> list[tuple[Example, Dims]]:
    """Examples of each kind of scope, two without padding and four of uneven lengths, each at other sizes.

    Args:
        kinds: the kinds of scope.
        padded: whether there are padding tokens; both when it is absent.
        empty_rows: whether a real token may see nothing, in the kind `relation`.
    """
    related = torch.tensor([[1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1]]).bool()
    if empty_rows:
        related = related & ~torch.tensor([[False], [True], [False], [False]])
    found: list[tuple[Example, Dims]] = []
    for kind in kinds:
        for real in (None, UNEVEN):
            if padded is not None and padded is (real is None):
                continue
            batch = 2 if real is None else len(real)
            prefix = torch.tensor([1, 2, 1, 3])[:batch] if kind == "prefix" else None
            relation = torch.stack([related, related.T] * 2)[:batch] if kind == "relation" else None
            place = len(found)
            heads, size = SHAPES[(place + 1) % len(SHAPES)]
            example = Example(View(kind, batch, 4, real, prefix, relation), place)
            found.append((example, dims_of(heads, size, 1 + place % 4, 1 + (place + 2) % 5)))
    return found


def normal(shape: Sequence[int], generator: torch.Generator, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normally distributed values, the same numbers in every dtype but for rounding."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)
