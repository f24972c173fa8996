"""A part as checks see it, and how many of it there are: one for its example options, and one for each other choice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs

from peirce.errors import PeirceError
from peirce.registry import Registered, Registry
from peirce_testing.compare import BrokenError
from peirce_testing.examples import BASE, SCOPE_KINDS
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import EXAMPLE, Harness
from peirce_testing.harness.sized import HARNESSES, refusal
from peirce_testing.options import choices, example_options, given_fields, variations
from peirce_testing.tiny_models import fit_scope, tiny_spec

OTHER_NUMBERS = "other numbers"
"""The label of a part whose options have other numbers than its example."""


def _other_numbers(part: type[Any], options: Any) -> Any:
    """Options whose numbers are other ones, as far as the part takes them."""
    tried: set[str] = set()
    for name, value in variations(options):
        if name not in tried and not isinstance(value, bool | str):
            with suppress(TypeError, ValueError, PeirceError):
                other = attrs.evolve(options, **{attrs.fields_dict(type(options))[name].alias or name: value})
                if refusal(part, other, BASE) is None:
                    options = other
                    tried.add(name)
    return options


def harnesses_of(entry: Registered, registry: Registry, effort: float = 1.0) -> Iterator[Harness]:
    """The part with its example options, then with each other choice of an option that has a few.

    Args:
        entry: the part.
        registry: where others are looked up.
        effort: how many examples the first is tried on, as a factor; the others get half of them.
    """
    part, options = entry.part, example_options(entry.part)
    several = [(EXAMPLE, options), *choices(options)]
    with suppress(TypeError, ValueError):  # not every option has a default
        plain = part.Options()
        known = [each for _, each in several]
        if entry.kind != "architectures" and plain not in known and _says_more(plain, options):
            several.append(("its defaults", plain))
    if entry.kind != "architectures" and effort >= 1 and (others := _other_numbers(part, options)) != options:
        several.append((OTHER_NUMBERS, others))
    for i, (label, chosen) in enumerate(several):
        share = effort if i == 0 else effort / 2
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
        harness = kind_of(part, chosen, label, effort=share)
        refused = refusal(part, chosen, harness.dims)
        if refused is None:
            yield harness
        elif i == 0:
            raise BrokenError(f"check refuses the part's example options at {harness.dims}: {refused}")


def _says_more(plain: Any, options: Any) -> bool:
    """Whether defaults differ from the example in more than how great numbers are, which the check `defaults` tries."""
    pairs = [(getattr(plain, f.name), getattr(options, f.name)) for f in given_fields(plain)]
    return not all(a == b or (type(a) is type(b) in (int, float) and a and b) for a, b in pairs)
