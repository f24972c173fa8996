"""A model that no memory holds is refused before it is composed, with how much it would need."""

from __future__ import annotations

import pytest

from peirce.compose import build, summarise
from peirce.errors import SpecError
from peirce.registry import Registry, load_spec


@pytest.mark.parametrize(
    ("key", "size", "message"),
    [
        ("layers", 10**9, r"needs about 150,000.0 GB"),
        ("unary", 10**6, r"needs about 392,\d{3}.\d GB"),
        ("heads", 10**8, r"needs about 1,\d{3},\d{3}.\d GB"),
    ],
)
def test_what_no_machine_holds_is_refused(key: str, size: int, message: str, registry: Registry) -> None:
    spec = load_spec("folnet-base", {f"model.dims.{key}": size})
    with pytest.raises(
        SpecError, match=message + r"; this machine has [\d,.]+ GB. Lower the sizes"
    ) as refused:
        build(spec, registry=registry)
    assert "folnet-base.toml:" in str(refused.value)


def test_a_summary_needs_no_memory_for_parameters(registry: Registry) -> None:
    spec = load_spec("folnet-base", {"model.dims.unary": 10**6, "model.dims.layers": 1})
    assert summarise(spec, length=4, registry=registry).parameters > 10**12
    with pytest.raises(SpecError, match=r"needs about 150,000\.0 GB"):
        summarise(load_spec("folnet-base", {"model.dims.layers": 10**9}), registry=registry)
