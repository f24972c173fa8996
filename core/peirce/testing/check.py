"""What a check is, what it runs on, and how it says that a contract is broken."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import torch
from attrs import define, field, frozen

from peirce.parts import Part
from peirce.registry import Registered, Registry
from peirce.testing import examples
from peirce.testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce.testing.examples import Example
from peirce.testing.harness import ExporterHarness, Harness, TaskHarness, harnesses_of

_OURS = Path(__file__).parent

GUIDE = "docs/guide/write-a-plugin/checks.md"
"""Where every check has a section, `check-NAME`."""
THOROUGH = 4.0
"""How many times as many examples a thorough run tries."""
NETWORK = ("operators", "positions", "augmenters", "heads", "architectures")
"""The kinds of parts that compute."""


@define
class Case:
    """A part under check, with the registry that it came from; `thorough` tries more examples."""

    entry: Registered
    registry: Registry
    thorough: bool = False
    _folder: Path | None = field(default=None, init=False)
    _task: TaskHarness | None = field(default=None, init=False)

    @property
    def part(self) -> type[Part]:
        """The class."""
        return self.entry.part

    @cached_property
    def harnesses(self) -> tuple[Harness, ...]:
        """The part with its example options, then with every other choice of an option that has a few."""
        return tuple(harnesses_of(self.entry, self.registry, THOROUGH if self.thorough else 1.0))

    @property
    def harness(self) -> Harness:
        """The part with its example options."""
        return self.harnesses[0]

    @property
    def folder(self) -> Path:
        """A folder that is there until the check has ended; always the same."""
        self._folder = self._folder or Path(mkdtemp(prefix="peirce-check-"))
        self._folder.mkdir(exist_ok=True)
        return self._folder

    @property
    def task(self) -> TaskHarness:
        """The part as a task, with small data."""
        if self._task is None:
            self._task = TaskHarness(self.entry, self.registry, self.folder)
        elif not any(self.folder.iterdir()):
            self._task.write()
        return self._task

    @cached_property
    def _exporter(self) -> ExporterHarness:
        return ExporterHarness(self.entry, self.registry, self.folder)

    @property
    def exporter(self) -> ExporterHarness:
        """The part as an exporter, with a tiny model."""
        _ = self.folder
        return self._exporter

    def put_away(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)

    def each(self, body: Callable[[Harness], None]) -> None:
        """Run a body on every harness that takes a kind of scope, and say which one a failure is about.

        Raises:
            NotApplicableError: none is left; the last reason that a body gave, if one did.
        """
        reason, done = "it says nothing about this part", 0
        for harness in self.harnesses:
            if not harness.kinds:
                continue
            try:
                body(harness)
            except NotApplicableError as error:
                reason = str(error)
                continue
            except Exception as error:
                error.add_note(f"with {harness.label}")
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
            with _defaults_given_back():
                self.function(case)
        except (NotRunError, NotApplicableError):
            raise
        except Exception as error:
            raise BrokenError(self._explain(case, error)) from (
                None if isinstance(error, BrokenError) else error
            )
        finally:
            case.put_away()

    def _explain(self, case: Case, error: Exception) -> str:
        entry = case.entry
        found = [str(error)] if isinstance(error, BrokenError) else _raised(error)
        found += getattr(error, "__notes__", ())
        said = [line for text in found for line in text.splitlines()]
        lines = [
            f"{entry.kind.removesuffix('s')} {entry.name!r} (plug-in {entry.plugin}) breaks the contract",
            f"  contract: {self.contract}",
            *(f"  found:    {line}" if i == 0 else f"            {line}" for i, line in enumerate(said)),
            f"  read on:  {self.link}",
        ]
        return "\n".join(lines)


@contextmanager
def _defaults_given_back() -> Iterator[None]:
    """Give back torch's defaults: what a part changes of them is a finding of one check, not of all that follow."""
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)


def _raised(error: Exception) -> list[str]:
    """An error and where it was raised, from the code that the checks call on."""
    calls = traceback.extract_tb(error.__traceback__)
    ours = [i for i, call in enumerate(calls) if _OURS in Path(call.filename).parents]
    theirs = calls[ours[-1] + 1 :] if ours else calls
    return [
        f"{type(error).__name__}: {error}",
        *(f"  {call.filename}:{call.lineno} in {call.name}: {call.line}" for call in theirs),
    ]


Covers = Callable[[type[Any]], bool]


def check(
    *kinds: str, contract: str, covers: Covers = lambda part: True, on_request: bool = False
) -> Callable[[Callable[[Case], None]], Check]:
    """Make a check of a function; its name becomes the check's."""

    def wrap(function: Callable[[Case], None]) -> Check:
        return Check(function.__name__, kinds, contract, function, covers, on_request)

    return wrap


def check_each(
    *kinds: str, contract: str, covers: Covers = lambda part: True
) -> Callable[[Callable[[Harness], None]], Check]:
    """Make a check of a function that is tried on every choice of a part's options."""

    def wrap(function: Callable[[Harness], None]) -> Check:
        @wraps(function)
        def every(case: Case) -> None:
            case.each(function)

        return check(*kinds, contract=contract, covers=covers)(every)

    return wrap


def check_examples(
    *kinds: str, contract: str, covers: Covers = lambda part: True, **which: Any
) -> Callable[[Callable[[Harness, Example], None]], Check]:
    """Make a check of a function that is tried on examples, as `holds` does with `which`, for every choice."""

    def wrap(function: Callable[[Harness, Example], None]) -> Check:
        @wraps(function)
        def every(harness: Harness) -> None:
            holds(harness, function, **which)

        return check_each(*kinds, contract=contract, covers=covers)(every)

    return wrap


def holds(
    harness: Harness,
    body: Callable[[Harness, Example], None],
    *,
    kinds: Sequence[str] | None = None,
    count: int | None = None,
    factor: int = 1,
    **which: Any,
) -> None:
    """Try a body on an example of each kind of scope, padded and not, and then on others, the smallest first.

    They are the same in every run.

    Args:
        harness: the part, which is given other sizes where it can have them.
        body: raises when the promise does not hold.
        kinds: the kinds of scope to try; those that the part takes when it is absent.
        count: how many examples, those of each kind included; as the harness affords when it is absent.
        factor: how many times as many.
        which: passed on to `examples.drawn`.

    Raises:
        NotApplicableError: the part takes none of these kinds of scope.
    """
    usable = [kind for kind in (kinds or harness.kinds) if kind in harness.kinds]
    if not usable:
        wanted, takes = " and ".join(kinds or ()), ", ".join(harness.kinds) or "none"
        raise NotApplicableError(f"it is about {wanted} scopes, and the part takes: {takes}")

    tried = examples.certain(usable, which.get("padded"), empty_rows=which.get("empty_rows", False))
    more = max(2, round((count or harness.examples) * factor * harness.effort) - len(tried))
    for example, sizes in (*tried, *examples.drawn(usable, more, **which)):
        resized = harness.resized(sizes)
        try:
            body(resized, example)
        except Exception as error:
            error.add_note(f"in a {example.view}\n{resized.sizes}, seed {example.seed}")
            raise


def expected_failures(part: type[Any]) -> Mapping[str, str]:
    """The checks that a part states it fails, each with its reason; none where it states no mapping."""
    stated = getattr(part, "expected_failures", {})
    return stated if isinstance(stated, Mapping) else {}
