"""The states of every random generator that training uses: python's, numpy's and torch's; as tensors, no pickle."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

_PYTHON_VERSION = 3
_STRIDE = 1_000_003


def seed_all(seed: int, process: int = 0) -> None:
    """Seed every generator; processes of one training get seeds of their own."""
    process_seed = seed + _STRIDE * process
    random.seed(process_seed)
    np.random.seed(process_seed % 2**32)
    torch.manual_seed(process_seed)


def capture() -> dict[str, Tensor]:
    """The states of all generators, by name."""
    _, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state()
    states = {
        "python.words": torch.tensor(words, dtype=torch.int64),
        "python.gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy.keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
        "numpy.rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
        "torch.cpu": torch.get_rng_state(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["torch.cuda"] = torch.cuda.get_rng_state()
    return states


def restore(states: Mapping[str, Tensor]) -> None:
    """Put all generators back where `capture` found them."""
    gauss = states["python.gauss"].tolist()
    random.setstate((_PYTHON_VERSION, tuple(states["python.words"].tolist()), gauss[0] if gauss else None))
    position, has_gauss, cached = states["numpy.rest"].tolist()
    keys = states["numpy.keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))
    torch.set_rng_state(states["torch.cpu"])
    if "torch.cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["torch.cuda"])


@contextmanager
def isolated_generators(seed: int | None = None) -> Iterator[None]:
    """Within it the generators may be used freely, from a seed if one is given; outside, nothing has happened."""
    states = capture()
    try:
        if seed is not None:
            seed_all(seed)
        yield
    finally:
        restore(states)
