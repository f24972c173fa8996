"""What commands and features need beside the core, asked for before any work is done."""

from __future__ import annotations

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
