"""Whole questions to a served model: which option answers a question, and the summary of a text; without torch.

Relations of the texts are found in front of the model, by the parser that it was trained with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from peirce.errors import InputError, TaskError
from peirce.parts import Signature
from peirce_export import Field, Pipeline, Runner, Say
from peirce_logic.input_texts import SETTINGS, TOKENIZER, Reader, start_token
from peirce_text import probabilities

SCORES, DECODER = "multiple_choice_logits", "decoder_input_ids"
READ = frozenset({"input_ids", "attention_mask", "token_type_ids", "logical_ids", "logical_relations"})


class ChoicePipeline(Pipeline):
    """The option that answers a question about a text."""

    question = (
        Field(name="context", kind="text", meaning="The text."),
        Field(name="question", kind="text", meaning="What is asked."),
        Field(name="options", kind="text", many=True, meaning="The answers to choose from, two or more."),
    )
    answer = (
        Field(name="options", kind="text", many=True, meaning="The options, the best first."),
        Field(name="scores", kind="float", many=True, meaning="Their scores, before a softmax."),
        Field(
            name="probabilities", kind="float", many=True, meaning="Their softmax; none of a single score."
        ),
    )

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the task `multiple_choice` trained the model."""
        required = {spec.name for spec in signature.inputs if spec.required}
        scored = any(spec.name == SCORES for spec in signature.outputs)
        return {TOKENIZER, SETTINGS} <= set(assets) and required <= READ and scored

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model, self._reader = model, Reader.of(folder)
        self._inputs = {spec.name: spec for spec in model.signature.inputs}

    def example(self) -> Mapping[str, Any]:
        """A question about the weather."""
        return {
            "context": "It rains here and not there.",
            "question": "Where?",
            "options": ["Here.", "There."],
        }

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Score the options."""
        context, options = question["context"], list(question["options"])
        if len(options) < 2:
            raise InputError(f"input 'options' has {len(options)} of them; give two or more")
        pairs = [(context, f"{question['question']} {option}") for option in options]
        reader = self._reader
        try:
            encodings = [
                reader.tokenizer.encode(*pair, length=reader.length, shorten="middle") for pair in pairs
            ]
        except TaskError as error:
            raise InputError(
                f"question and option leave the context no room within {reader.length} tokens: {error}"
            ) from error
        feeds = reader.rows(pairs, encodings, list(self._inputs))
        types = self._inputs.get("token_type_ids")
        if types is not None and types.high == 1:
            feeds["token_type_ids"] = np.zeros_like(feeds["token_type_ids"])
        scores = self._model.run(feeds, [SCORES])[SCORES]
        order = np.argsort(-scores, kind="stable")
        best, scores = [options[i] for i in order], scores[order]
        say({"options": best, "scores": scores.tolist(), "probabilities": probabilities(scores)})


class SummaryPipeline(Pipeline):
    """The summary of a text."""

    question = (
        Field(name="text", kind="text", meaning="The text."),
        Field(name="max_new", kind="int64", required=False, meaning="The most tokens to write."),
        Field(name="beams", kind="int64", required=False, meaning="How many partial summaries are followed."),
    )
    answer = (Field(name="summary", kind="text", meaning="The summary."),)

    @classmethod
    def answers(cls, signature: Signature, assets: Collection[str], generates: bool) -> bool:
        """Whether the task `summarise` trained the model."""
        required = {spec.name for spec in signature.inputs if spec.required}
        return generates and {TOKENIZER, SETTINGS} <= set(assets) and DECODER in required <= {*READ, DECODER}

    def __init__(self, folder: Path, model: Runner) -> None:
        self._model, self._reader = model, Reader.of(folder)
        self._inputs = [spec.name for spec in model.signature.inputs]
        cls_id, start = self._reader.tokenizer.cls_id, start_token(folder)
        self._decoder_start = [cls_id] if start in (None, cls_id) else [start, cls_id]

    def example(self) -> Mapping[str, Any]:
        """One token of a summary."""
        return {"text": "It rains here and not there.", "max_new": 1}

    def ask(self, question: Mapping[str, Any], say: Say) -> None:
        """Write the summary."""
        settings = dict(question)
        text, tokenizer = settings.pop("text"), self._reader.tokenizer
        encoding = tokenizer.encode(text, length=self._reader.length)
        feeds = self._reader.rows([[text]], [encoding], self._inputs)
        feeds[DECODER] = np.array([self._decoder_start], np.int64)
        (summary,) = self._model.generate(feeds, eos_id=tokenizer.sep_id, **settings)
        say({"summary": tokenizer.decode(summary.tokens)})
