"""The contract of architectures that generate."""

from __future__ import annotations

import pytest
from peirce.parts import GenerativeArchitecture, TensorSpec


def test_the_name_that_version_0_1_gave_to_cached_state_still_counts() -> None:
    with pytest.warns(DeprecationWarning, match="Old: call the method cached_state, not memory") as warned:

        class Old(GenerativeArchitecture):
            def memory(self) -> tuple[TensorSpec, ...]:
                return (TensorSpec(name="memory_ids", dtype="int64", dims=("batch", "past")),)

    assert [warning.filename for warning in warned] == [__file__]
    assert "cached_state" not in Old.__abstractmethods__
    assert Old.cached_state is Old.memory
