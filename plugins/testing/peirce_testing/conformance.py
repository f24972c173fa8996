"""Which parts the suite runs on, and how each check of them ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from time import process_time

from attrs import define, evolve, field, frozen

from peirce.errors import PeirceError, unknown
from peirce.registry import KINDS, EntryPoint, Registered, Registry, announcements
from peirce_testing.check import Case, Check
from peirce_testing.checks import CHECKS, record
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce_testing.stub_parts import with_stub_parts

CHECKED = tuple(dict.fromkeys([*KINDS, *(kind for check in CHECKS for kind in check.kinds)]))
"""Every kind that checks cover, in the order in which the suite takes them."""


def _as_tuple(plugins: Iterable[str | object] | str) -> tuple[str | object, ...]:
    return (plugins,) if isinstance(plugins, str) or not isinstance(plugins, Iterable) else tuple(plugins)


@frozen
class Outcome:
    """How a check of a part ended.

    Args:
        check: the check's name.
        part: the part, `KIND.NAME`.
        outcome: `passed`, `failed`, `expected failure`, `not run` or `does not apply`.
        message: why, unless it passed.
        seconds: of CPU time that it took.
        cause: what failures of one cause have in common.
    """

    check: str
    part: str
    outcome: str
    message: str = ""
    seconds: float = field(default=0.0, eq=False)
    cause: str = field(default="", eq=False)

    @property
    def name(self) -> str:
        """`CHECK[KIND.NAME]`."""
        return f"{self.check}[{self.part}]"


@define(slots=False)  # pytest reads the attributes of what it takes for a test
class Conformance:
    """The suite over some plug-ins; as a name in a test module, a test for each check and part.

    Args:
        plugins: plug-ins to check: modules, their names, or `distribution:entry-point`. Without any, those that
            `--peirce-plugin` names, or else everything registered.
        registry: where parts are looked up, and nowhere else. When it is absent: what is installed and active, the
            plug-ins, and where these lack a part to be composed with, the suite's stub parts.
        expected_failures: checks that are known to fail, by their names `CHECK[KIND.NAME]`, each with its reason;
            beside those that a part states itself.
        thorough: whether more examples are tried, and exports made in the registry's own architectures.
        tensorrt: whether TensorRT builds every part, too.
        quick: whether fewer examples are tried, and no check that takes seconds, such as an export.
        strict: whether a check that could not run is a failure.
    """

    plugins: tuple[str | object, ...] = field(default=(), converter=_as_tuple)
    registry: Registry | None = None
    expected_failures: Mapping[str, str] = field(factory=dict, kw_only=True)
    thorough: bool = field(default=False, kw_only=True)
    tensorrt: bool = field(default=False, kw_only=True)
    quick: bool = field(default=False, kw_only=True)
    strict: bool = field(default=False, kw_only=True)

    def run(
        self,
        *,
        only: Callable[[str], bool] = lambda name: True,
        callback: Callable[[Outcome], None] = lambda outcome: None,
    ) -> tuple[Outcome, ...]:
        """Run the checks without pytest.

        Args:
            only: by its name `CHECK[KIND.NAME]`, whether a check is run.
            callback: called with each outcome as soon as it is known.

        Raises:
            PeirceError: as `cases`.
        """
        outcomes = []
        for check, case in self.cases():
            if only(case.name_of(check)):
                outcomes.append(self.outcome(check, case))
                callback(outcomes[-1])
        return tuple(outcomes)

    def __call__(self) -> None:
        """Run all checks as the one test that pytest sees where it does not load `peirce_testing.plugin`.

        Raises:
            BrokenError: checks failed; with what each of them found.
        """
        failures = [outcome.message for outcome in self.run() if outcome.outcome == "failed"]
        if failures:
            raise BrokenError("\n\n".join(failures))

    @property
    def __func__(self) -> Callable[[], None]:
        """What pytest takes for the function of a test."""
        return lambda: self()

    def names(self) -> list[str]:
        """The checks by their names `CHECK[KIND.NAME]`; raises as `cases`."""
        return [case.name_of(check) for check, case in self.cases()]

    def record(self) -> list[Path]:
        """Write what the parts declare and compute into the files that the check `record` reads; raises as `cases`."""
        return record.write(case for _, case in self.cases())

    def outcome(self, check: Check, case: Case) -> Outcome:
        """Run one check. A stated failure is expected, and is a failure if it does not happen."""
        start = process_time()
        outcome = self._outcome(check, case)
        return evolve(outcome, seconds=process_time() - start)

    def _outcome(self, check: Check, case: Case) -> Outcome:
        part = f"{case.entry.kind}.{case.entry.name}"
        stated: Mapping[str, str] = getattr(case.entry.part, "expected_failures", {})
        reason = stated.get(check.name) or self.expected_failures.get(case.name_of(check))
        try:
            check.run(case)
        except NotApplicableError as error:
            return Outcome(check.name, part, "does not apply", str(error))
        except NotRunError as error:
            if self.strict:
                return Outcome(check.name, part, "failed", f"{error} (strict makes this a failure)")
            return Outcome(check.name, part, "not run", str(error))
        except BrokenError as error:
            if reason is None:
                return Outcome(check.name, part, "failed", str(error), cause=error.cause)
            return Outcome(check.name, part, "expected failure", f"{reason}\n{error}")
        if reason is None:
            return Outcome(check.name, part, "passed")
        message = (
            f"{part} passes {check.name!r}, an expected failure ({reason}); remove it from expected_failures"
        )
        return Outcome(check.name, part, "failed", f"{message}\n  read on:  {check.link}")

    @cached_property
    def _parts(self) -> tuple[Registry, tuple[Registered, ...]]:
        """The registry, the parts to check, and the plug-ins without any."""
        registry = self.registry or Registry.discover(extra_plugins=self.plugins)
        if not self.plugins:
            return registry, tuple(_all_of(registry))
        # A plug-in says by itself what it is called, however the caller named it.
        named = Registry.of(*self.plugins)
        parts = tuple(_all_of(named))
        unusable = {broken.plugin: f"it cannot be loaded: {broken.cause}" for broken in named.quarantined}
        for plugin in named.plugins:
            if not any(entry.plugin == plugin.name for entry in parts):
                unusable[plugin.name] = "it registers nothing that a check covers"
        if unusable and not parts:
            reasons = "; ".join(f"plug-in {name}: {cause}" for name, cause in unusable.items())
            raise PeirceError(f"there is nothing to check: {reasons}")
        # One that cannot be used does not take the others with it.
        broken = (Registered(cause, "plugins", name, name, None, None) for name, cause in unusable.items())
        return registry, (*broken, *parts)

    def cases(self) -> tuple[tuple[Check, Case], ...]:
        """Every check that is run beside every part that it covers; raises as `_all_cases`."""

        def runs(check: Check) -> bool:
            return (self.tensorrt or not check.on_request) and not (self.quick and check.slow)

        return tuple((check, case) for check, case in self._all_cases if runs(check))

    @cached_property
    def _all_cases(self) -> tuple[tuple[Check, Case], ...]:
        """Every check beside every part that it covers, whether it is run or not.

        Raises:
            PeirceError: a plug-in cannot be loaded or has no parts, there is nothing to check, or what is expected to
                fail is not a check of these parts.
        """
        registry, parts = self._parts
        # A registry that a caller gives is taken as it is.
        around = registry if self.registry else with_stub_parts(registry)
        cases = [Case(entry, around, self.thorough, self.quick) for entry in parts]
        pairs = ((check, case) for case in cases for check in (LOAD, *CHECKS))
        known = tuple(each for each in pairs if each[0].applies(each[1].entry.kind, each[1].part))
        if not known:
            causes = "".join(f"; {each.plugin} was not loaded: {each.cause}" for each in registry.quarantined)
            raise PeirceError(f"there is no part to check, since no plug-in registers one{causes}")
        names = {case.name_of(check) for check, case in known}
        for name, reason in self.expected_failures.items():
            if name not in names:
                raise PeirceError(f"expected_failures: {unknown('check', name, names)}")
            if not reason.strip():
                raise PeirceError(f"expected_failures gives no reason for {name!r}")
        return known


def _load(case: Case) -> None:
    raise BrokenError(str(case.entry.part))


LOAD = Check("load", ("plugins",), "A plug-in under check can be loaded, and registers something", _load)
"""What a plug-in fails of which nothing can be checked; the others of the run are checked all the same."""


def unchecked(outcomes: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The parts of which no check ran but `declaration`, since something that checks need is not there, and a reason.

    Args:
        outcomes: of every check of a part, its name, the part, and how it ended.
    """
    ran: dict[str, bool] = {}
    lacking: dict[str, str] = {}
    for check, part, outcome in outcomes:
        shows = check != "declaration" and outcome not in ("not run", "does not apply")
        ran[part] = ran.get(part, False) or shows
        if outcome == "not run":
            lacking.setdefault(part, check)
    return {part: check for part, check in lacking.items() if not ran[part]}


def _all_of(registry: Registry) -> Iterator[Registered]:
    """The parts of a registry, what its plug-ins announce beside them, and the commands of their distributions."""
    for kind in CHECKED:
        if kind in registry.kinds and kind != "commands":
            yield from registry.entries(kind)
    yield from commands_of(registry.plugins)


def commands_of(plugins: Iterable[EntryPoint]) -> Iterator[Registered]:
    """The commands of the plug-ins' distributions, each once; `part` is `module:attribute`."""
    owners = {plugin.distribution: plugin for plugin in reversed(tuple(plugins)) if plugin.distribution}
    for entry in sorted(announcements("peirce.commands"), key=lambda entry: entry.name):
        if owner := owners.get(entry.distribution or ""):
            yield Registered(
                entry.target, "commands", entry.name, owner.name, owner.distribution, owner.version
            )
