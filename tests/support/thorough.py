"""What every run tries, and what is left to `tox -e thorough`: cases of parametrised tests, and checks of the suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

EXPORTED_ALONE = ("operators.gru", "operators.lstm", "operators.tpru")
"""Parts that every run exports in a model of their own: the model of stub parts that holds others cannot hold them."""
TAKE_LONG = {
    "onnx": (*EXPORTED_ALONE, "positions.t5", "augmenters.tpr", "heads.span", "architectures.gqe"),
    "compiled": (
        "operators.join",
        "positions.t5",
        "augmenters.tpr",
        "heads.span",
        "architectures.relational",
    ),
    "export_options": ("exporters.onnx", "exporters.torch_export", "exporters.tensorrt"),
}
"""Checks that take seconds, and the parts that every run tries them on: at least one of each kind.
`tests/conformance/test_exports.py` exports the others in few models, and tests of exports whole architectures."""


def often(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The values of a parametrised test; those that are not kept are run by `tox -e thorough` alone."""
    return [
        v if v in kept else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.thorough)
        for v in values
    ]


def checked_often(check: str, part: str) -> bool:
    """Whether every run tries a check of the suite on a part, `KIND.NAME`."""
    return check not in TAKE_LONG or part in TAKE_LONG[check]
