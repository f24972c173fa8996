"""Makes the folder of wrong parts importable, which a subprocess may then import by name as well."""

import sys
from pathlib import Path

import pytest
from thorough import EXPORTED_ALONE
from translations import kept_translations as kept_translations

sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only a thorough run exports each part in a model of its own; `test_exports.py` exports many in one."""
    for item in items:
        check, _, part = item.name.rstrip("]").partition("[")
        if check == "onnx" and not part.startswith("architectures.") and part not in EXPORTED_ALONE:
            item.add_marker(pytest.mark.thorough)
