"""Every check over the plug-ins that `--peirce-plugin` names, or over everything registered.

Run it with `pytest -p peirce_testing.plugin --pyargs peirce_testing.suite --peirce-plugin MODULE_OR_DIST:ENTRY`.
"""

from peirce_testing.conformance import Conformance

conformance = Conformance()
