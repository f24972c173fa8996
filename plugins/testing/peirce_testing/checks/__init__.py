"""The checks, one module for each group of promises.

`CHECKS` is the suite. Each check names the kinds of parts that it covers. A distribution adds checks, such as those of
a kind that it adds, by an entry point of the group `peirce.checks`, which names a module of them.
"""

from __future__ import annotations

from peirce.errors import RegistryError, one_line
from peirce.registry import announcements, import_announced
from peirce_testing.check import Check
from peirce_testing.checks import (
    declared,
    exporters,
    inputs,
    kernels,
    limits,
    losses,
    networks,
    numerics,
    options,
    record,
    references,
    registered,
    state,
    stated,
    symmetry,
    tasks,
    training,
    values,
)


def _find_checks() -> tuple[Check, ...]:
    """The suite's own checks and those that installed distributions add."""
    modules = [
        declared, options, inputs, references, kernels, values, record, symmetry, limits, numerics, training, losses,
        state, networks, tasks, stated, exporters, registered,
    ]  # fmt: skip
    for entry in announcements("peirce.checks"):
        try:
            modules.append(import_announced(entry))
        except Exception as error:
            raise RegistryError(
                f"the checks of {entry.distribution} cannot be imported: {one_line(error)}; update or uninstall it"
            ) from error
    return tuple(
        dict.fromkeys(each for module in modules for each in vars(module).values() if isinstance(each, Check))
    )


CHECKS = _find_checks()
"""Every check, in the order in which the suite runs them."""
