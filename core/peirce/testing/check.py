"""What a check is, what it runs on, and how it says that a contract is broken."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import hypothesis
import torch
from attrs import define, frozen
from hypothesis import HealthCheck, Phase, given, settings

from peirce.parts import Dims, Part
from peirce.registry import Registered, Registry
from peirce.testing import strategies
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError
from peirce.testing.strategies import Example
from peirce.testing.subjects import ExporterSubject, Subject, TaskSubject, subjects_of

_OURS = {Path(__file__).parent, Path(hypothesis.__file__).parent}

GUIDE = "docs/guide/write-a-plugin/checks.md"
"""Where every check has a section, `check-NAME`."""


THOROUGH = 4.0
"""How many times as many examples a thorough run tries."""


@define
class Case:
    """A part under check, with the registry that it came from; `thorough` tries more examples."""

    entry: Registered
    registry: Registry
    thorough: bool = False

    @property
    def part(self) -> type[Part]:
        """The class."""
        return self.entry.part

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The part with its example options, then with every other choice of an option that has a few."""
        return tuple(subjects_of(self.entry, self.registry, THOROUGH if self.thorough else 1.0))

    @property
    def subject(self) -> Subject:
        """The part with its example options."""
        return self.subjects[0]

    @cached_property
    def task(self) -> TaskSubject:
        """The part as a task, with small data."""
        return TaskSubject(self.entry, self.registry)

    @cached_property
    def exporter(self) -> ExporterSubject:
        """The part as an exporter, with a tiny model."""
        return ExporterSubject(self.entry, self.registry)

    def each(
        self, body: Callable[[Subject], None], *, where: Callable[[Subject], bool] | None = None
    ) -> None:
        """Run a body on every subject, and say which one a failure is about.

        Raises:
            NotApplicableError: no subject is left; the last reason that a body gave, if one did.
        """
        reason, done = "it says nothing about this part", 0
        for subject in self.subjects:
            if where is not None and not where(subject):
                continue
            try:
                body(subject)
            except NotApplicableError as error:
                reason = str(error)
                continue
            except Exception as error:
                error.add_note(f"with {subject.label}")
                raise
            done += 1
        if not done:
            raise NotApplicableError(reason)


@frozen
class Check:
    """One promise of the contracts, and how it is tried.

    Args:
        name: the check's name, and its section in the guide.
        kinds: the kinds of parts that it covers.
        contract: the promise, in a sentence.
        function: tries it, and raises BrokenError.
        covers: whether it says anything about a part of those kinds.
        on_request: whether it is run only where it is asked for by name.
    """

    name: str
    kinds: tuple[str, ...]
    contract: str
    function: Callable[[Case], None]
    covers: Callable[[type[Any]], bool]
    on_request: bool = False

    @property
    def link(self) -> str:
        """Where to read on."""
        return f"{GUIDE}#check-{self.name.replace('_', '-')}"

    def applies(self, entry: Registered) -> bool:
        """Whether the check is run on a part."""
        return entry.kind in self.kinds and self.covers(entry.part)

    def run(self, case: Case) -> None:
        """Try the promise.

        Raises:
            BrokenError: the part breaks it, by its values or by an error of its own; with the contract and a link.
            NotRunError: something that the check needs is not installed.
            NotApplicableError: the check says nothing about the part as it turned out.
        """
        try:
            with _given_back():
                self.function(case)
        except (NotRunError, NotApplicableError):
            raise
        except Exception as error:
            raise BrokenError(self._explain(case, error)) from (
                None if isinstance(error, BrokenError) else error
            )

    def _explain(self, case: Case, error: Exception) -> str:
        entry = case.entry
        found = [str(error)] if isinstance(error, BrokenError) else _raised(error)
        # Hypothesis adds the example as an expression, which the notes of `holds` say in words.
        found += [n for n in getattr(error, "__notes__", ()) if not n.startswith(("Failing", "Falsifying"))]
        said = [line for text in found for line in text.splitlines()]
        lines = [
            f"{entry.kind.removesuffix('s')} {entry.name!r} (plug-in {entry.plugin}) breaks the contract",
            f"  contract: {self.contract}",
            *(f"  found:    {line}" if i == 0 else f"            {line}" for i, line in enumerate(said)),
            f"  read on:  {self.link}",
        ]
        return "\n".join(lines)


@contextmanager
def _given_back() -> Iterator[None]:
    """Give back torch's defaults: what a part changes of them is a finding of one check, not of all that follow."""
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            torch.set_num_threads(threads)


def _raised(error: Exception) -> list[str]:
    """An error and where it was raised, from the code that the checks call on."""
    calls = traceback.extract_tb(error.__traceback__)
    ours = [i for i, call in enumerate(calls) if _OURS & set(Path(call.filename).parents)]
    theirs = calls[ours[-1] + 1 :] if ours else calls
    return [
        f"{type(error).__name__}: {error}",
        *(f"  {call.filename}:{call.lineno} in {call.name}: {call.line}" for call in theirs),
    ]


def check(
    *kinds: str,
    contract: str,
    covers: Callable[[type[Any]], bool] = lambda part: True,
    on_request: bool = False,
) -> Callable[[Callable[[Case], None]], Check]:
    """Make a check of a function; its name becomes the check's."""

    def wrap(function: Callable[[Case], None]) -> Check:
        return Check(function.__name__, kinds, contract, function, covers, on_request)

    return wrap


def holds(
    subject: Subject,
    body: Callable[[Subject, Example], None],
    *,
    kinds: Sequence[str] | None = None,
    count: int | None = None,
    **which: Any,
) -> None:
    """Try a body on an example of each kind of scope, padded and not, and then on generated ones.

    Both are the same in every run. Of generated examples the smallest one that fails is shown.

    Args:
        subject: the part, which is given other sizes where it can have them.
        body: raises when the promise does not hold.
        kinds: the kinds of scope to try; those that the subject takes when it is absent.
        count: how many examples, those of each kind included; as the subject affords when it is absent.
        which: passed on to `strategies.views`.

    Raises:
        NotApplicableError: the subject takes none of these kinds of scope.
    """
    usable = [kind for kind in (kinds or subject.kinds) if kind in subject.kinds]
    if not usable:
        wanted, takes = " and ".join(kinds or ()), ", ".join(subject.kinds) or "none"
        raise NotApplicableError(f"it is about {wanted} scopes, and the part takes: {takes}")

    def attempt(example: Example, sizes: Dims) -> None:
        sized = subject.resized(sizes)
        try:
            body(sized, example)
        except Exception as error:
            error.add_note(f"in a {example.view}\n{sized.sizes}, seed {example.seed}")
            raise

    certain = strategies.certain(usable, which.get("padded"), empty_rows=which.get("empty_rows", False))
    for example, sizes in certain:
        attempt(example, sizes)

    @settings(
        max_examples=max(2, round((count or subject.examples) * subject.effort) - len(certain)),
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(example=strategies.examples(usable, **which), sizes=strategies.dims())
    def promise(example: Example, sizes: Dims) -> None:
        attempt(example, sizes)

    promise()


def expected_failures(part: type[Any]) -> Mapping[str, str]:
    """The checks that a part states it fails, each with its reason; none where it states no mapping."""
    stated = part.expected_failures
    return stated if isinstance(stated, Mapping) else {}
