"""Operators of several readings and with a weight meet the suite, but for the export, which `test_exports.py` makes."""

from __future__ import annotations

import many_readings
import pytest

from peirce.registry import Registry
from peirce_testing.check import Case
from peirce_testing.checks import CHECKS
from peirce_testing.compare import NotApplicableError, NotRunError
from peirce_testing.stub_parts import with_stub_parts


@pytest.mark.parametrize("name", ["edges", "difference", "bend", "retention"])
def test_they_pass_every_check(name: str) -> None:
    registry = with_stub_parts(Registry.of(many_readings))
    case = Case(registry.entry("operators", name), registry)
    ran = []
    for check in CHECKS:
        if check.applies("operators", case.part) and not check.on_request:
            try:
                check.run(case)
            except (NotApplicableError, NotRunError):
                continue
            ran.append(check.name)
    left = {check.name for check in CHECKS if check.applies("operators", case.part)} - {*ran}
    assert left <= {"kernel", "onnx", "options", "record", "tensorrt"}, left
