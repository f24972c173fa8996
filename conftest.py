"""What the tests of every distribution may use: installed parts, and the folder `shared` beside the repository."""

from __future__ import annotations

import gc
from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings
from shared_folder import pytest_runtest_makereport as pytest_runtest_makereport
from shared_folder import shared as shared
from thorough import EXPORTED_ALONE
from toy_registry import parts as parts
from toy_registry import peirce_command as peirce_command
from toy_registry import registry_file as registry_file
from toy_registry import toy_registry as toy_registry
from translations import kept_translations as kept_translations
from workspace import NAMES

from peirce.registry import Registry, RegistryFile, installed_plugins

pytest_plugins = ["peirce_testing.plugin"]

# Two test processes share two cores, and results must not depend on how many threads add them up.
torch.set_num_threads(1)

settings.register_profile("steady", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """The garbage collector leaves imported modules alone; walking them takes a tenth of every export."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only a thorough run exports each part in a model of its own, and compiles each architecture;
    `tests/conformance/test_exports.py` exports many in one.

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


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The parts of this repository's distributions, as far as they are installed, and no others."""
    built_in = {plugin.name: "on" for plugin in installed_plugins() if plugin.distribution in NAMES}
    return Registry.discover(RegistryFile(default="off", plugins=built_in))
