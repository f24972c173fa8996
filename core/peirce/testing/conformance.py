"""Which parts the suite runs on, how each check of them ends, and the pytest items that it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import pytest
from attrs import define, evolve, field, frozen

from peirce.errors import PeirceError, unknown
from peirce.registry import KINDS, Registered, Registry
from peirce.testing.beside import PLUGINS, beside
from peirce.testing.check import Case, Check, expected_failures
from peirce.testing.checks import CHECKS
from peirce.testing.companions import companied
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError


def _tuple(plugins: Iterable[str | object] | str) -> tuple[str | object, ...]:
    return (plugins,) if isinstance(plugins, str) or not isinstance(plugins, Iterable) else tuple(plugins)


@frozen
class Outcome:
    """How a check of a part ended.

    Args:
        check: the check's name.
        part: the part, `KIND.NAME`.
        outcome: `passed`, `failed`, `expected failure`, `not run` or `does not apply`.
        message: why, unless it passed.
    """

    check: str
    part: str
    outcome: str
    message: str = ""

    @property
    def name(self) -> str:
        """`CHECK[KIND.NAME]`."""
        return f"{self.check}[{self.part}]"


@define
class Conformance:
    """The suite over some plug-ins; as a name in a test module, a test for each check and part.

    Args:
        plugins: plug-ins to check: modules, their names, or `distribution:entry-point`. Without any, those that
            `--peirce-plugin` names, or else everything registered.
        registry: where parts are looked up, and nowhere else. When it is absent: what is installed and active, the
            plug-ins, and where these lack a part to be composed with, the suite's companions.
        expected_failures: checks that are known to fail, by their names `CHECK[KIND.NAME]`, each with its reason;
            beside those that a part states itself.
        thorough: whether more examples are tried, and exports made in the registry's own architectures.
        tensorrt: whether TensorRT builds every part, too.
    """

    plugins: tuple[str | object, ...] = field(default=(), converter=_tuple)
    registry: Registry | None = None
    expected_failures: Mapping[str, str] = field(factory=dict, kw_only=True)
    thorough: bool = field(default=False, kw_only=True)
    tensorrt: bool = field(default=False, kw_only=True)

    def named(
        self,
        plugins: Iterable[str],
        expected: Mapping[str, str] | None = None,
        *,
        thorough: bool = False,
        tensorrt: bool = False,
    ) -> Conformance:
        """The same as the command line wants it: with the plug-ins that it names, unless it has its own."""
        own = self.plugins or self.registry
        return evolve(
            self,
            plugins=self.plugins if own else tuple(plugins),
            expected_failures={**(expected or {}), **self.expected_failures},
            thorough=self.thorough or thorough,
            tensorrt=self.tensorrt or tensorrt,
        )

    def run(
        self,
        *,
        only: Callable[[str], bool] = lambda name: True,
        callback: Callable[[Outcome], None] = lambda outcome: None,
    ) -> tuple[Outcome, ...]:
        """Run the checks without pytest.

        Args:
            only: by its name `CHECK[KIND.NAME]`, whether a check is run.
            callback: told how each check ended, as soon as it has.

        Raises:
            PeirceError: as `cases`.
        """
        found = []
        for check, case in self.cases():
            if only(_name(check, case)):
                found.append(self.outcome(check, case))
                callback(found[-1])
        return tuple(found)

    def outcome(self, check: Check, case: Case) -> Outcome:
        """Run one check. A stated failure is expected, and is a failure if it does not happen."""
        part = f"{case.entry.kind}.{case.entry.name}"
        stated = expected_failures(case.entry.part).get(check.name)
        reason = stated or self.expected_failures.get(_name(check, case))
        try:
            check.run(case)
        except NotApplicableError as error:
            return Outcome(check.name, part, "does not apply", str(error))
        except NotRunError as error:
            return Outcome(check.name, part, "not run", str(error))
        except BrokenError as error:
            if reason is None:
                return Outcome(check.name, part, "failed", str(error))
            return Outcome(check.name, part, "expected failure", f"{reason}\n{error}")
        if reason is None:
            return Outcome(check.name, part, "passed")
        said = f"{part} is said to fail {check.name!r} ({reason}), and it passes; remove the entry of expected_failures"
        return Outcome(check.name, part, "failed", f"{said}\n  read on:  {check.link}")

    @cached_property
    def _found(self) -> tuple[Registry, tuple[Registered, ...]]:
        registry = self.registry or Registry.discover(extra_plugins=self.plugins)
        if not self.plugins:
            return registry, tuple(_all_of(registry))
        # A plug-in says by itself what it is called, however the caller named it.
        own = Registry.of(*self.plugins)
        if own.quarantined:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in own.quarantined)
            raise PeirceError(f"a plug-in under check cannot be loaded. {causes}")
        parts = _all_of(own)
        for plugin in own.plugins:
            if not any(entry.plugin == plugin.name and entry.kind != PLUGINS for entry in parts):
                raise PeirceError(f"plug-in {plugin.name} registers no part, so there is nothing to check")
        return registry, tuple(parts)

    def cases(self) -> tuple[tuple[Check, Case], ...]:
        """Every check beside every part that it covers.

        Raises:
            PeirceError: a plug-in cannot be loaded or has no parts, there is nothing to check, or what is expected to
                fail is no check of these parts.
        """
        registry, parts = self._found
        # A registry that a caller gives is taken as it is.
        around = registry if self.registry else companied(registry)
        cases = {entry: Case(entry, around, self.thorough) for entry in parts}
        known = [(check, case) for case in cases.values() for check in CHECKS if check.applies(case.entry)]
        found = tuple(each for each in known if self.tensorrt or not each[0].on_request)
        if not found:
            causes = "".join(
                f"; {broken.plugin} was not loaded: {broken.cause}" for broken in registry.quarantined
            )
            raise PeirceError(f"there is no part to check: no plug-in registers one{causes}")
        names = {_name(check, case) for check, case in known}
        for name, reason in self.expected_failures.items():
            if name not in names:
                raise PeirceError(f"expected_failures: {unknown('check', name, names)}")
            if not reason.strip():
                raise PeirceError(f"expected_failures gives no reason for {name!r}")
        return found

    def items(self, parent: pytest.Collector, prefix: str = "") -> Iterator[CheckItem]:
        """The pytest items, `CHECK[KIND.NAME]` each."""
        for check, case in self.cases():
            name = prefix + _name(check, case)
            yield CheckItem.from_parent(parent, name=name, suite=self, check=check, case=case)


def _name(check: Check, case: Case) -> str:
    return f"{check.name}[{case.entry.kind}.{case.entry.name}]"


def _all_of(registry: Registry) -> list[Registered]:
    """The parts of a registry, and what its plug-ins bring beside them."""
    parts = [entry for kind in KINDS for entry in registry.entries(kind)]
    return [*parts, *beside(registry, registry.plugins)]


class CheckItem(pytest.Item):
    """One check on one part."""

    def __init__(self, *, suite: Conformance, check: Check, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.suite = suite
        self.check = check
        self.case = case

    def runtest(self) -> None:
        """Run the check, and tell pytest how it ended."""
        ended = self.suite.outcome(self.check, self.case)
        ran = ended.outcome not in ("does not apply", "not run")
        self._report("ran" if ran else ended.outcome)
        if ended.outcome == "does not apply":
            pytest.skip(f"does not apply: {ended.message}")
        elif ended.outcome == "not run":
            if self.config.getoption("peirce_strict"):
                pytest.fail(f"{ended.message} (--peirce-strict makes this a failure)", pytrace=False)
            pytest.skip(ended.message)
        elif ended.outcome == "expected failure":
            reason = ended.message.partition("\n")[0]
            self.user_properties.append(("peirce_expected", f"{ended.name}: {reason}"))
            pytest.xfail(f"expected: {ended.message}")
        elif ended.outcome == "failed":
            raise BrokenError(ended.message)

    def _report(self, outcome: str) -> None:
        part = f"{self.case.entry.kind}.{self.case.entry.name}"
        self.user_properties.append(("peirce_outcome", (outcome, self.check.name, part)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A broken contract in words, which say where the part raised if it did."""
        error = excinfo.value
        return str(error) if isinstance(error, BrokenError) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where pytest says that the item lies."""
        return self.path, None, self.name
