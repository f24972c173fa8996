"""Generating tokens: greedy, with beams, or drawn, over anything that gives logits for the next token.

This module knows numpy alone, so that a model in torch and an exported file choose tokens by the same code, and a
serving machine needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from attrs import Attribute, evolve, field, fields, frozen, validators
from numpy.typing import NDArray

from peirce.errors import InputError, check_known

Logits = NDArray[np.float64]
Ids = NDArray[np.int64]
Callback = Callable[[Ids], None]
"""Called with tokens, int64 [b], as soon as they are chosen."""


BEAMS = 10_000
"""The most partial texts that are followed: far more than anybody needs, and within memory."""


def _check_integer(_: Any, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{attribute.name} is {value!r} and must be a whole number")


def _check_finite(_: Any, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{attribute.name} is {value!r} and must be a finite number")


@frozen(kw_only=True)
class Decoding:
    """How the next token is chosen.

    Args:
        max_new: the most tokens to generate, `eos_id` included; if not given, also no more than the model has room for.
        eos_id: the token that ends a text; None for texts of `max_new` tokens.
        beams: how many partial texts are followed, the most probable ones, at most `BEAMS`; 1 is greedy.
        length_penalty: a finished text is judged by its log-probability divided by its number of tokens to this power.
        sample: whether tokens are drawn from their probabilities, and not the most probable ones taken.
        temperature: what logits are divided by before they become probabilities.
        top_k: draw among so many most probable tokens; 0 for all.
        top_p: draw among the fewest most probable tokens whose probabilities reach this sum.
        seed: what the draws depend on, together with the row, so that a text does not depend on its batch.
    """

    max_new: int = field(default=32, validator=[_check_integer, validators.ge(1)])
    eos_id: int | None = field(
        default=None, validator=validators.optional([_check_integer, validators.ge(0)])
    )
    beams: int = field(default=1, validator=[_check_integer, validators.ge(1), validators.le(BEAMS)])
    length_penalty: float = field(default=1.0, validator=_check_finite)
    sample: bool = field(default=False, validator=validators.in_((True, False)))
    temperature: float = field(default=1.0, validator=[_check_finite, validators.gt(0)])
    top_k: int = field(default=0, validator=[_check_integer, validators.ge(0)])
    top_p: float = field(default=1.0, validator=[_check_finite, validators.gt(0), validators.le(1)])
    seed: int = field(default=0, validator=[_check_integer, validators.ge(0)])

    def __attrs_post_init__(self) -> None:
        if self.sample and self.beams > 1:
            raise InputError(f"sample and beams = {self.beams} exclude each other; draw with beams = 1")
        drawn = {"temperature": self.temperature != 1, "top_k": self.top_k != 0, "top_p": self.top_p != 1}
        if not self.sample and (unused := [name for name, given in drawn.items() if given]):
            raise InputError(f"{', '.join(unused)} only matter where tokens are drawn; set sample = True")


@frozen(kw_only=True)
class Generated:
    """A generated text.

    Args:
        tokens: the ids, without the prompt; `eos_id` is the last one where the text ended by itself.
        score: the sum of the tokens' log-probabilities, as the model gives them.
    """

    tokens: tuple[int, ...]
    score: float


class Stepper(Protocol):
    """A model that has read prompts and gives logits for the next token of each row."""

    def begin(self) -> NDArray[Any]:
        """Read the prompts: logits [b, v] of their next tokens."""
        ...

    def step(self, tokens: Ids) -> NDArray[Any]:
        """Append one token to each row, int64 [b]: logits [b, v] of the next ones."""
        ...

    def select(self, rows: Ids) -> None:
        """Go on with these rows, int64 [n], which may repeat."""
        ...


def make_decoding(settings: Mapping[str, Any], free: int | None = None) -> Decoding:
    """Settings as a value.

    Args:
        settings: by name, as `Decoding` says.
        free: how many tokens the model may append; None for any number. Where `max_new` is not among the settings, it
            is no more.

    Raises:
        InputError: a setting is unknown or impossible, or there is no room for `max_new` tokens.
    """
    known = [attribute.name for attribute in fields(Decoding)]
    for name in settings:
        check_known("setting of generation", name, known)
    try:
        decoding = Decoding(**settings)
    except (ValueError, TypeError) as error:
        raise InputError(f"generation: {error.args[0] if error.args else error}") from error
    if free is None or decoding.max_new <= free:
        return decoding
    if "max_new" in settings or free < 1:
        raise InputError(
            f"max_new is {decoding.max_new}, and the longest prompt leaves room for {max(free, 0)} tokens "
            "(model.input.max_length of the spec); lower max_new, or shorten the prompts"
        )
    return evolve(decoding, max_new=free)


def generate(
    stepper: Stepper, decoding: Decoding, on_tokens: Callback | None = None
) -> tuple[Generated, ...]:
    """One text for each prompt.

    Args:
        stepper: the model and its prompts.
        decoding: the choice of tokens.
        on_tokens: called with the tokens of every row, ended ones included; not with beams, whose texts change.
    """
    if decoding.beams > 1:
        return _search_beams(stepper, decoding)
    return _generate_rows(stepper, decoding, on_tokens)


def _generate_rows(stepper: Stepper, decoding: Decoding, on_tokens: Callback | None) -> tuple[Generated, ...]:
    """Greedy or drawn: each row has one text."""
    logits = _log_softmax(stepper.begin())
    count = len(logits)
    draws = [np.random.default_rng([decoding.seed, row]) for row in range(count)]
    texts: list[list[int]] = [[] for _ in range(count)]
    scores, open_ = np.zeros(count), np.ones(count, np.bool_)
    for number in range(decoding.max_new):
        if decoding.sample:
            tokens = np.array([_draw(row, decoding, draw) for row, draw in zip(logits, draws, strict=True)])
        else:
            tokens = logits.argmax(1)
        if on_tokens is not None:
            on_tokens(tokens)
        for row in np.flatnonzero(open_):
            texts[row].append(int(tokens[row]))
            scores[row] += logits[row, tokens[row]]
        open_ &= tokens != (-1 if decoding.eos_id is None else decoding.eos_id)
        if not open_.any() or number + 1 == decoding.max_new:
            break
        logits = _log_softmax(stepper.step(tokens))
    return tuple(Generated(tokens=tuple(t), score=float(s)) for t, s in zip(texts, scores, strict=True))


def _draw(log: Logits, decoding: Decoding, draw: np.random.Generator) -> int:
    """One token from log-probabilities [v], tempered and cut."""
    tempered = _log_softmax(log / decoding.temperature)
    order = np.argsort(-tempered, kind="stable")
    if decoding.top_k:
        order = order[: decoding.top_k]
    chances = np.exp(tempered[order])
    if decoding.top_p < 1:
        before = np.cumsum(chances) - chances
        order, chances = order[before < decoding.top_p], chances[before < decoding.top_p]
    # The inverse of the cumulative distribution takes one number a token, whatever was cut.
    place = np.searchsorted(np.cumsum(chances), draw.random() * chances.sum(), side="right")
    return int(order[min(place, len(order) - 1)])


def _search_beams(stepper: Stepper, decoding: Decoding) -> tuple[Generated, ...]:
    """The most probable texts that a beam finds; rows of one prompt stand together."""
    logits = _log_softmax(stepper.begin())
    count, width, size = len(logits), decoding.beams, logits.shape[1]
    stepper.select(np.repeat(np.arange(count), width))
    logits = np.repeat(logits, width, 0).reshape(count, width, size)
    scores = np.full((count, width), -np.inf)
    scores[:, 0] = 0.0  # the beams of a prompt are the same at first: one of them goes on
    texts: list[list[tuple[int, ...]]] = [[()] * width for _ in range(count)]
    done: list[list[tuple[float, Generated]]] = [[] for _ in range(count)]
    for number in range(1, decoding.max_new + 1):
        rows, tokens = np.zeros((count, width), np.int64), np.zeros((count, width), np.int64)
        for prompt in range(count):
            best = _highest(scores[prompt, :, None] + logits[prompt], 2 * width)
            later: list[tuple[int, ...]] = []
            scores[prompt], previous = -np.inf, texts[prompt]
            for total, beam, token in best:
                text = (*previous[beam], token)
                if token == decoding.eos_id or number == decoding.max_new:
                    ranking = total / number**decoding.length_penalty
                    done[prompt].append((ranking, Generated(tokens=text, score=total)))
                if token != decoding.eos_id and len(later) < width:
                    place = len(later)
                    rows[prompt, place], tokens[prompt, place] = prompt * width + beam, token
                    scores[prompt, place] = total
                    later.append(text)
            texts[prompt] = later + [()] * (width - len(later))
        if number == decoding.max_new or all(
            _is_settled(d, s, number, decoding) for d, s in zip(done, scores, strict=True)
        ):
            break
        stepper.select(rows.ravel())
        logits = _log_softmax(stepper.step(tokens.ravel())).reshape(count, width, size)
    return tuple(max(found, key=lambda pair: pair[0])[1] for found in done)


def _highest(scores: Logits, count: int) -> list[tuple[float, int, int]]:
    """The highest of [beams, v] with their beam and token, ties in order."""
    flat = scores.ravel()
    costs, last = -flat, min(count, flat.size) - 1
    # Few are sorted: to sort a whole vocabulary takes as long as a small model.
    some = np.flatnonzero(costs <= np.partition(costs, last)[last])
    order = some[np.argsort(costs[some], kind="stable")[:count]]
    found = [(float(flat[i]), int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]
    return [each for each in found if np.isfinite(each[0])]


def _is_settled(done: list[tuple[float, Generated]], scores: Logits, number: int, decoding: Decoding) -> bool:
    """Whether as many texts as beams have ended, and no open one can still be judged better than the best."""
    if len(done) < decoding.beams:
        return False
    longest = decoding.max_new if decoding.length_penalty > 0 else number + 1
    best_possible = float(scores.max()) / longest**decoding.length_penalty
    return max(ranking for ranking, _ in done) >= best_possible


def _log_softmax(logits: NDArray[Any]) -> Logits:
    exact = np.asarray(logits, np.float64)
    shifted = exact - exact.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
