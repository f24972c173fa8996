"""How far numbers are from ULTRA's, and how its queries are written."""

from __future__ import annotations

from typing import Any

import numpy as np

WORDS = {"negate": "not", "intersection": "and", "union": "or"}
"""The operations that its programs call otherwise."""


def off(found: Any, published: Any) -> float:
    """The largest difference, by the largest published number."""
    return float(np.abs(np.asarray(found) - published).max() / np.abs(published).max())
