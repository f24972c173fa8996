"""What parameters begin with: maps and embeddings from a normal distribution, unless a part chose something else.

The values show whether a part chose. While a model is composed, each tensor that torch's own initialisation gives to a
map or an embedding is noted. A tensor that still has these values in the end was chosen by no part.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

SMALL_STD = 0.02
"""BERT's standard deviation."""

_KINDS = (nn.Linear, nn.Embedding)
_RESET = "reset_parameters"


_records = threading.local()
"""Has the `fingerprints` that this thread collects; None, or nothing, where it composes nothing."""
_lock = threading.Lock()


@contextmanager
def record_defaults() -> Iterator[set[int]]:
    """Within it, note what torch gives to the maps and embeddings that this thread makes.

    Returns:
        Their fingerprints, for `initialise`.
    """
    # Once for the process: what came and went would change under other threads.
    with _lock:
        for kind in _KINDS:
            if kind.reset_parameters.__module__ != __name__:
                setattr(kind, _RESET, _recording(kind.reset_parameters))
    found: set[int] = set()
    before, _records.fingerprints = getattr(_records, "fingerprints", None), found
    try:
        yield found
    finally:
        _records.fingerprints = before


def set_small_normal(module: nn.Linear | nn.Embedding) -> None:
    """Give a map or an embedding BERT's small normal weights, for a part that is used by itself.

    It does not count as the part's choice: in a model the spec's `init_std` replaces it.
    """
    nn.init.normal_(module.weight, std=SMALL_STD)
    bias = getattr(module, "bias", None)
    if bias is not None:
        nn.init.zeros_(bias)
    _record(module)


def initialise(model: nn.Module, std: float, fingerprints: set[int]) -> None:
    """Initialise what no part has initialised, in the order of the modules.

    Args:
        model: the model; only linear maps and embeddings are initialised.
        std: of the weights; biases become zero, and so does the padding row of an embedding that has one.
        fingerprints: what `record_defaults` noted while the model was made.
    """
    for module in model.modules():
        if not isinstance(module, _KINDS):
            continue
        if _fingerprint(module.weight) in fingerprints:
            nn.init.normal_(module.weight, std=std)
            padding = getattr(module, "padding_idx", None)
            if padding is not None:
                nn.init.zeros_(module.weight[padding])
        bias = getattr(module, "bias", None)
        if bias is not None and _fingerprint(bias) in fingerprints:
            nn.init.zeros_(bias)


def _recording(reset: Callable[[Any], None]) -> Callable[[Any], None]:
    def reset_parameters(module: Any) -> None:
        reset(module)
        _record(module)

    return reset_parameters


def _record(module: nn.Module) -> None:
    if getattr(_records, "fingerprints", None) is not None:
        given = (value for value in module.parameters(recurse=False) if not value.is_meta)
        _records.fingerprints.update(map(_fingerprint, given))


def _fingerprint(values: Tensor) -> int:
    return zlib.crc32(values.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
