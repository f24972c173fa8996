"""What a model computes between the tokens of one text, of any operator, as the matrices of a view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from peirce.algebra import ATOMS, BetweenTokens, between_tokens
from peirce.errors import TaskError
from peirce.model import Model
from peirce_show.viewers import Matrix

MOST_TOKENS = 128
"""The most tokens of a text that is looked at: a matrix has their square of cells."""
_PLACE = re.compile(r"(.*?)\.(\d+)(?:\.|$)")


def observe(
    model: Model,
    inputs: Mapping[str, Any],
    tokens: Sequence[str],
    written: Sequence[str] = (),
    *,
    channel: int | None = None,
    channels: int = 8,
) -> tuple[Matrix, ...]:
    """Run a model on one row of inputs, and keep what it computes between tokens.

    Args:
        model: the model, in evaluation mode.
        inputs: arrays or tensors by name, of one row.
        tokens: the texts of the row's tokens.
        written: those of a decoder's rows, where there is one; its columns are `tokens` and then these.
        channel: the channel that is kept, from 1; if None, their mean and the first `channels`.
        channels: how many are kept beside the mean.

    Returns:
        For each layer what its operators read and infer of pairs, and the atoms after it; before the first, layer 0.

    Raises:
        TaskError: there are too many tokens, or no matrix has such a channel.
    """
    every = (*tokens, *written)
    if len(every) > MOST_TOKENS:
        raise TaskError(
            f"the text has {len(every)} tokens, and at most {MOST_TOKENS} are looked at; give a part of it"
        )
    found: dict[tuple[str, ...], Matrix] = {}
    runs = Counter[tuple[str, ...]]()
    widest = 0

    def keep(each: BetweenTokens) -> None:
        nonlocal widest
        layer, name = _layer(model, each, runs[each[:3]]), "" if each.operator == ATOMS else each.name
        runs[each[:3]] += 1
        rows, columns = each.values.shape[1:3]
        # A decoder's columns are both texts, and its rows its own tokens, or all that these attend to.
        near = (written, every) if written and columns == len(every) else (tokens,)
        widest = max(widest, each.values.shape[3])
        kept, values = _select_channels(each.values[0], channel, channels)
        # The atoms before a layer are those after the one before, which stand there already.
        if kept and not (each.operator == ATOMS and (layer, ATOMS, name) in found):
            axes = ("attends", "attended to") if each.share else ("first token", "second token")
            found[layer, each.operator, name] = Matrix(
                layer=layer, operator=each.operator, name=name, rows=_texts(rows, near), columns=_texts(columns, near),
                channels=kept, values=values, share=each.share, axes=axes,
            )  # fmt: skip

    device = next(model.parameters()).device
    given = {name: torch.as_tensor(value).to(device) for name, value in inputs.items()}
    with torch.inference_mode(), between_tokens(model, keep):
        model(**given)
    if widest and not found:
        raise TaskError(f"there is no channel {channel}: there are at most {widest}, counted from 1")
    return tuple(found.values())


def _layer(model: Model, each: BetweenTokens, run: int) -> str:
    """The name of a layer, from 1, with that of its stack where this is not the network's own; 0 before the first.

    Where layers run again and again, each run after the first is a further layer.
    """
    found = _PLACE.match(each.place)
    if found is None:
        return str(run + 1)
    stack = model.get_submodule(found[1])
    count = len(stack) if isinstance(stack, nn.ModuleList) else 1
    number = int(found[2]) + run * count + (each.name != "before")
    stack_name = found[1].removeprefix("network").removesuffix("layers").strip(".")
    return f"{stack_name} {number}".strip()


def _texts(count: int, near: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The tokens of the text with `count` tokens; numbers if the network has merged or split tokens."""
    return tuple(next((each for each in near if len(each) == count), map(str, range(1, count + 1))))


def _select_channels(
    values: Tensor, channel: int | None, channels: int
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """[x, a, c] -> the names of the channels that are kept, and float32 [kept, x, a]."""
    by_channel = values.float().permute(2, 0, 1)
    every = len(by_channel)
    if channel is not None:
        selected = by_channel[channel - 1 : channel]
        return (f"{channel} of {every}",) * len(selected), selected.cpu().numpy().copy()
    first = by_channel[:channels]
    names = (f"mean of {every}", *(f"{number} of {every}" for number in range(1, len(first) + 1)))
    return names, torch.cat([by_channel.mean(0, keepdim=True), first]).cpu().numpy()
