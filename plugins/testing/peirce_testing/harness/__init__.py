"""A part as checks see it, and how many of it there are: one for its example options, and one for each other choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from peirce.errors import PeirceError
from peirce.registry import Registered, Registry
from peirce_testing.compare import BrokenError
from peirce_testing.examples import BASE, SCOPE_KINDS, dims_of
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import EXAMPLE, Harness
from peirce_testing.harness.sized import HARNESSES, refusal
from peirce_testing.options import choices, example_options, few_values, given_fields, variations, with_value
from peirce_testing.tiny_models import fit_scope, tiny_spec

OTHER_NUMBERS, SEVERAL = "other numbers", "several other options at once"
"""Labels of a part whose options have other numbers than its example, and of one where all options that can do."""
SEVERAL_SIZES = dims_of(4, 4, 6, 5)
"""The sizes there: four heads, which groups share, and channels that are divided into two or three groups."""
ROWS = 4
"""How many such sets of options are tried at most."""


def _other_options(part: type[Any], options: Any) -> Iterator[tuple[str, Any]]:
    """Options whose numbers are other ones, as far as the part takes them; then such in which other choices meet."""
    numbers = options
    for name, values in _values(variations(options)).items():
        numbers = _first_taken(
            part, numbers, name, [v for v in values if not isinstance(v, bool | str | None)]
        )
    if numbers != options:
        yield OTHER_NUMBERS, numbers
    few = few_values(options)
    known = [options, numbers, *(each for _, each in choices(options))]
    for row in range(ROWS if len(few) > 1 or (few and numbers != options) else 0):
        several = numbers
        for place, (name, values) in enumerate(few.items()):
            start = (
                row // (len(values) ** (place % 2)) % len(values)
            )  # so that any two values of two options meet
            several = _first_taken(part, several, name, values[start:] + values[:start])
        if several not in known:
            known.append(several)
            yield SEVERAL, several


def _values(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _first_taken(part: type[Any], options: Any, name: str, values: Iterable[Any]) -> Any:
    """The options with the first of some values of one field that the part takes; as they are if it takes none."""
    for value in values:
        with suppress(TypeError, ValueError, PeirceError):
            other = with_value(options, name, value)
            if refusal(part, other, SEVERAL_SIZES) is None:
                return other
    return options


def harnesses_of(entry: Registered, registry: Registry, effort: float = 1.0) -> Iterator[Harness]:
    """The part with its example options, then with each other choice of an option that has a few.

    Args:
        entry: the part.
        registry: where others are looked up.
        effort: how many examples the first is tried on, as a factor; the others get half of them or fewer.
    """
    part, options = entry.part, example_options(entry.part)
    several = [(EXAMPLE, options), *choices(options)]
    with suppress(TypeError, ValueError):  # not every option has a default
        plain = part.Options()
        known = [each for _, each in several]
        if entry.kind != "architectures" and plain not in known and _says_more(plain, options):
            several.append(("its defaults", plain))
    if entry.kind != "architectures" and effort >= 1:
        several += _other_options(part, options)
    for i, (label, chosen) in enumerate(several):
        share = effort if i == 0 else effort / (3 if label == SEVERAL else 2)
        if entry.kind == "architectures":
            # Every kind of scope once; the other choices in the two scopes that differ most, or in a quick run in one.
            specs, first = {}, None
            for kind in SCOPE_KINDS if i == 0 else ("bidirectional", "causal"):
                try:
                    specs[kind] = fit_scope(tiny_spec(part, chosen, scope=kind), registry)
                except PeirceError as error:
                    first = first or error
                if specs and i > 0 and effort < 1:
                    break
            if i == 0 and not specs:
                raise BrokenError(f"a tiny model of it cannot be composed: {first}") from first
            yield ArchitectureHarness(part, chosen, label, effort=share, specs=specs, registry=registry)
            continue
        kind_of = next(found for base, found in HARNESSES.items() if issubclass(part, base))
        sizes = SEVERAL_SIZES if label in (OTHER_NUMBERS, SEVERAL) else BASE
        harness = kind_of(part, chosen, label, sizes, effort=share)
        refused = refusal(part, chosen, harness.dims)
        if refused is None:
            yield harness
        elif i == 0:
            raise BrokenError(f"check refuses the part's example options at {harness.dims}: {refused}")


def _says_more(plain: Any, options: Any) -> bool:
    """Whether defaults differ from the example in more than how great numbers are, which the check `defaults` tries."""
    pairs = [(getattr(plain, f.name), getattr(options, f.name)) for f in given_fields(plain)]
    return not all(a == b or (type(a) is type(b) in (int, float) and a and b) for a, b in pairs)
