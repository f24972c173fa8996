"""Entity and relation vectors by link prediction on a graph's training triples: TransE, DistMult and ComplEx."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor, nn

from peirce.errors import TaskError
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.evaluation import ranks
from peirce_kg.parts.augmenters.kge_files import KgeFacts, Optimizer, Predictor, write_kge
from peirce_kg.parts.systems.system import complex_product
from peirce_queries import Answers, Graph, Split, with_inverses
from peirce_training import isolated_generators

NEGATIVES = 64
"""False triples for each true one of TransE."""
MARGIN = 9.0
"""What TransE's distances are compared with in its loss."""
SCORES = 2**22
"""Scores that are held at once; a step that has more takes them in portions."""
EVALUATED = 32
"""Triples that are ranked at once."""


class Recipe(NamedTuple):
    """How a link predictor is trained where an option says nothing.

    n3: the weight of the N3 penalty; init_std: the standard deviation of new vectors' numbers, dim^-0.5 if None.
    """

    optimizer: Optimizer
    lr: float
    batch_size: int
    n3: float
    init_std: float | None


_TENSOR = Recipe(optimizer="adagrad", lr=0.1, batch_size=1000, n3=0.05, init_std=1e-3)
_ADAM = Recipe(optimizer="adam", lr=1e-3, batch_size=512, n3=0.0, init_std=None)
RECIPES: Mapping[Predictor, Recipe] = {"transe": _ADAM, "distmult": _TENSOR, "complex": _TENSOR}
"""ComplEx and DistMult as CQD's code trains them on FB15k-237 and NELL (Lacroix et al., 2018)."""


@frozen(kw_only=True)
class EmbeddingOptions:
    """How the vectors are trained; None is what `RECIPES` has for the model.

    Args:
        model: the link predictor.
        dim: the numbers of a vector; `complex` has half as many complex ones.
        epochs: how often every training triple is seen.
        batch_size: how many triples a step sees; those of one head and relation follow each other, but in TransE.
        optimizer: `adagrad` or `adam`; TransE has Adam alone.
        lr: its learning rate.
        n3: what the cubed moduli of a triple's three vectors weigh in its loss; not of TransE.
        seed: what the vectors depend on.
        device: where they are trained.
        half: whether scores of all tails are bfloat16, which is about twice as fast where the processor multiplies it.
        inverses: whether the vectors of converses are kept, as those of inverse relations; see `with_inverses`.
    """

    model: Predictor = "complex"
    dim: int = 400
    epochs: int = 100
    batch_size: int | None = None
    optimizer: Optimizer | None = None
    lr: float | None = None
    n3: float | None = None
    seed: int = 0
    device: str = "cpu"
    half: bool = False
    inverses: bool = False

    @property
    def recipe(self) -> Recipe:
        """What is trained with."""
        usual = RECIPES[self.model]
        if self.optimizer and self.optimizer != usual.optimizer:
            usual = usual._replace(optimizer=self.optimizer, lr=_ADAM.lr, init_std=None)
        given: dict[str, Any] = {"lr": self.lr, "batch_size": self.batch_size, "n3": self.n3}
        return usual._replace(**{name: value for name, value in given.items() if value is not None})


class Embedding(NamedTuple):
    """Trained vectors.

    facts: what their file says of them; entities, relations: float32 [n, dim]; triples: int32 [n, 3], what they were
    trained on; losses: the mean of each epoch; mrr: on the validation triples, in [0, 1], None without any.
    """

    facts: KgeFacts
    entities: Tensor
    relations: Tensor
    triples: Tensor
    losses: list[float]
    mrr: float | None

    def write(self, path: Path) -> None:
        """Write them; see `write_kge`."""
        write_kge(path, self.facts, self.entities, self.relations, self.triples)


def embed(
    graph: Graph, options: EmbeddingOptions, after: Callable[[int, float], None] = lambda epoch, loss: None
) -> Embedding:
    """Train a link predictor on the training triples of a graph.

    Args:
        graph, options: what it is trained on, and how.
        after: called after each epoch, from 1 on, with its mean loss.

    Raises:
        TaskError: there are no training triples, the width or an option does not suit the model, the device does not
            exist, or the loss is not finite.
    """
    if options.model == "complex" and options.dim % 2:
        raise TaskError(f"complex vectors have two numbers each; --dim {options.dim} must be even")
    if options.model == "transe" and (options.optimizer == "adagrad" or options.n3):
        raise TaskError(
            "transe is trained by Adam without N3; leave --optimizer and --n3 out, or use --model complex"
        )
    if options.inverses and not PREDICTORS[options.model].converses:
        raise TaskError(f"{options.model} has no vectors of inverse relations; leave --inverses out")
    if options.lr is not None and not options.lr > 0:
        raise TaskError(f"--lr {options.lr} must be above 0")
    triples = _both_ways(graph, "train")
    if not len(triples):
        raise TaskError(f"the train split of {graph.name!r} has no triples to train vectors on")
    if options.model == "transe":
        # which way a triple is asked is drawn in each step
        triples = triples[: len(triples) // 2]
    with isolated_generators(options.seed):
        predictor = PREDICTORS[options.model](graph, options)
        try:
            predictor = predictor.to(torch.device(options.device))
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise TaskError(f"vectors cannot be trained on {options.device!r}: {reason}") from error
        losses = _train(predictor, triples.to(options.device), options, after)
        mrr = _mrr(predictor, graph)
    if options.inverses:
        graph = with_inverses(graph)
    vocabulary = Vocabulary.of(graph)
    facts = KgeFacts(
        model=options.model, graph=graph.name, width=options.dim, epochs=options.epochs, seed=options.seed,
        vocabulary=len(vocabulary), first_entity=vocabulary.first_entity, first_relation=vocabulary.first_relation,
    )  # fmt: skip
    entities, relations = (each.detach().cpu() for each in (predictor.entities, predictor.relations))
    known = torch.from_numpy(graph.added["train"].astype("int32"))
    return Embedding(facts, entities, relations[: graph.relations].contiguous(), known, losses, mrr)


class LinkPredictor(nn.Module):
    """Vectors of entities and relations, and how a head and a relation, `_compose`, are compared with every tail.

    Relation r + R, of R relations, is the converse of r: it leads from the tails of r to its heads.

    Args:
        graph: the graph.
        options: how wide the vectors are, and how new ones begin.
    """

    converses: bool
    """Whether converses have vectors of their own."""

    def __init__(self, graph: Graph, options: EmbeddingOptions) -> None:
        super().__init__()
        std = options.recipe.init_std or options.dim**-0.5
        self.count, rows = graph.relations, graph.relations * (1 + self.converses)
        self.scored = torch.bfloat16 if options.half else None
        self.entities = nn.Parameter(torch.randn(graph.entities, options.dim) * std)
        self.relations = nn.Parameter(torch.randn(rows, options.dim) * std)

    @abstractmethod
    def scores(self, pairs: Tensor) -> Tensor:
        """The scores of all tails: int64 [n, 2] -> [n, entities]."""

    @abstractmethod
    def loss(self, triples: Tensor, n3: float) -> Tensor:
        """The mean loss of triples, and `n3` times their mean penalty: int64 [n, 3] -> a scalar."""


class TransE(LinkPredictor):
    """A tail's score is -|h + r - t|, the sum over all numbers; h is to be where t - r is (Bordes et al., 2013).

    True triples meet sampled false ones, weighed by the softmax of their scores (Sun et al., 2019).
    """

    converses = False

    def _compose(self, pairs: Tensor) -> Tensor:
        sign = torch.where(pairs[:, 1] < self.count, 1.0, -1.0).unsqueeze(1).to(self.relations)
        return self.entities[pairs[:, 0]] + sign * self.relations[pairs[:, 1] % self.count]

    def scores(self, pairs: Tensor) -> Tensor:
        """See `LinkPredictor.scores`."""
        return -torch.cdist(self._compose(pairs), self.entities, p=1)

    def loss(self, triples: Tensor, n3: float) -> Tensor:
        """See `LinkPredictor.loss`; of each triple the tail or, as likely, the head is replaced."""
        head, relation, tail = triples.unbind(1)
        back = torch.rand(len(triples), device=triples.device) < 0.5
        known, wanted = torch.where(back, tail, head), torch.where(back, head, tail)
        asked = self._compose(torch.stack([known, relation + back * self.count], 1))
        true = -(asked - self.entities[wanted]).abs().sum(1)
        others = torch.randint(len(self.entities), (len(triples), NEGATIVES), device=triples.device)
        false = -(asked.unsqueeze(1) - self.entities[others]).abs().sum(2)
        unwanted = (false.detach().softmax(1) * F.logsigmoid(-MARGIN - false)).sum(1)
        return -(F.logsigmoid(MARGIN + true) + unwanted).mean() / 2


class DistMult(LinkPredictor):
    """A tail's score is the sum of h r t, number by number; learnt by a cross-entropy over all tails, with N3."""

    converses = True

    def _compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        return heads * relations

    def scores(self, pairs: Tensor) -> Tensor:
        """See `LinkPredictor.scores`."""
        return self._compose(self.entities[pairs[:, 0]], self.relations[pairs[:, 1]]) @ self.entities.T

    def loss(self, triples: Tensor, n3: float) -> Tensor:
        """See `LinkPredictor.loss`; triples of one head and relation share the scores of all tails."""
        keys = triples[:, 0] * len(self.relations) + triples[:, 1]
        _, pair, counts = keys.unique(return_inverse=True, return_counts=True)
        heads, tails = self.entities[triples[:, ::2].T]
        relations = self.relations[triples[:, 1]]
        asked = self._compose(heads, relations)
        one = torch.empty_like(counts).scatter_(0, pair, torch.arange(len(pair), device=pair.device))
        kind, weights = self.scored or asked.dtype, counts.to(asked.dtype)
        total: Tensor = _LogTotals.apply(asked[one], self.entities, weights, kind)  # type: ignore[no-untyped-call]
        loss = total - (asked * tails).sum()
        if n3:
            loss = loss + n3 * torch.stack([self.cubes(each) for each in (heads, relations, tails)]).sum()
        return loss / len(triples)

    def cubes(self, vectors: Tensor) -> Tensor:
        """The sum of the cubed moduli."""
        return vectors.abs().pow(3).sum()


class ComplEx(DistMult):
    """As DistMult, with complex numbers: real parts first, then imaginary ones."""

    def _compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        return complex_product(heads, relations)

    def cubes(self, vectors: Tensor) -> Tensor:
        """The sum of the cubed moduli."""
        real, imaginary = vectors.chunk(2, 1)
        return (real.square() + imaginary.square()).pow(1.5).sum()


class _LogTotals(torch.autograd.Function):
    """The sum of w_i log sum_j exp(a_i . e_j), whose gradients are computed beside it: no score is held for them."""

    @staticmethod
    def forward(ctx: Any, asked: Tensor, entities: Tensor, weights: Tensor, kind: torch.dtype) -> Tensor:
        """a [n, d], e [m, d], w [n], the dtype of scores -> a scalar."""
        total, others = asked.new_zeros(()), entities.to(kind)
        by_asked, by_entities = torch.empty_like(asked), torch.zeros_like(entities)
        size = max(1, SCORES // len(entities))
        for some, weight, out in zip(
            asked.split(size), weights.split(size), by_asked.split(size), strict=True
        ):
            scores = some.to(kind) @ others.T
            top = scores.amax(1, keepdim=True)
            shares = scores.sub_(top).exp_()
            sums = shares.sum(1, keepdim=True, dtype=asked.dtype)
            total += weight @ (sums.log() + top).squeeze(1)
            shares *= (weight.unsqueeze(1) / sums).to(kind)
            out.copy_(shares @ others)
            by_entities += shares.T @ some.to(kind)
        ctx.save_for_backward(by_asked, by_entities)
        return total

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        """Both gradients, scaled."""
        by_asked, by_entities = ctx.saved_tensors
        return given[0] * by_asked, given[0] * by_entities, None, None


PREDICTORS: Mapping[Predictor, type[LinkPredictor]] = {
    "transe": TransE, "distmult": DistMult, "complex": ComplEx,
}  # fmt: skip


def _train(
    predictor: LinkPredictor, triples: Tensor, options: EmbeddingOptions, after: Callable[[int, float], None]
) -> list[float]:
    """The mean loss of each epoch."""
    recipe = options.recipe
    kind = torch.optim.Adagrad if recipe.optimizer == "adagrad" else torch.optim.Adam
    optimizer = kind(predictor.parameters(), lr=recipe.lr, fused=triples.device.type == "cpu")
    _, pair = triples[:, :2].unique(dim=0, return_inverse=True)
    groups = pair if predictor.converses else torch.arange(len(triples))
    losses: list[float] = []
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        order = torch.randperm(len(triples)).to(triples.device)[groups].argsort(stable=True)
        for rows in order.split(recipe.batch_size):
            optimizer.zero_grad()
            loss = predictor.loss(triples[rows], recipe.n3)
            loss.backward()
            total += loss.item() * len(rows)
            optimizer.step()
        losses.append(total / len(triples))
        if not np.isfinite(losses[-1]) or not all(each.isfinite().all() for each in predictor.parameters()):
            raise TaskError(f"the loss of {options.model} is not finite; lower --lr {recipe.lr}")
        after(epoch, losses[-1])
    return losses


def _both_ways(graph: Graph, split: Split) -> Tensor:
    """The triples that a split adds, then the converse of each: int64 [2 n, 3]."""
    triples = torch.from_numpy(graph.added[split].astype("int64"))
    head, relation, tail = triples.unbind(1)
    return torch.cat([triples, torch.stack([tail, relation + graph.relations, head], 1)])


def _mrr(predictor: LinkPredictor, graph: Graph) -> float | None:
    """The filtered mean reciprocal rank of heads and tails of the validation triples; ties rank in the middle."""
    wanted = _both_ways(graph, "valid")
    if not len(wanted):
        return None
    triples = torch.cat([_both_ways(graph, "train"), wanted]).numpy()
    pairs, pair = np.unique(triples[:, 0] * 2 * graph.relations + triples[:, 1], return_inverse=True)
    known = Answers.of(np.unique(pair * graph.entities + triples[:, 2]), len(pairs), graph.entities)
    asked = pair[-len(wanted) :]
    device, total = predictor.entities.device, 0.0
    for start in range(0, len(wanted), EVALUATED):
        rows, pairs = wanted[start : start + EVALUATED], asked[start : start + EVALUATED]
        with torch.no_grad():
            scores = predictor.scores(rows[:, :2].to(device)).cpu().numpy()
        targets = Answers(np.arange(len(rows) + 1), rows[:, 2].numpy())
        total += (1 / ranks(scores, targets, known.select(pairs))).sum().item()
    return total / len(wanted)
