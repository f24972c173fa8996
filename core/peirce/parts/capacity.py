"""Whether inputs fit a model and this machine: by its signature, before memory is asked for, and when memory runs out.

This module knows neither torch nor numpy, so that a session refuses by it what the model refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from peirce.errors import InputError, OutOfMemoryError, lacks_memory
from peirce.parts.signature import Signature, TensorSpec, terms
from peirce.resources import machine_memory

_LIVE = 2
"""Tensors of the largest kind that exist at once at least: what a layer reads, and what it writes."""
_ITEM = {"int64": 8, "bool": 1}


def check_sizes(signature: Signature, sizes: Mapping[str, int], item: int | None) -> None:
    """Refuse inputs that are longer than a model reads, or whose outputs no memory of this machine holds.

    Args:
        signature: of the model.
        sizes: of its symbolic dims, as the inputs have them.
        item: bytes of a floating number; None where this machine's memory is not what counts, as on an accelerator.

    Raises:
        InputError: names the dim or the output, with both numbers.
    """
    largest = signature.largest
    for symbol, size in sizes.items():
        if size > largest.get(symbol, size):
            raise InputError(_too_long(symbol, size, largest[symbol]))
    if item is None:
        return
    needed, name = max(
        ((_bytes(spec, sizes, item), spec.name) for spec in signature.outputs), default=(0, "")
    )
    memory = machine_memory()
    if _LIVE * needed > memory:
        shown = ", ".join(f"{symbol} {size:,}" for symbol, size in sizes.items())
        raise InputError(
            f"inputs of {shown} need at least {_LIVE * needed / 1e9:,.1f} GB of memory, since {name!r} alone has "
            f"{needed / 1e9:,.1f} GB; this machine has {memory / 1e9:,.1f} GB: give fewer or shorter rows at a time"
        )


def room(signature: Signature, name: str, length: int) -> int | None:
    """How many tokens a model may append to an input; the last of them is not read again. None for any number.

    Args:
        signature: of the model.
        name: the input that tokens are appended to.
        length: how long it is, padding included.
    """
    largest = signature.largest
    bounds = [largest[dim] for dim in signature.input(name).dims if isinstance(dim, str) and dim in largest]
    return min(bounds) - length + 1 if bounds else None


@contextmanager
def within_memory(shapes: Callable[[], Mapping[str, Sequence[int]]]) -> Iterator[None]:
    """Within it, a lack of memory is an error that names the inputs' shapes and says what to do.

    Args:
        shapes: of the inputs by name.

    Raises:
        OutOfMemoryError: torch or the runtime of a file had not enough memory.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OutOfMemoryError) or not lacks_memory(error):
            raise
        shown = ", ".join(f"{name} {list(shape)}" for name, shape in shapes().items())
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise OutOfMemoryError(
            f"there is not enough memory for the inputs {shown} ({cause}); give fewer or shorter rows at a time"
        ) from error


def _too_long(symbol: str, size: int, most: int) -> str:
    return (
        f"the {symbol} of the inputs is {size:,}, and the model reads at most {most:,} (model.input.max_length of its "
        "spec); shorten them, or raise model.input.max_length and train again"
    )


def _bytes(spec: TensorSpec, sizes: Mapping[str, int], item: int) -> int:
    """Bytes of an output; a dim that no input tells counts as one."""
    count = _ITEM.get(spec.dtype, item)
    for dim in spec.dims:
        added = [dim] if isinstance(dim, int) else [_size(term, sizes) for term in terms(dim)]
        count *= max(sum(added), 1)
    return count


def _size(term: str, sizes: Mapping[str, int]) -> int:
    return int(term) if term.isdigit() else sizes.get(term, 0)
