"""Optimisation profiles: the sizes that an engine is built for, by symbolic dim, from the signature.

Nothing here needs TensorRT or torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from peirce.errors import InputError, check_known
from peirce.files import parse_integer
from peirce.parts import Signature, TensorSpec, dim_terms

BATCH, LENGTH = (1, 8, 32), (1, 128, 512)
"""Sizes of `batch`, and of any other dim that states no largest one, where the user names none."""


@frozen
class Range:
    """The sizes of one dim: the smallest, the one that tactics are chosen for, the largest."""

    least: int
    best: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}:{self.best}:{self.most}"

    def __contains__(self, size: int) -> bool:
        return self.least <= size <= self.most


Profile = Mapping[str, Range]
"""A range for each symbolic dim of a signature's inputs."""


def profiles(signature: Signature, texts: Sequence[str] = ()) -> tuple[Profile, ...]:
    """The profiles of an engine.

    A dim that no text names has a default: batches of 1 to 32, lengths from 1 to the largest that the signature states.

    Args:
        signature: of the graph; its `largest` bounds every range.
        texts: each `DIM=MIN:OPT:MAX`, or `DIM=SIZE` for one size, several joined by commas. A dim that is named again
            begins the next profile, which keeps the other ranges of the one before.

    Raises:
        InputError: no such dim, sizes that do not rise, or more than the signature allows.
    """
    symbols = signature.symbols
    first = {symbol: _default(symbol, signature.largest.get(symbol)) for symbol in symbols}
    found, named = [first], set[str]()
    for text in (part for group in texts for part in group.split(",")):
        symbol, sizes = _parse(text, symbols, signature.largest)
        if symbol in named:
            found, named = [*found, dict(found[-1])], set()
        found[-1][symbol] = sizes
        named.add(symbol)
    return tuple(found)


def shapes(spec: TensorSpec, profile: Profile) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The smallest, the best and the largest shape of an input; a dim that is a sum adds its terms' sizes."""

    def shape(size: str) -> tuple[int, ...]:
        def term(text: str) -> int:
            return int(text) if text.isdigit() else getattr(profile[text], size)

        return tuple(sum(map(term, dim_terms(str(dim)))) for dim in spec.dims)

    return shape("least"), shape("best"), shape("most")


def choose(found: Sequence[Profile], sizes: Mapping[str, int]) -> int:
    """The number of the profile that sizes, by symbolic dim, fit: of several, the one whose best sizes are nearest.

    Raises:
        InputError: no profile has these sizes; it names the dims that lie outside.
    """
    fitting = [i for i, each in enumerate(found) if all(size in each[dim] for dim, size in sizes.items())]
    if fitting:
        return min(fitting, key=lambda i: sum(abs(found[i][dim].best - size) for dim, size in sizes.items()))
    outside = [dim for dim, size in sizes.items() if not any(size in each[dim] for each in found)]
    wanted = ", ".join(f"{dim} {sizes[dim]}" for dim in outside or sizes)
    built = "; ".join(", ".join(f"{dim}={each[dim]}" for dim in outside or sizes) for each in found)
    raise InputError(
        f"the engine was not built for {wanted}: its profiles have {built} (min:opt:max); give other sizes, or build "
        "it again with --profile"
    )


def _default(symbol: str, most: int | None) -> Range:
    least, best, top = BATCH if symbol == "batch" else LENGTH
    top = top if most is None else most
    return Range(min(least, top), min(best, max(1, top // 4) if symbol != "batch" else top), top)


def _parse(text: str, symbols: Sequence[str], largest: Mapping[str, int]) -> tuple[str, Range]:
    symbol, equals, written = (piece.strip() for piece in text.partition("="))
    sizes = written.split(":")
    counts = [count for size in sizes if (count := parse_integer(size.strip())) is not None]
    if not equals or len(sizes) not in (1, 3) or len(counts) < len(sizes):
        raise InputError(
            f"profile {text!r} is not DIM=MIN:OPT:MAX with three sizes, such as length=8:128:512, nor DIM=SIZE"
        )
    check_known("symbolic dim of the inputs", symbol, symbols)
    least, best, most = counts if len(counts) == 3 else counts * 3
    if not 1 <= least <= best <= most:
        raise InputError(f"profile {text!r}: sizes must rise from 1, MIN <= OPT <= MAX")
    if most > largest.get(symbol, most):
        raise InputError(
            f"profile {text!r}: the model takes a {symbol} of {largest[symbol]} at most; lower MAX to it"
        )
    return symbol, Range(least, best, most)
