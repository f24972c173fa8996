"""What the tests of every distribution may use: installed parts, and the folder `shared` beside the repository."""

from __future__ import annotations

import gc

import pytest
import torch
from hypothesis import settings
from shared_folder import pytest_runtest_makereport as pytest_runtest_makereport
from shared_folder import shared as shared
from toy_registry import parts as parts
from toy_registry import peirce_command as peirce_command
from toy_registry import registry_file as registry_file
from toy_registry import toy_registry as toy_registry
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


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The parts of this repository's distributions, as far as they are installed, and no others."""
    built_in = {plugin.name: "on" for plugin in installed_plugins() if plugin.distribution in NAMES}
    return Registry.discover(RegistryFile(default="off", plugins=built_in))
