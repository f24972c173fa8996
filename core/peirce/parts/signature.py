"""What goes into a model and what comes out: names, dtypes, symbolic dims and meanings.

Training, verification, ONNX names, TensorRT profiles and Triton's config are all derived from one `Signature`.
This module knows neither torch nor numpy, so that a runtime can read a signature without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, final

from attrs import asdict, field, frozen

from peirce.errors import PlanError

Dtype = Literal["int64", "bool", "float"]
"""`float` is the model's own floating dtype: float32, float16 or bfloat16, and float64 in tests."""


def _dims(dims: Iterable[str | int]) -> tuple[str | int, ...]:
    return tuple(dims)


@final
@frozen(kw_only=True)
class TensorSpec:
    """One named tensor at the model's boundary.

    Args:
        name: the name in torch, in the ONNX graph and in a session.
        dtype: `int64`, `bool`, or `float` for the model's own floating dtype.
        dims: one entry an axis; a string is symbolic (`batch`, `length`), an integer is fixed. A sum of an output, such
            as `past + 1`, follows from the dims of the inputs.
        required: whether torch callers must give it; every declared input is an input of the exported graph.
        meaning: one sentence for the reader of `peirce describe`.
        high: for integers, the exclusive upper bound of valid values; None when there is none.
        default: the value that an absent optional input is filled with.
        masks: of a padding mask, the dim whose padding it marks: it is true at real tokens. Generation, verification
            and servers find the mask of a dim by it.
        largest: the largest size of each symbolic dim that has one, such as the length that positions are made for;
            one input that has the dim says it for all.

    Raises:
        PlanError: `masks` or `largest` names a dim that the tensor does not have.
    """

    name: str
    dtype: Dtype
    dims: tuple[str | int, ...] = field(converter=_dims)
    required: bool = True
    meaning: str = ""
    high: int | None = None
    default: float | bool | None = None
    masks: str | None = None
    largest: Mapping[str, int] = field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        for dim in (*(() if self.masks is None else (self.masks,)), *self.largest):
            if dim not in self.dims:
                raise PlanError(
                    f"tensor {self.name!r} has no dim {dim!r}, which its `masks` or `largest` names; its dims are "
                    f"{', '.join(map(str, self.dims))}"
                )


def _specs(specs: Iterable[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(specs)


@final
@frozen
class Signature:
    """The ordered inputs and outputs of a model; the order is the order of the ONNX graph."""

    inputs: tuple[TensorSpec, ...] = field(converter=_specs)
    outputs: tuple[TensorSpec, ...] = field(converter=_specs)

    def input(self, name: str) -> TensorSpec:
        """The input called `name`; KeyError if there is none."""
        return {spec.name: spec for spec in self.inputs}[name]

    def output(self, name: str) -> TensorSpec:
        """The output called `name`; KeyError if there is none."""
        return {spec.name: spec for spec in self.outputs}[name]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic dims, in order of first appearance; of a sum, those that it adds."""
        seen: dict[str, None] = {}
        for dim in (
            dim for spec in (*self.inputs, *self.outputs) for dim in spec.dims if isinstance(dim, str)
        ):
            seen.update(dict.fromkeys(term for term in dim_terms(dim) if not term.isdigit()))
        return tuple(seen)

    @property
    def largest(self) -> dict[str, int]:
        """The largest size of each symbolic dim that has one, as the inputs say it."""
        found: dict[str, int] = {}
        for symbol, size in (item for spec in self.inputs for item in spec.largest.items()):
            found[symbol] = min(size, found.get(symbol, size))
        return found

    def mask(self, name: str) -> TensorSpec | None:
        """The input that marks the padding among the tokens of the input `name`; None if there is none."""
        return next((spec for spec in self.inputs if spec.masks in self.input(name).dims), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, for JSON and for the metadata of an exported graph."""
        return {"inputs": [asdict(s) for s in self.inputs], "outputs": [asdict(s) for s in self.outputs]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Signature:
        """The inverse of `to_dict`; version 0.1 knew masks by their names and wrote no `masks`."""
        inputs = [TensorSpec(**{"masks": _MASKS.get(s["name"]), **s}) for s in data["inputs"]]
        return cls(inputs, [TensorSpec(**s) for s in data["outputs"]])


_MASKS = {"attention_mask": "length", "decoder_attention_mask": "target_length"}
"""The masks of version 0.1, each with its dim."""


def dim_terms(dim: str) -> list[str]:
    """The terms of a symbolic dim, sorted: itself, or those of a sum such as `past + 1`."""
    return sorted(term.strip() for term in dim.split("+"))


def merge_specs(groups: Iterable[tuple[str, Iterable[TensorSpec]]]) -> tuple[TensorSpec, ...]:
    """Join the tensors that several parts declare, in order, each name once.

    Args:
        groups: pairs of an owner's name (for the error) and the tensors that it declares.

    Raises:
        PlanError: one name is declared with two dtypes or two shapes.
    """
    merged: dict[str, tuple[str, TensorSpec]] = {}
    for owner, specs in groups:
        for spec in specs:
            first_owner, first = merged.setdefault(spec.name, (owner, spec))
            if (first.dtype, first.dims) != (spec.dtype, spec.dims):
                raise PlanError(
                    f"input {spec.name!r} is {first.dtype} {list(first.dims)} for {first_owner} but "
                    f"{spec.dtype} {list(spec.dims)} for {owner}; one of the two must use another name"
                )
    return tuple(spec for _, spec in merged.values())
