"""What is said where the package `transformers` is absent."""

from __future__ import annotations

from importlib.util import find_spec

from peirce.errors import PeirceError


class MissingTransformersError(PeirceError, ImportError):
    """The package `transformers` is not installed."""


def need_transformers() -> None:
    """Refuse to go on without the package.

    Raises:
        MissingTransformersError: it is not installed.
    """
    if find_spec("transformers") is None:
        raise MissingTransformersError(
            "peirce_hf needs the package transformers, which is not installed; run "
            "`pip install 'peirce[transformers]'`"
        )
