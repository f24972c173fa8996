"""What a feature says where a package that it needs is not installed."""

from __future__ import annotations

import pytest

from peirce.errors import TaskError
from peirce.extras import require


@pytest.mark.parametrize(
    ("extra", "requirement"), [("kg", "peirce[kg]"), ("peirce-text[train]", "peirce-text[train]")]
)
def test_all_that_is_missing_is_named_in_one_message(extra: str, requirement: str) -> None:
    with pytest.raises(TaskError) as caught:
        require("a wish", "numpy", "no_such", "nor_this", extra=extra, instead="go without")
    assert str(caught.value) == (
        "a wish needs no_such and nor_this, which are not installed; "
        f"run `pip install '{requirement}'` or go without"
    )
