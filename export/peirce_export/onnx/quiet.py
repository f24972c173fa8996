"""What third-party packages warn of while they export: these lines are silenced, and no others."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

KNOWN = (
    # torch 2.13.0: two inputs share one Dim, which is what Peirce asks for: a dim has one name.
    (r"# The axis name: \w+ will not be used, since it shares", UserWarning),
    # torch 2.13.0 copies its own exported program and warns of its own pytree.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
)
"""Messages (regular expressions, matched from their start), each with its category."""

LOGGERS = (
    # torch 2.13.0, "torchvision is not installed": no model of Peirce uses it.
    "torch.onnx._internal.exporter._registration",
    # onnxscript 0.7.2, "Skipping constant folding for op Split": a Split of constants stays as it is.
    "onnxscript.optimizer._constant_folding",
    # onnxscript 0.7.2: opset 17 goes through the converter of the onnx package, and the result is verified.
    "onnxscript.version_converter",
)
"""Loggers that speak below the level of an error."""


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Silence `KNOWN` and `LOGGERS` while an export runs."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in LOGGERS}
    with warnings.catch_warnings():
        for message, category in KNOWN:
            warnings.filterwarnings("ignore", message=message, category=category)
        for logger in levels:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in levels.items():
                logger.setLevel(level)
