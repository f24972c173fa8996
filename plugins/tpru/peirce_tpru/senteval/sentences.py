"""One vector for a sentence: of a saved model of Peirce, or of an encoder of `transformers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from peirce.compose import load
from peirce.errors import TaskError
from peirce.files import read_json
from peirce.model import ASSETS, SPEC, Model
from peirce_text import Tokenizer, encode, evaluation_mode, with_progress
from peirce_tpru.vectors import ASSET, Vectors, rows_of, vectors_of

Features = NDArray[np.float32]
POOLS = ("mean", "max", "last", "ends", "first", "pooled")
"""What stands for a sentence: the mean or the maximum over its tokens; its last token; the final states of both
directions, a half of the channels each; its first token; or the model's own pooled output."""
TOKENIZER = "tokenizer.json"
LENGTH = 256


@frozen(eq=False)
class Sentences:
    """Gives sentences their vectors.

    Args:
        about: what it is, in a line.
        size: how many sentences are read at once.
        read: the vectors of some sentences, float32 [n, d].
        vectors: the vectors of words that are read; None where there are none.
    """

    about: str
    size: int
    read: Callable[[Sequence[str]], Features]
    vectors: Vectors | None

    def prepare(self, texts: Iterable[str]) -> None:
        """Read or compute the vectors of the words of these texts."""
        if self.vectors is not None:
            self.vectors.prepare(texts)

    def of(self, texts: Sequence[str], what: str) -> Features:
        """The vector of each text, float32 [n, d]; each distinct one is read once, those of like length together.

        Args:
            texts: the texts.
            what: what they are, for the progress bar.
        """
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        starts = range(0, len(distinct), self.size)
        found: dict[str, Any] = {}
        for start in with_progress(starts, f"sentences of {what}", len(starts), 20):
            part = distinct[start : start + self.size]
            found |= zip(part, self.read(part), strict=True)
        return np.stack([found[text] for text in texts]).astype(np.float32)


def sentences_of(
    source: str | Path,
    *,
    model: Model | None = None,
    pool: str = "",
    vectors: str | Vectors = "",
    cache: str = "",
    batch_size: int = 64,
    device: str = "cpu",
) -> Sentences:
    """What gives vectors, by the folder that a user names.

    Args:
        source: the folder of a saved model of Peirce; or of an encoder of `transformers`, or its name on the hub; or a
            text file of word vectors.
        model: the saved model, if it is loaded already.
        pool: one of `POOLS`; if empty, that of the model's head `matching`, or else the mean.
        vectors: of a model that reads vectors of words, where they lie now; where they lay in training if empty.
        cache: a folder that keeps an encoder's vectors of words.
        batch_size: how many sentences are read at once.
        device: what computes.

    Raises:
        TaskError: there is no such model, or it reads more than texts.
    """
    folder = Path(source)
    if pool and pool not in POOLS:
        raise TaskError(f"unknown pooling {pool!r}; choose one of {', '.join(POOLS)}")
    if model is None and not (folder / SPEC).is_file():
        return _encoder_sentences(str(source), pool or "mean", cache, batch_size, device)
    model = (model or load(folder)).to(device)
    required = {spec.name for spec in model.signature.inputs if spec.required}
    pool = pool or next(
        (str(head.options.get("pool", "last")) for head in model.spec.heads if head.use == "matching"), "mean"
    )
    if pool == "pooled" and "pooled" not in {spec.name for spec in model.signature.outputs}:
        raise TaskError(f"{folder} has no pooled output; pool by {', '.join(POOLS[:-1])}")
    given: Vectors | Tokenizer
    if "word_vectors" in required:
        given = vectors if isinstance(vectors, Vectors) else _vectors(folder, vectors, cache, device)
    elif required - {"input_ids"}:
        raise TaskError(
            f"{folder} reads {', '.join(sorted(required - {'input_ids'}))}, which a text alone lacks; use a model "
            "that reads token ids, or vectors of words"
        )
    elif (folder / ASSETS / TOKENIZER).is_file():
        given = Tokenizer.load(folder)
    else:
        raise TaskError(
            f"{folder} has no tokenizer, so it reads no texts; take a model that was trained on texts"
        )
    longest, known = min(LENGTH, model.plan.dims.max_length), {spec.name for spec in model.signature.inputs}

    def read(part: Sequence[str]) -> Features:
        if isinstance(given, Vectors):
            inputs = rows_of(given, [part])
        else:
            inputs = encode(given, [part], longest).batch(np.arange(len(part)))
        with evaluation_mode(model) as moved:
            batch = moved(inputs)
            encoded, _ = model.network({name: each for name, each in batch.items() if name in known})
            states = encoded.pooled if pool == "pooled" else encoded.unary
            return pool_states(states.float(), batch["attention_mask"], pool).cpu().numpy()

    about = f"{model.spec.name}, {pool} of {model.plan.dims.unary} channels"
    return Sentences(about, batch_size, read, given if isinstance(given, Vectors) else None)


def _encoder_sentences(source: str, pool: str, cache: str, batch_size: int, device: str) -> Sentences:
    if pool in ("ends", "pooled"):
        raise TaskError(f"an encoder's vectors are pooled by mean, max, first or last, not by {pool!r}")
    given = vectors_of(source, length=LENGTH, cache=cache, device=device)
    take: Any = {"mean": lambda states: states.mean(0), "max": lambda states: states.max(0)}.get(
        pool, lambda states: states[0 if pool == "first" else -1]
    )
    about = f"{source}, {pool} of {given.width} channels"
    return Sentences(
        about, batch_size, lambda part: np.stack([take(states) for states in given.of(part)]), given
    )


def pool_states(states: Tensor, real: Tensor, pool: str) -> Tensor:
    """One vector a text: [b, x, d] -> [b, d], over the tokens `real`, bool [b, x], which stand first."""
    last = real.long().sum(1) - 1
    at_last = states[torch.arange(len(states)), last] if states.dim() == 3 else states
    match pool:
        case "pooled":
            return states
        case "first":
            return states[:, 0]
        case "last":
            return at_last
        case "ends":
            half = states.shape[2] // 2
            return torch.cat([at_last[:, :half], states[:, 0, half:]], 1)
        case "max":
            return states.masked_fill(~real.unsqueeze(2), float("-inf")).amax(1)
        case _:
            return states.masked_fill(~real.unsqueeze(2), 0).sum(1) / real.sum(1, keepdim=True)


def _vectors(folder: Path, source: str, cache: str, device: str) -> Vectors:
    """What gives a model the vectors that it was trained on."""
    path = folder / ASSETS / ASSET
    try:
        content = read_json(path)
        trained, identity = str(content["source"]), str(content["identity"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise TaskError(
            f"{path} does not say which vectors of words the model reads: {error!r}; train it with the task nli"
        ) from error
    length = int(identity.rpartition("-")[2]) if identity.rpartition("-")[2].isdecimal() else LENGTH
    found = vectors_of(source or trained, length=length, cache=cache, device=device)
    if found.identity != identity:
        raise TaskError(
            f"the vectors of {found.source} are not those that {folder} was trained on, from {trained}; name that "
            "file or encoder with --vectors"
        )
    return found
