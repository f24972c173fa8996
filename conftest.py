"""What the tests of every distribution may use: installed parts, and the folder `shared` beside the repository."""

from __future__ import annotations

import gc
from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings
from shared_folder import pytest_runtest_makereport as pytest_runtest_makereport
from shared_folder import shared as shared
from thorough import checked_often
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
    """Each run tries the suite on few examples and leaves out what takes long; `tox -e thorough` tries all of it.

    Without TensorRT its exporter is left to `tox -e tensorrt`: a part of which nothing is checked fails the run.
    """
    if find_spec("tensorrt_rtx") is None:
        left = [item for item in items if item.name.endswith("[exporters.tensorrt]")]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    from peirce_testing.plugin import CheckItem  # not before pytest rewrites its assertions

    quick = config.option.markexpr == "not thorough"
    for item in items:
        if isinstance(item, CheckItem):
            item.case.quick |= quick
            if not quick or not checked_often(*item.name.rstrip("]").split("[")):
                item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The parts of this repository's distributions, as far as they are installed, and no others."""
    built_in = {plugin.name: "on" for plugin in installed_plugins() if plugin.distribution in NAMES}
    return Registry.discover(RegistryFile(default="off", plugins=built_in))
