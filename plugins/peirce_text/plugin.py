"""The plug-in of `peirce_text`. Its tasks, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask, Experiment


@hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """Pretraining, fine-tuning on GLUE and SQuAD, reasoning with CLUTRR and FOLIO, label words, pairs of texts."""
    from peirce_text.clutrr.task import Clutrr
    from peirce_text.folio.task import Folio
    from peirce_text.glue.task import Glue
    from peirce_text.pretraining.task import Pretraining
    from peirce_text.squad.task import Squad
    from peirce_text.text_to_text.task import TextToText
    from peirce_text.zeroshot.task import ZeroShot

    return [Pretraining, Glue, Squad, Clutrr, Folio, ZeroShot, TextToText]


@hookimpl
def register_experiments() -> list[Experiment]:
    """Networks of one size from scratch, on CLUTRR and on FOLIO."""
    from peirce_text.clutrr.experiment import CLUTRR
    from peirce_text.folio.experiment import FOLIO

    return [CLUTRR, FOLIO]


@hookimpl
def register_pipelines() -> dict[str, str]:
    """Texts that are classified, and prompts that a model goes on with."""
    return {"classify": "peirce_text.serving:Classifies", "write": "peirce_text.serving:Writes"}


@hookimpl
def register_views() -> dict[str, str]:
    """Texts in tokens."""
    return {"texts": "peirce_text.viewing:Texts"}


@hookimpl
def register_commands() -> dict[str, str]:
    """Tokenizers, pretraining and generation."""
    return {
        "pretrain": "Pretrain a language model by a recipe on files of text.",
        "tokenizer": "Train a tokenizer on files of text.",
        "generate": "Write texts with a trained model or an exported file.",
    }
