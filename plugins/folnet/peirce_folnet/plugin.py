"""The plug-in of `peirce_folnet`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Architecture, Operator, Position, StateOperator


@hookimpl
def register_operators() -> list[type[Operator | StateOperator]]:
    """The operators in the order of Table 2."""
    from peirce_folnet.operators.assoc import Assoc
    from peirce_folnet.operators.bool import Bool
    from peirce_folnet.operators.cjoin import CJoin
    from peirce_folnet.operators.join import Join
    from peirce_folnet.operators.mu import Mu
    from peirce_folnet.operators.prod import Prod
    from peirce_folnet.operators.trans import Trans

    return [Bool, CJoin, Join, Mu, Assoc, Prod, Trans]


@hookimpl
def register_positions() -> list[type[Position]]:
    """The clipped distance between tokens, as a relation."""
    from peirce_folnet.positions.distance import Distance

    return [Distance]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """Networks that keep relations from layer to layer."""
    from peirce_folnet.architectures.encoder_decoder import FolNetEncoderDecoder
    from peirce_folnet.architectures.folnet import FolNet

    return [FolNet, FolNetEncoderDecoder]


@hookimpl
def register_specs() -> list[Path]:
    """The published sizes, the lines of Table 3, a causal model, and one from text to text."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models of published checkpoints."""
    return {
        "import.folnet": "Import a published FOLNet checkpoint, or write a model as one.",
    }
