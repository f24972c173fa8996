"""Networks between token ids and atoms."""

import peirce

from peirce_plugins.architectures.folnet import FolNet
from peirce_plugins.architectures.transformer import Transformer

__all__ = ["FolNet", "Transformer", "register_architectures"]


@peirce.hookimpl
def register_architectures() -> list[type]:
    """The dual-branch network of FOLNet and the single-branch transformer."""
    return [FolNet, Transformer]
