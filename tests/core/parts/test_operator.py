"""What an operator says of the channels that it reads."""

from __future__ import annotations

import pytest
from attrs import evolve
from peirce.parts import Reader


@pytest.mark.parametrize("value", [True, False])
def test_the_name_that_version_0_1_gave_to_attended_still_counts(value: bool) -> None:
    with pytest.warns(DeprecationWarning, match=f"write cached={value}, not looked_at={value}") as warned:
        reader = Reader(branch="U", shape={"h": 2}, looked_at=value)
    assert [warning.filename for warning in warned] == [__file__]
    assert reader.cached is value
    assert reader == Reader(branch="U", shape={"h": 2}, cached=value)
    assert evolve(reader, cached=not value).attended is not value
