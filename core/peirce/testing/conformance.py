"""Which parts the suite runs on, and the pytest items that it makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import pytest
from attrs import define, field

from peirce.errors import PeirceError
from peirce.registry import KINDS, Registered, Registry
from peirce.testing.check import Case, Check, expected_failures
from peirce.testing.checks import CHECKS
from peirce.testing.companions import companied
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError


def _tuple(plugins: Iterable[str | object] | str) -> tuple[str | object, ...]:
    return (plugins,) if isinstance(plugins, str) or not isinstance(plugins, Iterable) else tuple(plugins)


@define
class Conformance:
    """The suite over some plug-ins; as a name in a test module, a test for each check and part.

    Args:
        plugins: plug-ins to check: modules, their names, or `distribution:entry-point`. Without any, those that
            `--peirce-plugin` names, or else everything registered.
        registry: where parts are looked up, and nowhere else. When it is absent: what is installed and active, the
            plug-ins, and where these lack a part to be composed with, the suite's companions.
    """

    plugins: tuple[str | object, ...] = field(default=(), converter=_tuple)
    registry: Registry | None = None

    def named(self, plugins: Iterable[str]) -> Conformance:
        """The same with the plug-ins that the command line names, unless it has its own."""
        return self if self.plugins or self.registry else Conformance(tuple(plugins))

    @cached_property
    def _found(self) -> tuple[Registry, tuple[Registered, ...]]:
        registry = self.registry or Registry.discover(extra_plugins=self.plugins)
        everything = [entry for kind in KINDS for entry in registry.entries(kind)]
        if not self.plugins:
            return registry, tuple(everything)
        # A plug-in says by itself what it is called, however the caller named it.
        own = Registry.of(*self.plugins)
        if own.quarantined:
            causes = "; ".join(f"{broken.plugin}: {broken.cause}" for broken in own.quarantined)
            raise PeirceError(f"a plug-in under check cannot be loaded. {causes}")
        parts = [entry for kind in KINDS for entry in own.entries(kind)]
        for plugin in own.plugins:
            if not any(entry.plugin == plugin.name for entry in parts):
                raise PeirceError(f"plug-in {plugin.name} registers no part, so there is nothing to check")
        return registry, tuple(parts)

    def cases(self) -> tuple[tuple[Check, Case], ...]:
        """Every check beside every part that it covers.

        Raises:
            PeirceError: a plug-in cannot be loaded or has no parts, or there is nothing to check.
        """
        registry, parts = self._found
        # A registry that a caller gives is taken as it is.
        around = registry if self.registry else companied(registry)
        cases = {entry: Case(entry, around) for entry in parts}
        found = tuple(
            (check, case) for case in cases.values() for check in CHECKS if check.applies(case.entry)
        )
        if not found:
            causes = "".join(
                f"; {broken.plugin} was not loaded: {broken.cause}" for broken in registry.quarantined
            )
            raise PeirceError(f"there is no part to check: no plug-in registers one{causes}")
        return found

    def items(self, parent: pytest.Collector, prefix: str = "") -> Iterator[CheckItem]:
        """The pytest items, `CHECK[KIND.NAME]` each."""
        for check, case in self.cases():
            name = f"{prefix}{check.name}[{case.entry.kind}.{case.entry.name}]"
            yield CheckItem.from_parent(parent, name=name, check=check, case=case)


class CheckItem(pytest.Item):
    """One check on one part."""

    def __init__(self, *, check: Check, case: Case, **more: Any) -> None:
        super().__init__(**more)
        self.check = check
        self.case = case

    def runtest(self) -> None:
        """Run the check; a stated failure is expected, and is a failure if it does not happen."""
        entry = self.case.entry
        reason = expected_failures(entry.part).get(self.check.name)
        part = f"{entry.kind}.{entry.name}"
        try:
            self.check.run(self.case)
        except NotApplicableError as error:
            self._report("does not apply")
            pytest.skip(f"does not apply: {error}")
        except NotRunError as error:
            self._report("not run")
            if self.config.getoption("peirce_strict"):
                pytest.fail(f"{error} (--peirce-strict makes this a failure)", pytrace=False)
            pytest.skip(str(error))
        except BrokenError as error:
            self._report("ran")
            if reason is None:
                raise
            self.user_properties.append(("peirce_expected", f"{self.check.name}[{part}]: {reason}"))
            pytest.xfail(f"expected: {reason}\n{error}")
        self._report("ran")
        if reason is not None:
            pytest.fail(
                f"{part} states in expected_failures that it fails {self.check.name!r} ({reason}), and it passes; "
                f"remove the entry\n  read on:  {self.check.link}",
                pytrace=False,
            )

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
