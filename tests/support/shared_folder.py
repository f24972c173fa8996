"""The folder of golden numbers and data beside the repository, which under CI no test may skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def under_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository, or PEIRCE_SHARED; without it skip, or fail under CI."""
    folder = Path(os.environ.get("PEIRCE_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        reason = f"there is no folder {folder}; set PEIRCE_SHARED to the folder of golden numbers and data"
        if under_ci():
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Under CI a test that reads the folder may not be skipped, whatever the reason."""
    report = yield
    if (
        report.skipped
        and under_ci()
        and "shared" in getattr(item, "fixturenames", ())
        and not hasattr(report, "wasxfail")
    ):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} reads the shared folder and was skipped under CI: {report.longrepr}"
    return report
