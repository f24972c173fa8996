"""`peirce.testing` is another name of `peirce_testing`."""

from __future__ import annotations

import subprocess
import sys


def test_its_modules_are_the_same_objects() -> None:
    program = (
        "import peirce.testing.strategies, peirce.testing.suite, peirce_testing\n"
        "assert peirce.testing is peirce_testing\n"
        "assert peirce.testing.strategies is peirce_testing.strategies\n"
        "from peirce.testing import Conformance\n"
        "assert Conformance is peirce_testing.Conformance"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True)
