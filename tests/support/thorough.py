"""What every run tries, and what is left to `tox -e thorough`: cases of parametrised tests, and checks of the suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from zlib import crc32

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
    "export_options": ("exporters.torch_export", "exporters.tensorrt"),
}
"""Checks that take seconds, and the parts that every run tries them on: at least one of each kind.
`tests/conformance/test_exports.py` exports the others in few models, and tests of exports whole architectures."""

SAMPLED = (
    "batch", "devices", "dtypes", "empty_rows", "finite", "gradients", "learning", "limits", "long_sequences", "memory",
    "modes", "options", "precision", "purity", "save_load", "seed", "state_dict",
)  # fmt: skip
"""Checks of networks that every run tries on a third of the parts of a kind, which their names draw: what each part
computes, and each option's every value of it, is held by the check `record`, which every run tries on all."""
WHOLE = ("augmenters", "specs")
"""The kinds with too few parts for that."""


def often(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The values of a parametrised test; those that are not kept are run by `tox -e thorough` alone."""
    return [
        v if v in kept else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.thorough)
        for v in values
    ]


def checked_often(check: str, part: str) -> bool:
    """Whether every run tries a check of the suite on a part, `KIND.NAME`."""
    if check in TAKE_LONG:
        return part in TAKE_LONG[check]
    drawn = crc32(f"{check}[{part}]".encode()) % 3 == 0
    return drawn or check not in SAMPLED or part.partition(".")[0] in WHOLE
