"""Networks between token ids and atoms."""

import peirce

from peirce_plugins.architectures.encoder_decoder import FolNetEncoderDecoder
from peirce_plugins.architectures.folnet import FolNet
from peirce_plugins.architectures.queries.betae import BetaE
from peirce_plugins.architectures.queries.cone import ConE
from peirce_plugins.architectures.queries.cqd import Cqd
from peirce_plugins.architectures.queries.lmpnn import Lmpnn
from peirce_plugins.architectures.recurrent import Recurrent
from peirce_plugins.architectures.transformer import Transformer

__all__ = [
    "BetaE",
    "ConE",
    "Cqd",
    "FolNet",
    "FolNetEncoderDecoder",
    "Lmpnn",
    "Recurrent",
    "Transformer",
    "register_architectures",
]


@peirce.hookimpl
def register_architectures() -> list[type]:
    """Dual-branch and single-branch networks, recurrent ones, and systems that execute queries themselves."""
    return [FolNet, FolNetEncoderDecoder, Transformer, Recurrent, BetaE, ConE, Cqd, Lmpnn]
