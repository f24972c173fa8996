"""What commands and features need beside the core: packages, asked for before any work is done, and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from peirce.errors import TaskError


def require(feature: str, *packages: str, extra: str, instead: str = "") -> None:
    """Refuse to go on without packages of an extra.

    Args:
        feature: the command or feature that needs them, in the singular, such as `--engine ray`.
        packages: the names that are imported.
        extra: the extra that brings them.
        instead: what else the user can do, such as `give a folder`.

    Raises:
        TaskError: names those that are missing, what needs them, and how to install them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise TaskError(
            f"{feature} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            f"run `pip install 'peirce[{extra}]'`" + (instead and f" or {instead}")
        )


def require_training() -> None:
    """Refuse to start a training without the packages of the extra `train`.

    Raises:
        TaskError: as `require`.
    """
    require("training", "accelerate", "tensorboard", "matplotlib", extra="train")


_SAFE_PATH = "PYTHONSAFEPATH"
"""With this variable, Python looks for modules neither in the working directory nor beside a script."""


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes of Python that are started within it import nothing from the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH, None)
        else:
            os.environ[_SAFE_PATH] = before
