"""What tasks on text need beside the core, asked for before any work is done."""

from __future__ import annotations

from importlib.util import find_spec

from peirce.errors import TaskError


def require_text(*needed: str) -> None:
    """Refuse to go on without packages of the extra `text`.

    Args:
        needed: the names that are imported, such as `tokenizers`.

    Raises:
        TaskError: names those that are missing, and how to install them.
    """
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise TaskError(
            f"tasks on text need {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            "run `pip install 'peirce[text]'`"
        )
