"""Networks between token ids and atoms."""

import peirce

from peirce_plugins.architectures.encoder_decoder import FolNetEncoderDecoder
from peirce_plugins.architectures.folnet import FolNet
from peirce_plugins.architectures.recurrent import Recurrent
from peirce_plugins.architectures.transformer import Transformer

__all__ = ["FolNet", "FolNetEncoderDecoder", "Recurrent", "Transformer", "register_architectures"]


@peirce.hookimpl
def register_architectures() -> list[type]:
    """FOLNet's dual-branch networks, the single-branch transformer and recurrent networks."""
    return [FolNet, FolNetEncoderDecoder, Transformer, Recurrent]
