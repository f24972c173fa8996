"""What third-party packages warn of while they export: these lines are silenced, and no others."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

KNOWN: tuple[tuple[str, type[Warning], str], ...] = (
    # Two inputs share one Dim, which is what Peirce asks for: a dim has one name.
    (r"# The axis name: \w+ will not be used, since it shares", UserWarning, "torch 2.13.0"),
    # torch copies its own exported program and warns of its own pytree.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning, "torch 2.13.0"),
)
"""Message (a regular expression, matched from its start), category, and the package and version."""

LOGGERS: tuple[tuple[str, str], ...] = (
    # "torchvision is not installed": no model of Peirce uses it.
    ("torch.onnx._internal.exporter._registration", "torch 2.13.0"),
    # "Skipping constant folding for op Split with multiple outputs": a Split of constants stays as it is.
    ("onnxscript.optimizer._constant_folding", "onnxscript 0.7.2"),
    # Opset 17 goes through the converter of the onnx package, and the result is verified.
    ("onnxscript.version_converter", "onnxscript 0.7.2"),
)
"""Loggers that speak below the level of an error, and the package and version that does."""


@contextmanager
def silenced() -> Iterator[None]:
    """Silence `KNOWN` and `LOGGERS` while an export runs."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name, _ in LOGGERS}
    with warnings.catch_warnings():
        for message, category, _ in KNOWN:
            warnings.filterwarnings("ignore", message=message, category=category)
        for logger in levels:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)
