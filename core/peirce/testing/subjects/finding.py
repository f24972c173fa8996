"""The subjects of a registered part: one for its example options, and one for each other choice of an option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peirce.errors import PeirceError
from peirce.parts import Augmenter, Head, Operator, Part, Position, RecurrentOperator, StateOperator
from peirce.registry import Registered, Registry
from peirce.testing.composed import fitting, tiny_spec
from peirce.testing.failures import BrokenError
from peirce.testing.options import choices, example_options
from peirce.testing.subjects.architectures import ArchitectureSubject
from peirce.testing.subjects.augmenters import AugmenterSubject
from peirce.testing.subjects.base import Subject
from peirce.testing.subjects.heads import HeadSubject
from peirce.testing.subjects.operators import OperatorSubject, RecurrentOperatorSubject, StateOperatorSubject
from peirce.testing.subjects.positions import PositionSubject
from peirce.testing.subjects.sized import SizedSubject, refusal
from peirce.testing.views import SCOPE_KINDS

_SIZED: Mapping[type[Part], type[SizedSubject]] = {
    Operator: OperatorSubject,
    StateOperator: StateOperatorSubject,
    RecurrentOperator: RecurrentOperatorSubject,
    Position: PositionSubject,
    Augmenter: AugmenterSubject,
    Head: HeadSubject,
}
"""By contract."""


def subjects_of(entry: Registered, registry: Registry, effort: float = 1.0) -> Iterator[Subject]:
    """The part with its example options, then with each other choice of an option that has a few.

    Args:
        entry: the part.
        registry: where others are looked up.
        effort: how many examples the first is tried on, as a factor; the others get half of them.
    """
    options = example_options(entry.part)
    labelled = [("its example options", options), *choices(options)]
    for i, (label, chosen) in enumerate(labelled):
        share = effort if i == 0 else effort / 2
        if entry.kind == "architectures":
            # Every kind of scope once; the other choices in the two scopes that differ most.
            kinds = SCOPE_KINDS if i == 0 else ("bidirectional", "causal")
            specs = {}
            for kind in kinds:
                try:
                    specs[kind] = fitting(tiny_spec(entry.part, chosen, scope=kind), registry)
                except PeirceError as error:
                    if i == 0 and kind == "bidirectional":
                        raise BrokenError(f"a tiny model of it cannot be composed: {error}") from error
            yield ArchitectureSubject(
                part=entry.part, options=chosen, label=label, effort=share, specs=specs, registry=registry
            )
            continue
        subject = next(found for base, found in _SIZED.items() if issubclass(entry.part, base))(
            entry.part, chosen, label, effort=share
        )
        refused = refusal(entry.part, chosen, subject.dims)
        if refused is None:
            yield subject
        elif i == 0:
            raise BrokenError(f"check refuses the part's example options at {subject.dims}: {refused}")
