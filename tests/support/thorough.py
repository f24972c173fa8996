"""Cases of parametrised tests that every run has, and those that `tox -e thorough` alone has."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

EXPORTED_ALONE = ("operators.gru", "operators.lstm", "operators.tpru")
"""Parts that every run exports in a model of their own: the model of stub parts that holds others cannot hold them."""


def often(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The values of a parametrised test; those that are not kept are run by `tox -e thorough` alone."""
    return [
        v if v in kept else pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.thorough)
        for v in values
    ]
