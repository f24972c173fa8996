"""The options of a part: each does something, and the defaults work."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce.parts import Head, Operator
from peirce.testing.check import Case, check
from peirce.testing.checks.calls import modules
from peirce.testing.checks.declared import NETWORK
from peirce.testing.composed import fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotApplicableError
from peirce.testing.labels import WHOLE_GROUPS, losses
from peirce.testing.options import choices
from peirce.testing.subjects import ArchitectureSubject, HeadSubject, Subject
from peirce.testing.subjects.sized import SizedSubject, refusal
from peirce.testing.views import plain_view
from peirce.testing.watching import Between

WHOLE = (1, 2, 3, 4, 6, 50)
NUMBERS = (0.1, 0.25, 0.5, 0.9, 3.0)
"""Values to try for options that are numbers, beside those near the one that there is."""


@check(
    *NETWORK,
    contract="each option changes something: values, parameters, shapes, the loss, or how it is computed",
)
def options(case: Case) -> None:
    """Other values of one option at a time, from the example's options and from each other choice."""
    silent: dict[str, list[str]] = {}
    for subject in case.subjects:
        before: list[Any] | None = None
        for name, value in _variations(subject.options):
            if silent.get(name) == []:
                continue  # it has done something already
            other = _with(subject, name, value)
            if other is None:
                continue
            before = before if before is not None else list(_seen(_few_scopes(subject)))
            if _differs(before, list(_seen(other))):
                silent[name] = []
            else:
                silent.setdefault(name, []).append(f"{value!r}")
    dead = {name: tried for name, tried in silent.items() if tried}
    if dead:
        said = [
            f"option {name!r} does nothing: {', '.join(tried)} are as {_now(case, name)}"
            for name, tried in dead.items()
        ]
        raise BrokenError("\n".join(said))
    if not silent:
        raise NotApplicableError("it has no options that can be varied")


def _now(case: Case, name: str) -> str:
    return repr(getattr(case.subject.options, name))


def _variations(options: Any) -> Iterator[tuple[str, Any]]:
    """Other values of each option: the other choices, and for numbers some that are smaller and larger."""
    hints = get_type_hints(type(options))
    for field in attrs.fields(type(options)):
        if not field.init:
            continue
        kind, now = hints.get(field.name), getattr(options, field.name)
        kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
        values: list[Any] = []
        for each in kinds:
            if get_origin(each) is Literal:
                values += get_args(each)
            elif each is bool:
                values += [True, False]
            elif each is int:
                near = [] if now is None else [now + 1, now - 1, now * 2, now // 2]
                values += [*near, *WHOLE]
            elif each is float:
                near = [] if now is None else [now * 2, now / 2]
                values += [*near, *NUMBERS]
        for value in dict.fromkeys(values):
            if value != now:
                yield field.name, value


def _with(subject: Subject, name: str, value: Any) -> Subject | None:
    """The subject with another value of an option; None where the part refuses it."""
    field = attrs.fields_dict(type(subject.options))[name]
    with suppress(TypeError, ValueError, PeirceError):
        options = attrs.evolve(subject.options, **{field.alias or name: value})
        if isinstance(subject, ArchitectureSubject):
            few = _few_scopes(subject).specs
            specs = {k: fitting(tiny_spec(subject.part, options, scope=k), subject.registry) for k in few}
            return attrs.evolve(subject, options=options, specs=specs)
        if refusal(subject.part, options, subject.dims) is None:
            return attrs.evolve(subject, options=options)
    return None


def _few_scopes(subject: Subject) -> Any:
    """An architecture in two kinds of scope, so that what is seen of two choices is of the same kinds."""
    if not isinstance(subject, ArchitectureSubject):
        return subject
    return attrs.evolve(subject, specs={kind: subject.specs[kind] for kind in list(subject.specs)[:2]})


def _seen(subject: Subject) -> Iterator[Any]:
    """What can be seen of a part: texts and tensors."""
    initial = subject.make(seed=3, random=False)
    for module in modules(initial):
        yield str([(name, p.requires_grad, tuple(p.shape)) for name, p in module.named_parameters()])
        yield from module.state_dict().values()
    made = subject.make()
    if isinstance(made, Operator):
        yield repr((made.kernel(), made.premise(), made.output()))
    if isinstance(subject, SizedSubject) and not isinstance(made, Operator):
        yield str([str(getattr(made, method)()) for method in ("inputs", "outputs") if hasattr(made, method)])
    if not isinstance(subject, ArchitectureSubject):
        few = attrs.evolve(subject.dims, token_types=1, binary=0, feedforward_binary=0)
        yield str([refusal(subject.part, subject.options, sizes) for sizes in (subject.dims, few)])
    kinds, batch = subject.kinds, WHOLE_GROUPS if isinstance(subject, HeadSubject) else 2
    for kind, length in ((kinds[0], 4), (kinds[-1], 7), (kinds[0], 38)):
        view = plain_view(kind, batch, length)
        tensors = subject.draw(view, torch.Generator().manual_seed(length))
        with Between(()) as counter:
            results = subject.run(made, tensors, view)
        yield str(counter.count)
        yield from (result.detach() for _, result in results)
        if isinstance(subject, HeadSubject) and issubclass(subject.part, Head):
            outputs = subject.predict(made, tensors, view, view.scope())
            yield from (
                loss.detach() for _, _, loss in losses(made, outputs, torch.Generator().manual_seed(0))
            )


def _differs(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return True
    for a, b in zip(one, other, strict=True):
        if isinstance(a, Tensor) != isinstance(b, Tensor):
            return True
        if isinstance(a, Tensor) and (a.shape != b.shape or not torch.equal(a, b)):
            return True
        if not isinstance(a, Tensor) and a != b:
            return True
    return False


@check(
    *NETWORK,
    contract="the defaults of the options work, where all options have one; every choice can be built",
)
def defaults(case: Case) -> None:
    """The part with no options given, where its example gives some; and each choice, built and run."""
    part = case.part
    try:
        plain = part.Options()
    except (TypeError, ValueError):
        plain = None  # an option must be given, or is refused as it is
    subject = case.subject
    tried = [("its defaults", plain)] if plain is not None else []
    tried += list(choices(plain)) if plain is not None and plain != subject.options else []
    if not tried:
        raise NotApplicableError("an option has no default")
    for label, options in tried:
        other: Subject | None
        if isinstance(subject, ArchitectureSubject):
            spec = fitting(tiny_spec(part, options), case.registry)
            other = attrs.evolve(subject, options=options, specs={"bidirectional": spec})
        else:
            refused = refusal(part, options, subject.dims)
            if refused is not None:
                continue
            other = attrs.evolve(subject, options=options)
        if not other.kinds:
            continue
        view = plain_view(other.kinds[0], 2, 4)
        try:
            other.once(other.draw(view, torch.Generator().manual_seed(0)), view)
        except Exception as error:
            error.add_note(f"with {label}")
            raise
