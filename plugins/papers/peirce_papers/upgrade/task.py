"""The task that all rows learn: which conclusions of rules follow? And its form for relations that are shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import torch
from attrs import evolve, frozen
from numpy.typing import NDArray
from torch import Tensor, nn

from peirce.algebra import Predicates
from peirce.model import Model
from peirce.parts import IGNORED
from peirce_papers.upgrade.rules import PLAIN, SAMPLERS, Problem, problems
from peirce_text.tasks import (
    TEST,
    TRAIN,
    TextData,
    TextOptions,
    TextTask,
    at_least,
    vocabulary_settings,
)
from peirce_text.text.encoding import Ints
from peirce_text.text.tokenizer import Tokenizer
from peirce_text.text.words import EncodedWords, encode_words


@frozen(kw_only=True)
class RulesOptions(TextOptions):
    """How many problems there are, and how deep they are.

    Args:
        problems: for training, the same for every seed of a model.
        tests: of each depth and each sampler.
        trained: the greatest depth in each problem for training, whose other conclusions are less deep.
        depths: of tests.
    """

    batch_size: int = at_least(1, 16)
    problems: int = at_least(2, 10_000)
    tests: int = at_least(2, 80)
    trained: int = at_least(2, 3)
    depths: tuple[int, ...] = (1, 2, 3, 4, 6, 8)


class Rules(TextTask[RulesOptions, Problem, EncodedWords]):
    """Every conclusion of a problem for training is labelled, and the one that is asked of a problem for tests."""

    name = "rules"
    source = "RuleTaker (Clark et al., 2020), Section 3; SimpleLogic (Zhang et al., 2022), Section 3"
    Options = RulesOptions
    head = "token_classification"
    nouns = "problems"
    pool = 8

    def check_source(self) -> None:
        """Problems are made, from no source."""

    def read(self) -> dict[str, Sequence[Problem]]:
        """The problems; those of tests by sampler and depth, with other words."""
        options = self.options
        first, depths = next(iter(SAMPLERS)), [options.trained]
        tests = [
            each
            for sampler in SAMPLERS
            for depth in options.depths
            for each in islice(problems(sampler, 1, [depth], Random(depth)), options.tests)
        ]
        return {
            TRAIN: [*islice(problems(first, 0, depths, Random(0), limited=True), options.problems)],
            TEST: tests,
        }

    def encode(self, tokenizer: Tokenizer, split: str, examples: Sequence[Problem]) -> EncodedWords:
        """The words as ids, and a label at conclusions."""
        words = [each.words(every=split == TRAIN) for each in examples]
        length = self.options.length
        encoded = encode_words(tokenizer, [[word for word, _ in each] for each in words], length, split)
        labels = [IGNORED if label is None else int(label) for each in words for _, label in each]
        notes = [(each.sampler, each.depth) for each in examples]
        return evolve(encoded.with_tags(np.array(labels, np.int64)), notes=notes)

    def overrides(self, data: TextData[EncodedWords]) -> Mapping[str, Any]:
        """The vocabulary, and a head for words."""
        return {**vocabulary_settings(data.tokenizer), "model.heads": [{"use": self.head, "classes": 2}]}

    def batch(
        self, data: TextData[EncodedWords], split: str, rows: Ints, rng: np.random.Generator | None
    ) -> dict[str, Tensor]:
        """Some problems, with `edge_ids` for models that are told of pairs with the same attribute: 0 for the same
        literal, 1 for one and its negation, 2 for all other pairs."""
        batch = super().batch(data, split, rows, rng)
        ids, tokenizer = batch["input_ids"], data.tokenizer
        others = [each for pieces in tokenizer.pieces_of([f" {word}" for word in PLAIN]) for each in pieces]
        framing = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]
        word = ~torch.isin(ids, torch.tensor([*others, *framing]))
        negated = nn.functional.pad(ids[:, :-1] == others[0], (1, 0))
        same = (ids[:, :, None] == ids[:, None, :]) & word[:, :, None]
        sides = (negated[:, :, None] != negated[:, None, :]).long()
        return {**batch, "edge_ids": torch.where(same, sides, 2)}

    def targets(self, batch: Mapping[str, Tensor]) -> Mapping[str, int]:
        """The labelled words of a batch."""
        return {"loss": int((batch["labels"] != IGNORED).sum())}

    def right(self, model: Model, data: TextData[EncodedWords], split: str) -> NDArray[np.bool_]:
        """Whether each problem's labelled words are all labelled right."""
        found = np.zeros(len(data.splits[split]), np.bool_)
        for rows, batch, outputs in self.evaluate_batches(model, data, split):
            labels = batch["labels"]
            wrong = (outputs[f"{self.head}_logits"].argmax(-1) != labels) & (labels != IGNORED)
            found[rows] = ~wrong.any(1).cpu().numpy()
        return found

    def metrics(self, model: Model, data: TextData[EncodedWords], split: str) -> Mapping[str, float]:
        """The share of problems that are labelled right."""
        return {"accuracy": float(self.right(model, data, split).mean())}


@contextmanager
def shuffled_relations(model: Model) -> Iterator[None]:
    """Within it what deduces in a `two_branch` reads relations (x, y) as those of (p(x), p(y)), p a random order of a
    row's tokens, which differs from layer to layer; padding stays where it is."""

    def shuffle(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        state, scope, *more = inputs
        unary, binary = state
        noise = torch.rand(binary.shape[:2], device=binary.device)
        order = (noise if scope.tokens is None else noise + 2.0 * ~scope.tokens).argsort(1)
        rows = torch.arange(len(order), device=order.device)[:, None, None]
        return Predicates(unary, binary[rows, order[:, :, None], order[:, None, :]]), scope, *more

    layers = model.network.get_submodule("relations").children()
    hooks = [layer.register_forward_pre_hook(shuffle) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class WithShuffledRelations(TextTask[Any, Any, Any]):
    """A task for a model whose operators read the relations of other pairs of tokens, in training and in tests."""

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss, with pairs drawn anew for each batch."""
        with shuffled_relations(model):
            return super().loss(model, batch)

    def evaluate_batches(
        self, model: Model, data: Any, split: str
    ) -> Iterator[tuple[Ints, dict[str, Tensor], dict[str, Tensor]]]:
        """The batches, with pairs that are drawn from one seed."""
        with shuffled_relations(model), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield from super().evaluate_batches(model, data, split)


class ShuffledRules(WithShuffledRelations, Rules):
    """`rules` where relations are shuffled."""

    name = "rules, relations shuffled"
