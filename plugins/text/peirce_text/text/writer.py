"""Texts that a model writes: prompts in words become its inputs, and its tokens become words.

Nothing here needs torch, so that a serving machine writes with an exported file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from peirce.errors import ModelFileError, TaskError
from peirce.extras import require
from peirce.model import Generated, make_decoding
from peirce.parts import TensorSpec
from peirce_text.text.encoding import pad
from peirce_text.text.tokenizer import Tokenizer

Arrays = dict[str, NDArray[Any]]
Inputs = Sequence[TensorSpec]
IDS, DECODER, PREFIX = "input_ids", "decoder_input_ids", "prefix_length"
"""The inputs that every model has, one with two stacks, and one with a prefix scope."""


@frozen(kw_only=True)
class WrittenText:
    """What a model wrote.

    Args:
        prompt: the prompt as it was given.
        text: what was written; with the prompt before it where it goes on with that.
        tokens: the new tokens.
        score: the sum of their log-probabilities.
        ended: whether the model ended the text, and not the limit of tokens.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    score: float
    ended: bool


@frozen(kw_only=True)
class TextWriter:
    """A model that generates, and its tokenizer; make one with `open_writer`.

    Args:
        tokenizer: what the model was trained with.
        names: the model's inputs.
        generate: the model: its inputs as arrays and the settings of `peirce.model.Decoding` to tokens.
        whole: whether a prompt is a text of its own, with a separator after it, that another text follows; if not,
            the model goes on with it.
    """

    tokenizer: Tokenizer
    names: frozenset[str]
    generate: Callable[..., Sequence[Generated]] = field(repr=False)
    whole: bool

    def write(self, prompts: Sequence[str], **settings: Any) -> list[WrittenText]:
        """One text for each prompt.

        Args:
            prompts: texts; an empty one begins with nothing.
            settings: how tokens are chosen, as in `peirce.model.Decoding`; a text ends with the separator unless they
                say otherwise.

        Raises:
            TaskError: there is no prompt. InputError: a setting is wrong, or a prompt is not for this model.
        """
        if not prompts:
            raise TaskError("there is no prompt; give a text, which may be empty")
        how = {"eos_id": self.tokenizer.sep_id, **settings}
        make_decoding(how)
        rows = [self._row(prompt) for prompt in prompts]
        texts = self.generate(self._inputs(rows), **how)
        return [
            WrittenText(
                prompt=prompt,
                text=self._text(row, text.tokens),
                tokens=text.tokens,
                score=text.score,
                ended=text.tokens[-1] == how["eos_id"],
            )
            for prompt, row, text in zip(prompts, rows, texts, strict=True)
        ]

    def follow(self, prompt: str, tokens: Sequence[int]) -> str:
        """The text of a prompt and of tokens that follow it, as `write` gives it."""
        return self._text(self._row(prompt), tokens)

    def _text(self, row: Sequence[int], tokens: Sequence[int]) -> str:
        return self.tokenizer.decode([*(() if self.whole else row), *tokens])

    def _row(self, prompt: str) -> list[int]:
        tokenizer = self.tokenizer
        pieces = tokenizer.pieces(prompt)
        if not self.whole:
            return [tokenizer.cls_id, *pieces]
        most = None if tokenizer.length is None else tokenizer.length - 2  # as the sources of the training
        return [tokenizer.cls_id, *pieces[:most], tokenizer.sep_id]

    def _inputs(self, rows: Sequence[Sequence[int]]) -> Arrays:
        """What the model reads: prompts padded at the end, and as it asks for it a prefix or where a target begins."""
        ids, mask = pad(rows, self.tokenizer.pad_id)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if DECODER in self.names:
            inputs[DECODER] = np.full((len(rows), 1), self.tokenizer.cls_id, np.int64)
        if PREFIX in self.names:
            inputs[PREFIX] = mask.sum(1)
        return inputs


def open_writer(
    path: Path, tokenizer: Path | None = None, *, device: str | None = None, whole: bool | None = None
) -> TextWriter:
    """A saved model, or a file that was exported to generate, as a writer.

    Args:
        path: the folder of a saved model, or an ONNX file.
        tokenizer: a tokenizers JSON, a BERT vocab.txt, or a folder with one; if None the one that the model keeps, or
            that lies beside the file.
        device: where a saved model goes; the file's session chooses its own.
        whole: whether a separator follows the prompt; if None it does for models with two stacks or a prefix scope.

    Raises:
        ModelFileError: the model cannot be read. TaskError: there is no tokenizer, or a device is given for a file.
        InputError: the model does not generate.
    """
    if not path.exists():
        raise ModelFileError(
            f"there is neither a saved model nor an exported file at {path}; `peirce train` and `peirce export` write "
            "them"
        )
    folder = path if path.is_dir() else path.parent
    inputs, generate = _saved_generator(path, device) if path.is_dir() else _exported_generator(path, device)
    return text_writer(inputs, generate, tokenizer or folder, whole=whole, where=path)


def text_writer(
    inputs: Inputs,
    generate: Callable[..., Sequence[Generated]],
    tokenizer: Path,
    *,
    whole: bool | None = None,
    where: Path,
) -> TextWriter:
    """A writer of something that generates.

    Args:
        inputs: what it reads.
        generate: as `TextWriter` has it.
        tokenizer: where its tokenizer lies.
        whole: as for `open_writer`.
        where: what the model came from, for errors.

    Raises:
        TaskError: there is no tokenizer, or it is not the model's.
    """
    known = frozenset(spec.name for spec in inputs)
    words = Tokenizer.load(tokenizer)
    for spec in inputs:
        if spec.name == IDS and spec.high is not None and words.vocabulary > spec.high:
            raise TaskError(
                f"the tokenizer {tokenizer} has {words.vocabulary:,} entries, and the model {where} was "
                f"trained with {spec.high:,} at most; give its own with --tokenizer"
            )
    return TextWriter(
        tokenizer=words,
        names=known,
        generate=generate,
        whole=bool(known & {DECODER, PREFIX}) if whole is None else whole,
    )


def _saved_generator(path: Path, device: str | None) -> tuple[Inputs, Callable[..., Sequence[Generated]]]:
    require(f"the saved model {path}", "torch", extra="peirce-text[train]", instead="give an exported file")
    import torch

    from peirce.compose import load

    model = load(path, device=device)
    model.generation_names()
    place = next(model.parameters()).device

    def generate(inputs: Mapping[str, NDArray[Any]], **settings: Any) -> Sequence[Generated]:
        return model.generate({k: torch.from_numpy(v).to(place) for k, v in inputs.items()}, **settings)

    return model.signature.inputs, generate


def _exported_generator(path: Path, device: str | None) -> tuple[Inputs, Callable[..., Sequence[Generated]]]:
    import peirce
    from peirce.model import PROVENANCE, WEIGHTS, saved_files

    if device is not None:
        raise TaskError(
            f"{path} is not a saved model: ONNX Runtime chooses where a file runs; leave out the device"
        )
    if (path.parent / PROVENANCE).is_file():  # the tokenizer beside the file is one of a saved model's
        with saved_files(path.parent, without=(WEIGHTS,)):
            pass
    session = peirce.Session(path)
    return session.signature.inputs, session.generate
