"""What a check is, what it runs on, and how it says that a contract is broken."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from inspect import signature
from pathlib import Path
from shlex import quote
from shutil import rmtree
from tempfile import mkdtemp
from time import process_time
from typing import Any
from unittest.mock import patch
from weakref import finalize

import hypothesis
import torch
from attrs import define, evolve, field, frozen
from hypothesis import HealthCheck, Phase, given, settings

from peirce.parts import Dims
from peirce.registry import Registered, Registry, contain_panics
from peirce_testing import causes, examples, strategies
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce_testing.examples import Example, View
from peirce_testing.harness import harnesses_of
from peirce_testing.harness.base import Harness
from peirce_testing.harness.exporters import ExporterHarness
from peirce_testing.harness.sized import TokenHarness
from peirce_testing.harness.tasks import TaskHarness
from peirce_testing.options import differing

_TORCH = Path(torch.__file__).parent
_OURS = {Path(__file__).parent, Path(hypothesis.__file__).parent}
_SETTINGS = settings(
    derandomize=True, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
)  # fmt: skip
FAILING = 50
"""How many examples are drawn to find a smaller one than one of those that are always tried and failed."""
SHRINKING = 1.0
"""Seconds of CPU time that go into a smaller example that fails."""
BARE = 1
"""The rest of a seed, divided by three, at which optional inputs are absent."""

THOROUGH, QUICK = 4.0, 0.5
"""How many times as many examples a thorough and a quick run try."""
NETWORK = ("operators", "positions", "augmenters", "heads", "architectures")
"""The kinds of parts that compute."""


@define
class Case:
    """A part under check, with the registry that it came from; `thorough` tries more examples, `quick` fewer."""

    entry: Registered
    registry: Registry
    thorough: bool = False
    quick: bool = False

    @property
    def part(self) -> type[Any]:
        """The class."""
        return self.entry.part

    def name_of(self, check: Check) -> str:
        """`CHECK[KIND.NAME]`."""
        return f"{check.name}[{self.entry.kind}.{self.entry.name}]"

    @cached_property
    def harnesses(self) -> tuple[Harness, ...]:
        """The part with its example options, then with every other choice of an option that has a few."""
        effort = THOROUGH if self.thorough else QUICK if self.quick else 1.0
        return tuple(harnesses_of(self.entry, self.registry, effort))

    @property
    def harness(self) -> Harness:
        """The part with its example options."""
        return self.harnesses[0]

    @cached_property
    def folder(self) -> Path:
        """A folder that is there as long as the case is."""
        path = Path(mkdtemp(prefix="peirce-check-"))
        finalize(self, rmtree, path, ignore_errors=True)
        return path

    @cached_property
    def task(self) -> TaskHarness:
        """The part as a task, with small data."""
        return TaskHarness(self.entry, self.registry, self.folder)

    @cached_property
    def exporter(self) -> ExporterHarness:
        """The part as an exporter, with a tiny model."""
        return ExporterHarness(self.entry, self.registry, self.folder)

    def each(self, body: Callable[[Any], None]) -> None:
        """Run a body on every harness that takes a kind of scope; failures name the harness.

        Raises:
            NotApplicableError: no kind of scope is left; with the last reason that a body gave.
        """
        reason, done = "it does not apply to this part", 0
        for harness in self.harnesses:
            if not harness.kinds:
                continue
            try:
                body(harness)
            except NotApplicableError as error:
                reason = str(error)
                continue
            except Exception as error:
                others = differing(self.harness.options, harness.options) * (" = " not in harness.label)
                error.add_note(f"with {harness.label}" + f": {others}" * bool(others))
                raise
            done += 1
        if not done:
            raise NotApplicableError(reason)


@frozen(eq=False)
class Check:
    """One promise of the contracts, and how it is tried.

    Args:
        name: the check's name, and its section in the guide.
        kinds: the kinds of parts that it covers.
        contract: the promise, in a sentence.
        function: tries it, and raises BrokenError. Its parameters say on what it is tried: a `case`, its `task` or its
            `exporter`, each `harness` of it, or on each `harness` every `example`.
        but: the contract of parts of these kinds that it says nothing about.
        on_request: whether it is run only where it is asked for by name.
        slow: whether a quick run leaves it out.
        which: the examples, as `on_examples` takes it.
    """

    name: str
    kinds: tuple[str, ...]
    contract: str
    function: Callable[..., None]
    but: type[Any] | tuple[type[Any], ...] = ()
    on_request: bool = False
    slow: bool = False
    which: Mapping[str, Any] = field(factory=dict)

    @property
    def link(self) -> str:
        """The address of the page about it."""
        return f'the guide\'s page of conformance checks, "Check: {self.name.replace("_", " ")}"'

    def applies(self, kind: str, part: Any) -> bool:
        """Whether the check is run on a part of a kind."""
        return kind in self.kinds and not (isinstance(part, type) and issubclass(part, self.but))

    def run(self, case: Case) -> None:
        """Try the promise.

        Raises:
            BrokenError: the part breaks it, by its values or by an error of its own; with the contract and a link.
            NotRunError: something that the check needs is not installed.
            NotApplicableError: the check says nothing about the part as it turned out.
        """
        module = getattr(case.entry.part, "__module__", str(case.entry.part))
        try:
            with _restore_defaults(), contain_panics(module):
                match [*signature(self.function).parameters]:
                    case ["harness", "example"]:
                        case.each(lambda harness: on_examples(harness, self.function, **self.which))
                    case ["harness"]:
                        case.each(self.function)
                    case [name]:
                        self.function(case if name == "case" else getattr(case, name))
        except (NotRunError, NotApplicableError):
            raise
        except Exception as error:
            cause = None if isinstance(error, BrokenError) else error
            found = _misfit(case.part, error) or error
            broken = BrokenError(self._explain(case, found))
            broken.cause = found.cause if isinstance(found, BrokenError) and found.cause else _cause(found)
            raise broken from cause

    def _explain(self, case: Case, error: Exception) -> str:
        """What broke: part, method, options and sizes, then the contract, what was found, and what may be the cause."""
        entry = case.entry
        found = [str(error)] if isinstance(error, BrokenError) else _describe_error(error, entry.part)
        notes = sorted(getattr(error, "__notes__", ()), key=lambda note: not note.startswith("with "))
        raised = None if isinstance(error, BrokenError) else error
        about = self.name, entry.part, "\n".join([found[0], *notes]), raised
        if not any(note.startswith("in a ") for note in notes):
            notes += _sizes_at(error)
        lines = {
            "of": [causes.method_of(*about)],
            "with": [note.removeprefix("with ") for note in notes],
            "contract": [self.contract],
            "found": found,
            "cause": causes.nearest(*about),
            "read on": [self.link],
            "again": [again(entry.plugin, case.name_of(self), case.thorough)],
        }
        told = (
            f"  {f'{name}:':<10}" + "\n".join(text).replace("\n", f"\n{'':12}")
            for name, text in lines.items()
            if any(text)
        )
        head = f"{entry.kind.removesuffix('s')} {entry.name!r} (plug-in {entry.plugin}) breaks the contract"
        return "\n".join((head, *told))


def again(plugin: str, name: str, thorough: bool = False) -> str:
    """The command that runs one check of a part again."""
    return f"peirce plugins check {quote(plugin)} -k {quote(name)}{' --thorough' * thorough}"


@contextmanager
def _restore_defaults() -> Iterator[None]:
    """Reset torch's defaults, so that a part that changes them fails one check, not all that follow."""
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


def _misfit(part: type[Any], error: Exception) -> BrokenError | None:
    """What an error means that a call of the part's raised, where a method takes other arguments than it is given."""
    words = r"positional arguments?\b|unexpected keyword argument"
    if not isinstance(error, TypeError) or not re.search(words, str(error)):
        return None
    if not (problems := [*causes.call_problems(part)]):
        return None
    broken = BrokenError("\n".join(problems))
    for note in getattr(error, "__notes__", ()):
        broken.add_note(note)
    return broken


def _sizes_at(error: Exception) -> list[str]:
    """Who sees whom and the part's sizes where a check failed, of the innermost calls of the suite that know them."""
    frames = [frame.f_locals.values() for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
    found = (
        next((value for each in frames for value in each if isinstance(value, kind)), None)
        for kind in (View, Harness)
    )
    return [f"in a {each}" if isinstance(each, View) else each.sizes for each in found if each is not None]


def _frames_of_part(error: Exception) -> list[traceback.FrameSummary]:
    """The frames of an error that are neither the suite's nor torch's."""
    calls, foreign = traceback.extract_tb(error.__traceback__), {*_OURS, _TORCH}
    return [call for call in calls if foreign.isdisjoint(Path(call.filename).parents)]


def _describe_error(error: Exception, part: Any) -> list[str]:
    """An error and where it was raised, from the first line of the part on, if it came by one."""
    calls = _frames_of_part(error)
    file = getattr(sys.modules.get(getattr(part, "__module__", "")), "__file__", None)
    calls = calls[next((i for i, call in enumerate(calls) if call.filename == file), 0) :]
    lines = [
        f"{type(error).__name__}: {error}",
        *(f"  {call.filename}:{call.lineno} in {call.name}: {call.line}" for call in calls),
    ]
    if isinstance(error, IndexError) and "out of range in self" in str(error):
        lines.insert(1, "an id has no row in the table that it is looked up in")
    return lines


def _cause(error: Exception) -> str:
    """A key that failures with one cause share."""
    calls = _frames_of_part(error)
    if calls and not isinstance(error, BrokenError):
        return f"{type(error).__name__} at {calls[-1].filename}:{calls[-1].lineno}"
    numbers = r"-?\b[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?\b"
    return f"{type(error).__name__}: {re.sub(numbers, '#', str(error).partition(chr(10))[0])}"


def check(
    *kinds: str,
    but: type[Any] | tuple[type[Any], ...] = (),
    on_request: bool = False,
    slow: bool = False,
    **which: Any,
) -> Callable[[Callable[..., None]], Check]:
    """Make a check of a function, its name and the first sentence of its docstring; arguments as of `Check`."""

    def wrap(function: Callable[..., None]) -> Check:
        contract, _, _ = " ".join((function.__doc__ or "").split()).partition(". ")
        return Check(function.__name__, kinds, contract, function, but, on_request, slow, which)

    return wrap


def _without_constants() -> AbstractContextManager[object]:
    """Keep hypothesis from drawing constants of all local modules that are imported so far.

    They differ from run to run, take a third of a second to read, and are kept in a folder `.hypothesis`. There is no
    setting for it. Older releases draw none.
    """
    try:
        from hypothesis.internal.conjecture.providers import HypothesisProvider
    except ImportError:
        return nullcontext()
    return patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None, create=True)


def on_examples(
    harness: Harness,
    body: Callable[[Harness, Example], None],
    *,
    kinds: Sequence[str] | None = None,
    count: int | None = None,
    factor: int = 1,
    **which: Any,
) -> None:
    """Try a body on an example of each kind of scope, padded and not, and then on others that hypothesis draws.

    They are the same in every run. Of those that fail, the smallest that hypothesis finds is shown.

    Args:
        harness: the part, which is given other sizes where it can have them.
        body: raises when the promise does not hold.
        kinds: the kinds of scope to try; those that the part takes when it is absent.
        count: how many examples, those of each kind included; as the harness affords when it is absent.
        factor: how many times as many.
        which: passed on to `strategies.views`.

    Raises:
        NotApplicableError: the part takes none of these kinds of scope.
    """
    usable = [kind for kind in (kinds or harness.kinds) if kind in harness.kinds]
    if not usable:
        needs, takes = " and ".join(kinds or ()), ", ".join(harness.kinds) or "none"
        raise NotApplicableError(f"it is about {needs} scopes, and the part takes: {takes}")

    if harness.effort < QUICK:  # another choice of an option in a quick run: the two scopes that differ most
        usable = usable[:2]
    certain = examples.certain(usable, which.get("padded"), empty_rows=which.get("empty_rows", False))
    if isinstance(harness, TokenHarness):
        certain.append((evolve(certain[-1][0], seed=BARE), certain[-1][1]))
    more = max(2, round((count or harness.examples) * factor * harness.effort) - len(certain))
    failures: dict[str, Exception] = {}
    notes: dict[Exception, list[str]] = {}
    until = 0.0

    def attempt(drawn: tuple[Example, Dims]) -> None:
        nonlocal until
        example, sizes = drawn
        key = f"{example} {sizes}"
        if until and process_time() > until and key not in failures:
            return  # the smallest failure so far is small enough
        part, bare = harness.resize(sizes), ""
        if isinstance(part, TokenHarness) and example.seed % 3 == BARE:
            part = part.without_optional()
            bare = f", without {', '.join(sorted(part.absent))}" * bool(part.absent)
        try:
            body(part, example)
        except Exception as error:
            until = until or process_time() + SHRINKING
            error.add_note(f"in a {example.view}\n{part.sizes}, seed {example.seed}{bare}")
            failures[key], notes[error] = error, [*error.__notes__]
            raise

    for drawn in certain:
        with suppress(Exception):
            attempt(drawn)
        if failures:
            break
    limits = settings(_SETTINGS, max_examples=FAILING if failures else more)
    smallest = next(iter(failures.values()), None)
    try:
        with _without_constants():
            limits(given(strategies.examples(usable, **which))(attempt))()
    except Exception as error:
        if not failures:  # a mistake in the strategies
            raise
        smallest = error if error in notes else [*notes][-1]
    if smallest is not None:
        smallest.__notes__ = notes[smallest]  # without those that hypothesis adds, in its own terms
        raise smallest
