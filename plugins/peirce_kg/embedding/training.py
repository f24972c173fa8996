"""Entity and relation vectors by link prediction on a graph's training triples, with pykeen."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from attrs import field, frozen, validators
from peirce.errors import TaskError
from peirce.training import isolated
from torch import Tensor

from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.engine.answers import Answers
from peirce_kg.evaluation import ranks
from peirce_kg.graphs.graph import Graph
from peirce_kg.parts.augmenters.kge_files import PREDICTORS, KgeFacts, Predictor

NEGATIVES = 64
"""False triples for each true one, where scores of all entities at once would be too large."""
MARGIN = 9.0
"""Of TransE's loss."""
EVALUATED = 32
"""Triples that are ranked at once."""


@frozen(kw_only=True)
class EmbeddingOptions:
    """How the vectors are trained.

    Args:
        model: the link predictor.
        dim: the numbers of a vector; `complex` has half as many complex ones.
        epochs: how often every training triple is seen.
        batch_size: how many triples, or pairs of head and relation, a step sees.
        lr: the learning rate of Adam.
        seed: what the vectors depend on.
        device: where they are trained.
    """

    model: Predictor = field(default="complex", validator=validators.in_(PREDICTORS))
    dim: int = field(default=400, validator=validators.ge(1))
    epochs: int = field(default=100, validator=validators.ge(1))
    batch_size: int = field(default=512, validator=validators.ge(1))
    lr: float = field(default=1e-3, validator=validators.gt(0.0))
    seed: int = field(default=0, validator=validators.ge(0))
    device: str = "cpu"


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
    graph: Graph, options: EmbeddingOptions, after: Callable[[int, float], None] = lambda epoch, loss: None
) -> Embedding:
    """Train a link predictor on the training triples of a graph.

    DistMult and ComplEx score every tail of a head and a relation, and every head by the converse of the relation, with
    a cross-entropy over all entities; TransE meets sampled false triples, weighed by their own scores.

    Args:
        graph: the graph.
        options: how.
        after: called after each epoch, from 1 on, with its mean loss.

    Raises:
        TaskError: there are no training triples, the width does not suit the model, the device does not exist, or the
            loss is not finite.
    """
    if options.model == "complex" and options.dim % 2:
        raise TaskError(f"complex vectors have two numbers each; --dim {options.dim} must be even")
    if not len(graph.added["train"]):
        raise TaskError(f"the train split of {graph.name!r} has no triples to train vectors on")
    both_ways = options.model != "transe"
    with isolated(options.seed):
        factory = _factory(graph, both_ways=both_ways)
        predictor = _placed(_predictor(factory, options), options.device)
        losses = _train(predictor, factory, options, after)
        predictor.eval()
        mrr = _mrr(predictor, graph, both_ways=both_ways)
    vocabulary = Vocabulary.of(graph)
    facts = KgeFacts(
        model=options.model, graph=graph.name, width=options.dim, epochs=options.epochs, seed=options.seed,
        vocabulary=len(vocabulary), first_entity=vocabulary.first_entity, first_relation=vocabulary.first_relation,
    )  # fmt: skip
    relations = _vectors(predictor.relation_representations[0])[: graph.relations]
    return Embedding(
        facts, _vectors(predictor.entity_representations[0]), relations.contiguous(), losses, mrr
    )


def _triples(graph: Graph, split: Literal["train", "valid"], *, both_ways: bool) -> Tensor:
    """int64 [n, 3]; both ways, each triple's converse follows, with a relation of its own."""
    triples = torch.from_numpy(graph.added[split].astype("int64"))
    if not both_ways:
        return triples
    head, relation, tail = triples.unbind(1)
    return torch.cat([triples, torch.stack([tail, relation + graph.relations, head], 1)])


def _factory(graph: Graph, *, both_ways: bool) -> Any:
    from pykeen.triples import CoreTriplesFactory

    return CoreTriplesFactory(
        _triples(graph, "train", both_ways=both_ways),
        num_entities=graph.entities,
        num_relations=graph.relations * (2 if both_ways else 1),
    )


def _predictor(factory: Any, options: EmbeddingOptions) -> Any:
    from pykeen.losses import CrossEntropyLoss, NSSALoss
    from pykeen.models import ERModel

    transe, complex_ = options.model == "transe", options.model == "complex"
    vectors = {
        "shape": options.dim // 2 if complex_ else options.dim,
        "dtype": torch.cfloat if complex_ else torch.float,
        "initializer": torch.nn.init.normal_,
        "initializer_kwargs": {"std": options.dim**-0.5},
    }
    return ERModel(
        triples_factory=factory,
        interaction=options.model,
        interaction_kwargs={"p": 1} if transe else None,
        entity_representations_kwargs=vectors,
        relation_representations_kwargs=dict(vectors),
        loss=NSSALoss(margin=MARGIN, adversarial_temperature=1.0) if transe else CrossEntropyLoss(),
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
    from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop
    from pykeen.training.callbacks import TrainingCallback
    from pykeen.training.training_loop import NonFiniteLossError

    class After(TrainingCallback):
        """Tells of each epoch."""

        def post_epoch(self, epoch: int, epoch_loss: float, **kwargs: Any) -> None:
            """See `TrainingCallback.post_epoch`."""
            after(epoch, epoch_loss)

    common = {"model": predictor, "triples_factory": factory, "automatic_memory_optimization": False}
    optimiser = torch.optim.Adam(predictor.parameters(), lr=options.lr)
    if options.model == "transe":
        loop: Any = SLCWATrainingLoop(
            optimizer=optimiser, negative_sampler_kwargs={"num_negs_per_pos": NEGATIVES}, **common
        )
    else:
        loop = LCWATrainingLoop(optimizer=optimiser, **common)
    try:
        with _old_objects_aside():
            return loop.train(
                triples_factory=factory, num_epochs=options.epochs, batch_size=options.batch_size, use_tqdm=False,
                use_tqdm_batch=False, callbacks=After, pin_memory=False,
            )  # fmt: skip
    except NonFiniteLossError as error:
        raise TaskError(f"the loss of {options.model} is no number; lower --lr {options.lr}") from error


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


def _vectors(representation: Any) -> Tensor:
    """float32 [n, dim]; of complex vectors the real parts, then the imaginary ones."""
    with torch.no_grad():
        vectors = representation().detach().cpu()
    return torch.cat([vectors.real, vectors.imag], 1).contiguous() if vectors.is_complex() else vectors
