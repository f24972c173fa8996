"""Templates with less in them, whose answers say what a part of a query does."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve
from peirce_kg.engine.template import Slot, Template


def without(template: Template, dropped: Slot) -> Template:
    """The same with one negated atom taken for true."""
    kept = tuple(tuple(slot for slot in c if slot != dropped) for c in template.conjunctions)
    return evolve(template, conjunctions=kept)


def only(template: Template, conjunctions: Iterable[int]) -> Template:
    """The same with some of the conjunctions only."""
    return evolve(template, conjunctions=tuple(template.conjunctions[i] for i in conjunctions))
