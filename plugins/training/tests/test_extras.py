"""What a command or a feature says where a package that it needs is not installed."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared_folder import ROOT

from peirce.errors import TaskError
from peirce.extras import require, require_training
from peirce_queries.graphs.files import read_pykeen
from peirce_queries.sampling.files import read_block
from peirce_queries.sampling.workers import pool
from peirce_text.reading import read_dataset
from peirce_text.text.tokenizer import Tokenizer

UNUSED: Any = None
"""What is not read before the package is asked for."""
PROJECT = ROOT / "pyproject.toml"


def test_all_that_is_missing_is_named_in_one_message() -> None:
    with pytest.raises(TaskError) as caught:
        require("a wish", "numpy", "no_such", "nor_this", extra="kg", instead="go without")
    assert str(caught.value) == (
        "a wish needs no_such and nor_this, which are not installed; run `pip install 'peirce[kg]'` or go without"
    )


@pytest.mark.parametrize(
    ("package", "feature", "extra", "use"),
    [
        ("matplotlib", "training", "train", require_training),
        ("ray", "--engine ray", "ray", lambda: pool("ray", 1, UNUSED).__enter__()),
        ("pykeen", "the graph 'umls'", "kg", lambda: read_pykeen("umls")),
        ("pyarrow", "a Parquet file", "kg", lambda: read_block(Path("x"), UNUSED, "train")),
        ("tokenizers", "a tokenizer", "text", lambda: Tokenizer.from_content(b"")),
        ("datasets", "the data set 'a/b'", "text", lambda: read_dataset("a/b")),
    ],
)
def test_a_feature_without_its_package_names_an_extra_that_brings_it(
    package: str, feature: str, extra: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    wanted = rf"^{feature} needs {package}, which is not installed; run `pip install 'peirce\[{extra}\]'`"
    with pytest.raises(TaskError, match=wanted):
        use()
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert any(requirement.startswith(package) for requirement in extras[extra])
