"""What training needs beside the core, asked for before any work is done."""

from __future__ import annotations

from importlib.util import find_spec

from peirce.errors import TaskError

NEEDED = ("accelerate", "tensorboard", "matplotlib")


def require_extra() -> None:
    """Refuse to start without the packages of the extra `train`.

    Raises:
        TaskError: names those that are missing, and how to install them.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise TaskError(
            f"training needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            "run `pip install 'peirce[train]'`"
        )
