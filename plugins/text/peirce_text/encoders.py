"""Pretrained encoders of `transformers` whose weights stay as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peirce.errors import TaskError
from peirce.extras import require
from peirce.model import SPEC

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without the bars and reports of `transformers` while it loads a model, which go to the terminal."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_encoder(name: str, instead: str = "") -> tuple[Any, Any]:
    """The tokenizer and the model of an encoder, in float32.

    Args:
        name: its folder, or its name on the hub.
        instead: what else could be given, for errors.

    Raises:
        TaskError: `transformers` is not installed, or the encoder cannot be loaded.
    """
    require("a pretrained encoder", "transformers", extra="peirce-text[encoders]")
    import torch
    from transformers import AutoModel, AutoTokenizer

    which = f"give {instead}the folder of a model of transformers, or its name on the hub"
    if (Path(name) / SPEC).is_file():
        raise TaskError(f"{name} holds a model of Peirce, which is not an encoder of transformers; {which}")
    how: dict[str, Any] = {"use_safetensors": True, "dtype": torch.float32}
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            model = AutoModel.from_pretrained(name, trust_remote_code=False, **how)
    except Exception as error:  # whatever the library, its file formats and its network raise
        cause = str(error).partition("\n")[0].rstrip(".")
        raise TaskError(f"the encoder {name!r} cannot be loaded: {cause}; {which}") from error
    return tokenizer, model.eval()


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of the names and bytes of tensors, which tells an encoder's weights from others."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().cpu().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
