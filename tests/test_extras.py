"""What a feature says where a package that it needs is not installed names an extra that there is."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shared_folder import ROOT

from peirce.errors import TaskError
from peirce_queries.graphs.files import read_pykeen
from peirce_queries.sampling.files import read_block
from peirce_queries.sampling.workers import pool
from peirce_text.reading import read_dataset

UNUSED: Any = None
"""What is not read before the package is asked for."""


@pytest.mark.parametrize(
    ("package", "feature", "use"),
    [
        ("ray", "--engine ray", lambda: pool("ray", 1, UNUSED).__enter__()),
        ("pykeen", "the graph 'umls'", lambda: read_pykeen("umls")),
        ("pyarrow", "a Parquet file", lambda: read_block(Path("x"), UNUSED, "train")),
        ("datasets", "the data set 'a/b'", lambda: read_dataset("a/b")),
    ],
)
def test_a_feature_without_its_package_names_an_extra(
    package: str, feature: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TaskError, match=f"^{feature} needs {package}, which is not installed") as caught:
        use()
    found = re.search(r"pip install 'peirce(?:-(\w+))?\[([\w-]+)\]'", str(caught.value))
    assert found is not None
    folder = ROOT / "plugins" / found[1] if found[1] else ROOT / "meta"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert found[2] in project["optional-dependencies"]
