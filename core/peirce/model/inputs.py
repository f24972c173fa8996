"""A model's inputs, checked once at its boundary: by the model in torch, by a session, and by a server in front of it.

This module knows neither torch nor numpy, so that a session refuses by it what the model refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

from peirce.errors import InputError, OutOfMemoryError, lacks_memory, unknown
from peirce.parts import Signature, TensorSpec, dim_terms
from peirce.resources import machine_memory

_LIVE = 2
"""Tensors of the largest kind that exist at once at least: what a layer reads, and what it writes."""
_ITEM_BYTES = {"int64": 8, "bool": 1}
_KNOWN_SIZES = 4096
"""How many sizes of batches that fit into memory are remembered."""


@final
class Inputs:
    """The inputs that a model takes; a batch is checked once, here, and trusted further inside.

    Args:
        signature: of the model.
        kinds: the classes of arrays that hold an input.
        dtypes: the arrays' dtype of each input; one that is not named here is a floating one of any width.
        bounds: the least and the greatest value of an array; None where its values are not at hand, as on a GPU.
        float_bytes: returns the bytes of a floating number, or None where outputs are not in this machine's memory.
    """

    def __init__(
        self,
        signature: Signature,
        kinds: Any,
        dtypes: Mapping[str, Any],
        bounds: Callable[[Any], tuple[Any, Any] | None],
        float_bytes: Callable[[], int | None],
    ) -> None:
        self.signature = signature
        self._specs = {spec.name: spec for spec in signature.inputs}
        self._required = [spec for spec in signature.inputs if spec.required]
        self._kinds, self._dtypes, self._bounds, self._float_bytes = kinds, dtypes, bounds, float_bytes
        self._fitting: set[tuple[Any, ...]] = set()

    def check(self, batch: Mapping[str, Any]) -> dict[str, int]:
        """Refuse a batch that the signature does not allow, or whose outputs do not fit into this machine's memory.

        Args:
            batch: arrays by the name of their input; optional ones may be absent.

        Returns:
            The size of each symbolic dim.

        Raises:
            InputError: an unknown or missing input, or a dtype, size or value that it cannot have.
        """
        sizes = self.check_shapes(batch)
        for name, array in batch.items():
            spec = self._specs[name]
            if spec.high is not None and (found := self._bounds(array)) is not None:
                low, high = found
                if low < 0 or high >= spec.high:
                    wrong = int(low if low < 0 else high)
                    raise InputError(
                        f"input {name!r} contains {wrong}, but valid values are 0 to {spec.high - 1}"
                    )
        key = tuple(sizes.values())
        if key not in self._fitting:
            check_sizes(self.signature, sizes, self._float_bytes())
            if len(self._fitting) < _KNOWN_SIZES:
                self._fitting.add(key)
        return sizes

    def check_shapes(self, batch: Mapping[str, Any]) -> dict[str, int]:
        """As `check`, without a look at values or memory: what a compiled model checks once for each of its graphs."""
        sizes: dict[str, int] = {}
        for name, array in batch.items():
            spec = self._specs.get(name)
            if spec is None:
                raise InputError(unknown("input", name, self._specs))
            if not isinstance(array, self._kinds):
                raise InputError(self._type_message(spec, array))
            dtype, shape = self._dtypes.get(name), array.shape
            if dtype is not None and array.dtype != dtype:
                raise InputError(
                    f"input {name!r} is {_dtype_name(array.dtype)}, but the model takes {_dtype_name(dtype)}; "
                    "convert it"
                )
            if len(shape) != len(spec.dims):
                raise _shape_error(spec, shape, f"the model takes {_dims_text(spec)}: {len(spec.dims)} dims")
            for axis, (dim, size) in enumerate(zip(spec.dims, shape, strict=True)):
                if not size:
                    message = f"dim {axis} ({dim}) must be at least 1"
                    raise _shape_error(spec, shape, message)
                known = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
                if size != known:
                    owner = next(other for other in batch if dim in self._specs[other].dims)
                    because = f"that is the {dim!r} of {owner!r}" if isinstance(dim, str) else "it is fixed"
                    raise _shape_error(
                        spec, shape, f"dim {axis} of {_dims_text(spec)} must be {known}: {because}"
                    )
        for spec in self._required:
            if spec.name not in batch:
                raise InputError(self._missing_message(spec))
        return sizes

    def defaults(
        self, batch: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> Iterator[tuple[TensorSpec, list[int]]]:
        """The absent inputs of a checked batch, each with the shape of its default.

        Raises:
            InputError: one has no default, or no given input says how large it is.
        """
        for spec in self.signature.inputs:
            if spec.name in batch:
                continue
            if spec.default is None:
                raise InputError(self._missing_message(spec))
            if free := [dim for dim in spec.dims if isinstance(dim, str) and dim not in sizes]:
                why = f"no other input tells the size of {', '.join(free)}"
                raise InputError(f"input {spec.name!r} is missing, and {why}; give it")
            yield spec, [dim if isinstance(dim, int) else sizes[dim] for dim in spec.dims]

    def _type_message(self, spec: TensorSpec, value: object) -> str:
        kind = self._kinds[0] if isinstance(self._kinds, tuple) else self._kinds
        optional = "; leave it out instead" if value is None and not spec.required else ""
        return f"input {spec.name!r} must be a {kind.__name__}, and is a {type(value).__name__}{optional}"

    def _missing_message(self, spec: TensorSpec) -> str:
        dtype = self._dtypes.get(spec.name)
        kind = spec.dtype if dtype is None else _dtype_name(dtype)
        meaning = f", {spec.meaning}" if spec.meaning else ""
        return f"input {spec.name!r} is missing: {kind} {_dims_text(spec)}{meaning}"


def check_sizes(signature: Signature, sizes: Mapping[str, int], float_bytes: int | None) -> None:
    """Refuse inputs that are longer than a model reads, or whose outputs do not fit into the memory of this machine.

    Args:
        signature: of the model.
        sizes: of its symbolic dims, as the inputs have them.
        float_bytes: the bytes of a floating number; None where outputs are not in this machine's memory.

    Raises:
        InputError: names the dim or the output, with both numbers.
    """
    largest = signature.largest
    for symbol, size in sizes.items():
        if size > largest.get(symbol, size):
            raise InputError(
                f"the {symbol} of the inputs is {size:,}, and the model reads at most {largest[symbol]:,} "
                "(model.input.max_length of its spec); shorten them, or raise model.input.max_length and train again"
            )
    if float_bytes is None:
        return
    needed, name = max(
        ((_bytes(spec, sizes, float_bytes), spec.name) for spec in signature.outputs), default=(0, "")
    )
    memory = machine_memory()
    if _LIVE * needed > memory:
        shown = ", ".join(f"{symbol} {size:,}" for symbol, size in sizes.items())
        raise InputError(
            f"inputs of {shown} need at least {_LIVE * needed / 1e9:,.1f} GB of memory, since {name!r} alone has "
            f"{needed / 1e9:,.1f} GB; this machine has {memory / 1e9:,.1f} GB: give fewer or shorter rows at a time"
        )


def free_tokens(signature: Signature, name: str, length: int) -> int | None:
    """How many tokens a model may append to an input of a length, padding included; None for any number.

    The last of them is not read again.
    """
    largest = signature.largest
    bounds = [largest[dim] for dim in signature.input(name).dims if isinstance(dim, str) and dim in largest]
    return min(bounds) - length + 1 if bounds else None


def refuse_if_out_of_memory(error: Exception, batch: Mapping[str, Any]) -> None:
    """Turn an error that means that memory ran out into one with the shapes of the batch and advice; else do nothing.

    Raises:
        OutOfMemoryError: torch or the runtime of a file had not enough memory.
    """
    if isinstance(error, OutOfMemoryError) or not lacks_memory(error):
        return
    shown = ", ".join(f"{name} {list(array.shape)}" for name, array in batch.items())
    cause = " ".join(str(error).split())[:200] or type(error).__name__
    raise OutOfMemoryError(
        f"there is not enough memory for the inputs {shown} ({cause}); give fewer or shorter rows at a time"
    ) from error


def _bytes(spec: TensorSpec, sizes: Mapping[str, int], float_bytes: int) -> int:
    """The bytes of an output; a dim whose size no input tells counts as 1."""
    count = _ITEM_BYTES.get(spec.dtype, float_bytes)
    for dim in spec.dims:
        if isinstance(dim, str):
            dim = sum(int(term) if term.isdigit() else sizes.get(term, 0) for term in dim_terms(dim))
        count *= max(dim, 1)
    return count


def _shape_error(spec: TensorSpec, shape: tuple[int, ...], what: str) -> InputError:
    return InputError(f"input {spec.name!r} has shape {list(shape)}, but {what}")


def _dtype_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _dims_text(spec: TensorSpec) -> str:
    return f"[{', '.join(map(str, spec.dims))}]"
