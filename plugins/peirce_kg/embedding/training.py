"""Entity and relation vectors by link prediction on a graph's training triples; TransE with pykeen."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from attrs import field, frozen, validators
from peirce.errors import TaskError
from peirce.training import isolated
from torch import Tensor, nn

from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.answers import Answers
from peirce_kg.evaluation import ranks
from peirce_kg.graphs.graph import Graph
from peirce_kg.parts.augmenters.kge_files import PREDICTORS, KgeFacts, Optimizer, Predictor
from peirce_kg.parts.systems.complex_numbers import times

NEGATIVES = 64
"""False triples for each true one of TransE."""
MARGIN = 9.0
"""Of TransE's loss."""
SCORES = 2**22
"""Scores that are held at once; a step whose batch has more is taken in portions."""
EVALUATED = 32
"""Triples that are ranked at once."""


OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


@frozen(kw_only=True)
class Recipe:
    """How a link predictor is trained where an option says nothing.

    Args:
        optimizer: by name.
        lr: its learning rate.
        batch_size: the triples of a step.
        n3: the weight of the N3 penalty.
        init_std: the standard deviation of new vectors' numbers; dim^-0.5 if None.
    """

    optimizer: Optimizer
    lr: float
    batch_size: int
    n3: float
    init_std: float | None


_TENSOR = Recipe(optimizer="adagrad", lr=0.1, batch_size=1000, n3=0.05, init_std=1e-3)
RECIPES: Mapping[Predictor, Recipe] = {
    "transe": Recipe(optimizer="adam", lr=1e-3, batch_size=512, n3=0.0, init_std=None),
    "distmult": _TENSOR,
    "complex": _TENSOR,
}
"""ComplEx and DistMult as CQD's code trains them on FB15k-237 and NELL (Lacroix et al., 2018)."""
ADAM = 1e-3
"""The learning rate of Adam where an option says nothing."""


@frozen(kw_only=True)
class EmbeddingOptions:
    """How the vectors are trained; None is what `RECIPES` has for the model.

    Args:
        model: the link predictor.
        dim: the numbers of a vector; `complex` has half as many complex ones.
        epochs: how often every training triple is seen.
        batch_size: how many triples a step sees.
        optimizer: `adagrad` or `adam`; TransE has Adam alone.
        lr: its learning rate.
        n3: what the cubed moduli of a triple's three vectors weigh in its loss; not of TransE.
        seed: what the vectors depend on.
        device: where they are trained.
    """

    model: Predictor = field(default="complex", validator=validators.in_(PREDICTORS))
    dim: int = field(default=400, validator=validators.ge(1))
    epochs: int = field(default=100, validator=validators.ge(1))
    batch_size: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    optimizer: Optimizer | None = field(
        default=None, validator=validators.optional(validators.in_(OPTIMIZERS))
    )
    lr: float | None = field(default=None, validator=validators.optional(validators.gt(0.0)))
    n3: float | None = field(default=None, validator=validators.optional(validators.ge(0.0)))
    seed: int = field(default=0, validator=validators.ge(0))
    device: str = "cpu"

    @property
    def recipe(self) -> Recipe:
        """What is trained with."""
        usual = RECIPES[self.model]
        optimizer = self.optimizer or usual.optimizer
        lr = usual.lr if optimizer == usual.optimizer else ADAM
        return Recipe(
            optimizer=optimizer,
            lr=lr if self.lr is None else self.lr,
            batch_size=self.batch_size or usual.batch_size,
            n3=usual.n3 if self.n3 is None else self.n3,
            init_std=usual.init_std if optimizer == "adagrad" else None,
        )


class Embedding(NamedTuple):
    """Trained vectors.

    facts: what their file says of them; entities, relations: float32 [n, dim]; losses: the mean of each epoch; mrr: on
    the validation triples, in [0, 1], None without any.
    """

    facts: KgeFacts
    entities: Tensor
    relations: Tensor
    losses: list[float]
    mrr: float | None


def embed(
    graph: Graph,
    options: EmbeddingOptions,
    after: Callable[[int, float], None] = lambda epoch, loss: None,
    estimate: Callable[[float], None] = lambda seconds: None,
) -> Embedding:
    """Train a link predictor on the training triples of a graph.

    DistMult and ComplEx score every tail of a head and a relation, and every head by the converse of the relation, with
    a cross-entropy over all entities and the N3 penalty; TransE meets sampled false triples, weighed by their own
    scores.

    Args:
        graph: the graph.
        options: how.
        after: called after each epoch, from 1 on, with its mean loss.
        estimate: called after the first step of DistMult and ComplEx, with the seconds that the training will take.

    Raises:
        TaskError: there are no training triples, the width or an option does not suit the model, the device does not
            exist, or the loss is not finite.
    """
    if options.model == "complex" and options.dim % 2:
        raise TaskError(f"complex vectors have two numbers each; --dim {options.dim} must be even")
    if options.model == "transe" and (options.optimizer == "adagrad" or options.n3):
        raise TaskError(
            "transe is trained by Adam without N3; leave --optimizer and --n3 out, or take complex"
        )
    if not len(graph.added["train"]):
        raise TaskError(f"the train split of {graph.name!r} has no triples to train vectors on")
    both_ways = options.model != "transe"
    triples = _triples(graph, "train", both_ways=both_ways)
    with isolated(options.seed):
        if both_ways:
            predictor: Any = _placed(Factorisation(graph, options), options.device)
            losses = _factorise(predictor, triples, options, after, estimate)
        else:
            factory = _factory(graph, triples)
            predictor = _placed(_predictor(factory, options), options.device)
            losses = _train(predictor, factory, options, after)
        predictor.eval()
        mrr = _mrr(predictor, graph, both_ways=both_ways)
    vocabulary = Vocabulary.of(graph)
    facts = KgeFacts(
        model=options.model, graph=graph.name, width=options.dim, epochs=options.epochs, seed=options.seed,
        vocabulary=len(vocabulary), first_entity=vocabulary.first_entity, first_relation=vocabulary.first_relation,
    )  # fmt: skip
    entities, relations = predictor.vectors() if both_ways else _vectors(predictor)
    return Embedding(facts, entities, relations[: graph.relations].contiguous(), losses, mrr)


class Factorisation(nn.Module):
    """DistMult or ComplEx over a graph whose relations have converses: real parts first, then imaginary ones.

    Args:
        graph: the graph.
        options: which, how wide, and how new vectors begin.
    """

    def __init__(self, graph: Graph, options: EmbeddingOptions) -> None:
        super().__init__()
        self.complex = options.model == "complex"
        std = options.recipe.init_std or options.dim**-0.5
        self.entities = nn.Parameter(torch.randn(graph.entities, options.dim) * std)
        self.relations = nn.Parameter(torch.randn(2 * graph.relations, options.dim) * std)

    def asked(self, pairs: Tensor) -> Tensor:
        """What tails are compared with, from heads and relations: int64 [n, 2] -> [n, dim]."""
        heads, relations = self.entities[pairs[:, 0]], self.relations[pairs[:, 1]]
        return times(heads, relations) if self.complex else heads * relations

    def loss(self, triples: Tensor, n3: float) -> Tensor:
        """The mean of -log softmax of the tails over all entities, and `n3` times the mean of the penalties.

        Triples of one head and relation share their scores: int64 [n, 3] -> a scalar.
        """
        keys, pair = (triples[:, 0] * len(self.relations) + triples[:, 1]).unique(return_inverse=True)
        asked = self.asked(torch.stack([keys // len(self.relations), keys % len(self.relations)], 1))
        total = (asked @ self.entities.T).logsumexp(1)
        tails = self.entities[triples[:, 2]]
        loss = (total[pair] - (asked[pair] * tails).sum(1)).mean()
        if not n3:
            return loss
        factors = (self.entities[triples[:, 0]], self.relations[triples[:, 1]], tails)
        return loss + n3 * torch.stack([self._cubes(each) for each in factors]).sum() / len(triples)

    def _cubes(self, vectors: Tensor) -> Tensor:
        if not self.complex:
            return vectors.abs().pow(3).sum()
        real, imaginary = vectors.chunk(2, 1)
        return (real.square() + imaginary.square()).pow(1.5).sum()

    def score_t(self, pairs: Tensor) -> Tensor:
        """The scores of all tails: int64 [n, 2] -> [n, entities]."""
        return self.asked(pairs) @ self.entities.T

    def vectors(self) -> tuple[Tensor, Tensor]:
        """float32 [entities, dim], [relations, dim]; converses follow."""
        return self.entities.detach().cpu(), self.relations.detach().cpu()


def _factorise(
    predictor: Factorisation,
    triples: Tensor,
    options: EmbeddingOptions,
    after: Callable[[int, float], None],
    estimate: Callable[[float], None],
) -> list[float]:
    """The mean loss of each epoch."""
    recipe, epochs = options.recipe, options.epochs
    triples = triples.to(predictor.entities.device)
    kind = torch.optim.Adagrad if recipe.optimizer == "adagrad" else torch.optim.Adam
    optimizer = kind(predictor.parameters(), lr=recipe.lr)
    size = max(1, min(recipe.batch_size, SCORES // len(predictor.entities)))
    losses: list[float] = []
    begun: float | None = time.monotonic()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(triples)).to(triples.device).split(recipe.batch_size):
            optimizer.zero_grad()
            for part in rows.split(size):
                loss = predictor.loss(triples[part], recipe.n3) * (len(part) / len(rows))
                loss.backward()
                total += loss.item() * len(rows)
            optimizer.step()
            if begun is not None:
                estimate((time.monotonic() - begun) * epochs * -(-len(triples) // recipe.batch_size))
                begun = None
        losses.append(total / len(triples))
        if not np.isfinite(losses[-1]) or not all(each.isfinite().all() for each in predictor.parameters()):
            raise _diverged(options)
        after(epoch, losses[-1])
    return losses


def _triples(graph: Graph, split: Literal["train", "valid"], *, both_ways: bool) -> Tensor:
    """int64 [n, 3]; both ways, each triple's converse follows, with a relation of its own."""
    triples = torch.from_numpy(graph.added[split].astype("int64"))
    if not both_ways:
        return triples
    head, relation, tail = triples.unbind(1)
    return torch.cat([triples, torch.stack([tail, relation + graph.relations, head], 1)])


def _factory(graph: Graph, triples: Tensor) -> Any:
    from pykeen.triples import CoreTriplesFactory

    return CoreTriplesFactory(triples, num_entities=graph.entities, num_relations=graph.relations)


def _predictor(factory: Any, options: EmbeddingOptions) -> Any:
    from pykeen.losses import NSSALoss
    from pykeen.models import ERModel

    vectors = {
        "shape": options.dim,
        "initializer": torch.nn.init.normal_,
        "initializer_kwargs": {"std": options.dim**-0.5},
    }
    return ERModel(
        triples_factory=factory,
        interaction="transe",
        interaction_kwargs={"p": 1},
        entity_representations_kwargs=vectors,
        relation_representations_kwargs=dict(vectors),
        loss=NSSALoss(margin=MARGIN, adversarial_temperature=1.0),
        random_seed=options.seed,
    )


def _placed(predictor: Any, device: str) -> Any:
    try:
        return predictor.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise TaskError(
            f"vectors cannot be trained on {device!r}: {str(error).partition(chr(10))[0]}"
        ) from error


def _train(
    predictor: Any, factory: Any, options: EmbeddingOptions, after: Callable[[int, float], None]
) -> list[float]:
    from pykeen.training import SLCWATrainingLoop
    from pykeen.training.callbacks import TrainingCallback
    from pykeen.training.training_loop import NonFiniteLossError

    class After(TrainingCallback):
        """Tells of each epoch."""

        def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: Any) -> None:
            """See `TrainingCallback.post_epoch`."""
            after(epoch, epoch_loss)

    recipe = options.recipe
    loop: Any = SLCWATrainingLoop(
        optimizer=torch.optim.Adam(predictor.parameters(), lr=recipe.lr),
        negative_sampler_kwargs={"num_negs_per_pos": NEGATIVES},
        model=predictor,
        triples_factory=factory,
        automatic_memory_optimization=False,
    )
    try:
        with _old_objects_aside():
            return loop.train(
                triples_factory=factory, num_epochs=options.epochs, batch_size=recipe.batch_size, use_tqdm=False,
                use_tqdm_batch=False, callbacks=After, pin_memory=False,
            )  # fmt: skip
    except NonFiniteLossError as error:
        raise _diverged(options) from error


def _diverged(options: EmbeddingOptions) -> TaskError:
    return TaskError(f"the loss of {options.model} is no number; lower --lr {options.recipe.lr}")


@contextmanager
def _old_objects_aside() -> Iterator[None]:
    """pykeen collects garbage after every epoch, and would look through all that was there before: half a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _mrr(predictor: Any, graph: Graph, *, both_ways: bool) -> float | None:
    """The filtered mean reciprocal rank of heads and tails of the validation triples; ties rank in the middle."""
    wanted = _triples(graph, "valid", both_ways=True)
    if not len(wanted):
        return None
    triples = torch.cat([_triples(graph, "train", both_ways=True), wanted]).numpy()
    pairs, pair = np.unique(triples[:, 0] * 2 * graph.relations + triples[:, 1], return_inverse=True)
    known = Answers.of(np.unique(pair * graph.entities + triples[:, 2]), len(pairs), graph.entities)
    asked = torch.from_numpy(pair[-len(wanted) :])
    total = 0.0
    for converse, (triples_of, pairs_of) in enumerate(zip(wanted.chunk(2), asked.chunk(2), strict=True)):
        batches = zip(torch.split(triples_of, EVALUATED), torch.split(pairs_of, EVALUATED), strict=True)
        for rows, own in batches:
            scores = _scores(predictor, rows, graph, converse=bool(converse) and not both_ways)
            targets = Answers(np.arange(len(rows) + 1), rows[:, 2].numpy())
            total += (1 / ranks(scores.numpy(), targets, known.select(own.numpy()))).sum().item()
    return total / len(wanted)


def _scores(predictor: Any, rows: Tensor, graph: Graph, *, converse: bool) -> Tensor:
    """Each entity as the tail of rows [b, 3], [b, entities]; of a converse, as the head of the relation itself."""
    device = next(predictor.parameters()).device
    with torch.no_grad():
        if converse:
            pairs = torch.stack([rows[:, 1] - graph.relations, rows[:, 0]], 1)
            return predictor.score_h(pairs.to(device)).cpu()
        return predictor.score_t(rows[:, :2].to(device)).cpu()


def _vectors(predictor: Any) -> tuple[Tensor, Tensor]:
    """float32 [entities, dim], [relations, dim]."""
    with torch.no_grad():
        both = (predictor.entity_representations[0](), predictor.relation_representations[0]())
    return both[0].detach().cpu(), both[1].detach().cpu()
