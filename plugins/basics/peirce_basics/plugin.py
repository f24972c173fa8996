"""The plug-in of `peirce_basics`. Its parts, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.parts import Architecture, Head, Position, PureOperator, RecurrentOperator, StateOperator


@hookimpl
def register_operators() -> list[type[PureOperator | RecurrentOperator | StateOperator]]:
    """Recurrent operators, attention, and feed-forward networks."""
    from peirce_basics.operators.attention import Attention
    from peirce_basics.operators.experts import Experts
    from peirce_basics.operators.feedforward import KINDS
    from peirce_basics.operators.gated import GRU, LSTM

    return [LSTM, GRU, Attention, *KINDS.values(), Experts]


@hookimpl
def register_architectures() -> list[type[Architecture]]:
    """The transformer, recurrent networks, and attention flow between two texts."""
    from peirce_basics.architectures.bidaf import BiDAF
    from peirce_basics.architectures.recurrent import Recurrent
    from peirce_basics.architectures.transformer import Transformer
    from peirce_basics.architectures.two_branch import TwoBranch

    return [Transformer, TwoBranch, Recurrent, BiDAF]


@hookimpl
def register_positions() -> list[type[Position]]:
    """Absolute positions, rotary ones, relative ones that bias attention, none, and scopes."""
    from peirce_basics.positions.absolute import Absolute
    from peirce_basics.positions.alibi import Alibi
    from peirce_basics.positions.cope import Cope
    from peirce_basics.positions.disentangled import Disentangled
    from peirce_basics.positions.fire import Fire
    from peirce_basics.positions.none import NoPosition
    from peirce_basics.positions.rope import Rope
    from peirce_basics.positions.same_text import SameText
    from peirce_basics.positions.shaw import Shaw
    from peirce_basics.positions.t5 import T5
    from peirce_basics.positions.transformer_xl import TransformerXL
    from peirce_basics.positions.window import Window

    biases: list[type[Position]] = [Shaw, T5, Disentangled, Alibi, TransformerXL, Fire, Cope]
    return [Absolute, *biases, Rope, NoPosition, SameText, Window]


@hookimpl
def register_heads() -> list[type[Head]]:
    """Heads on the whole input, on tokens, and on pairs of tokens."""
    from peirce_basics.heads import linear
    from peirce_basics.heads.contrastive import Contrastive
    from peirce_basics.heads.matching import Matching
    from peirce_basics.heads.vocabulary import CausalLanguageModel, MaskedLanguageModel

    whole: list[type[Head]] = [linear.SentencePair, linear.Classification, linear.MultipleChoice]
    pairs: list[type[Head]] = [linear.Relation, linear.Swap]
    texts: list[type[Head]] = [CausalLanguageModel, MaskedLanguageModel]
    return [
        *whole,
        linear.MultiLabel,
        Contrastive,
        Matching,
        *texts,
        linear.TokenClassification,
        linear.Span,
        *pairs,
    ]


@hookimpl
def register_specs() -> list[Path]:
    """BERT, GPT-2 and Llama, small."""
    return [Path(__file__).parent / "specs"]


@hookimpl
def register_commands() -> dict[str, str]:
    """Models that gain parts."""
    return {"upgrade": "Give a saved model operators and relations; it computes what it did."}
