"""The plug-in of `peirce_text`. Its tasks, and torch with them, are imported when a registry asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peirce.registry import hookimpl

if TYPE_CHECKING:
    from peirce.model import AnyTask


@hookimpl
def register_tasks() -> list[type[AnyTask]]:
    """Pretraining, fine-tuning on GLUE and SQuAD, reasoning, label words, pairs of texts, and tables."""
    from peirce_text.clutrr.task import Clutrr
    from peirce_text.folio.task import Folio
    from peirce_text.glue.task import Glue
    from peirce_text.pretraining.task import Pretraining
    from peirce_text.squad.task import Squad
    from peirce_text.tabular.classify import Classify
    from peirce_text.tabular.multilabel import MultiLabel
    from peirce_text.tabular.rank import Rank
    from peirce_text.tabular.regress import Regress
    from peirce_text.tabular.tag import Tag
    from peirce_text.text_to_text.task import TextToText
    from peirce_text.zeroshot.task import ZeroShot

    tables: list[type[AnyTask]] = [Classify, MultiLabel, Regress, Rank, Tag]
    return [Pretraining, Glue, Squad, Clutrr, Folio, ZeroShot, TextToText, *tables]


@hookimpl
def register_pipelines() -> dict[str, str]:
    """Texts that are classified, labelled or scored, words that are tagged, and prompts that a model goes on with."""
    return {
        "classify": "peirce_text.serving:ClassificationPipeline",
        "label": "peirce_text.serving:LabellingPipeline",
        "score": "peirce_text.serving:ScoringPipeline",
        "tag": "peirce_text.serving:TaggingPipeline",
        "write": "peirce_text.serving:WritingPipeline",
    }


@hookimpl(optionalhook=True)
def register_views() -> dict[str, str]:
    """Texts in tokens."""
    return {"texts": "peirce_text.views:Texts"}


@hookimpl
def register_commands() -> dict[str, str]:
    """Tokenizers, pretraining, generation and predictions."""
    return {
        "explain": "Say why a model of a table is wrong, and what to try.",
        "models": "List local pretrained models, which trainings on texts start from.",
        "predict": "Predict the classes of texts, or the tags of words, for a whole file.",
        "pretrain": "Pretrain a language model by a recipe on files of text.",
        "tokenizer": "Train a tokenizer on files of text.",
        "generate": "Write texts with a trained model or an exported file.",
    }
