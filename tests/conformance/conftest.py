"""Makes the folder of wrong parts importable, which a subprocess may then import by name as well."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from thorough import EXPORTED_ALONE
from translations import kept_translations as kept_translations

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only a thorough run exports each part in a model of its own, and compiles each architecture; `test_exports.py`
    exports many in one.

    Without TensorRT its exporter is left to `tox -e tensorrt`: a part of which nothing is checked fails the run.
    """
    if find_spec("tensorrt_rtx") is None:
        left = [item for item in items if item.name.endswith("[exporters.tensorrt]")]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    for item in items:
        check, _, part = item.name.rstrip("]").partition("[")
        network = part.startswith("architectures.")
        if (check == "onnx" and not network and part not in EXPORTED_ALONE) or (
            check == "compiled" and network
        ):
            item.add_marker(pytest.mark.thorough)
