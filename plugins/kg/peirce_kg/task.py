"""The task `kgqa`: train a model to rank the answers of first-order queries over a knowledge graph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
import torch
import torch.nn.functional as F
from attrs import field, frozen, validators
from rich.console import Console
from torch import Tensor

from peirce.errors import RegistryError, TaskError, unknown
from peirce.model import Model, Task
from peirce.registry import default_registry
from peirce.spec import Spec
from peirce_kg.encoding.assets import assets_of
from peirce_kg.encoding.graph_inputs import graph_inputs
from peirce_kg.encoding.inputs import join_batches, query_inputs, text_inputs
from peirce_kg.encoding.literal_inputs import (
    Arrays,
    query_literals,
    takes_literals,
)
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.encoding.writing import Syntax
from peirce_kg.evaluation import (
    PUBLISHED,
    Filtering,
    Report,
    evaluate,
    protocol,
    shares_of,
    shares_text,
    unsupported_text,
)
from peirce_kg.parts.heads.distances import DistanceRanking
from peirce_kg.parts.heads.entities import Entities
from peirce_kg.parts.positions.query_graph import GRAPH_INPUTS, NODES
from peirce_kg.parts.support import QuerySupport, Scorer, support_of
from peirce_kg.parts.systems.literals import executor_of
from peirce_queries import (
    MAX_ANSWERS,
    SPLITS,
    Answers,
    Floats,
    Graph,
    Groundings,
    Ints,
    Missing,
    QuerySet,
    Split,
    Template,
    load_graph,
    load_types,
    missing_links,
    progress_console,
    read_samples,
    sample,
    select,
)

TYPES = ("1p", "2p", "3p", "2i", "3i", "2in", "2u")
"""The types of a run that names none."""
POOL = 50
"""Batches whose queries are sorted by length together."""
ANSWERS = "answers"
"""All answers of a query, where `labels` is one of them."""
LITERALS = "atoms/"
"""What stands before the names of the inputs of systems that execute queries themselves, within a batch."""
_Rows: TypeAlias = list[tuple[int, Ints]]
"""What a batch takes: numbers of sets, each with rows of it."""


@frozen(kw_only=True)
class KgQaOptions:
    """What is sampled, and how it is put into batches.

    Args:
        graph: a folder of train, valid and test files, an .nt file, or a data set of pykeen by name.
        queries: a folder that `peirce kg sample` wrote, with its splits; all queries in it are used, and the options
            that follow, up to `seed`, play no part. Queries are sampled when empty.
        types: the query types to train on; `seen`, `unseen` and `all` stand for groups.
        eval_types: the query types to evaluate; those trained on when empty.
        train_queries: how many training queries of each type; fewer where the graph has no more.
        eval_queries: how many validation and how many test queries of each type.
        max_answers: how many answers a query may have.
        absent: what becomes of a type of which the graph has no query: `refuse` is an error, `leave_out` goes on with
            the other types and says so.
        seed: the seed of the sampled queries; the loop's own seed orders the batches.
        batch_size: how many queries are in a batch.
        balance: whether an epoch repeats the queries of types that have fewer, so that every type weighs the same.
        labels: `one` draws one answer of a query anew in each epoch; `all` spreads the label over all its answers. With
            `one`, heads that tell answers from the other entities by a margin leave the other answers out, as BetaE and
            ConE do; in a cross-entropy they count as wrong, as in the published code of SQE, CQD and LMPNN.
        syntax: the language that queries are written in; `lisp` and `sqe`, which writes relations without parentheses,
            do not support some types, and have no variable whose states could be pooled.
        reverse: whether queries are written from their end to their beginning, as in TEGA's Table 13.
        group_by_length: whether queries of like length come into one batch, which leaves less padding.
        filtering: which other answers take no part in an answer's ranking: those on the answer's own graph and
            the one `before` it, as published; those on its own `graph` alone; or those on any of the `graphs`. The MRR
            under the others stands beside.
        strata: whether figures are also given apart by the number of links that an answer misses.
    """

    graph: str = "umls"
    queries: str = ""
    types: tuple[str, ...] = TYPES
    eval_types: tuple[str, ...] = ()
    train_queries: int = field(default=2000, validator=validators.ge(1))
    eval_queries: int = field(default=200, validator=validators.ge(1))
    max_answers: int = field(default=MAX_ANSWERS, validator=validators.ge(1))
    absent: Literal["refuse", "leave_out"] = "refuse"
    seed: int = field(default=0, validator=validators.ge(0))
    batch_size: int = field(default=256, validator=validators.ge(1))
    balance: bool = True
    labels: Literal["one", "all"] = "all"
    syntax: Syntax = "efo"
    reverse: bool = False
    group_by_length: bool = False
    filtering: Filtering = PUBLISHED
    strata: bool = False


@frozen(eq=False)
class KgQaData:
    """A graph and the queries sampled from it.

    Args:
        graph, vocabulary: the graph, and its tokens.
        sets: the queries by split, a set per type.
        inputs: the tokens of each set's queries, and their graph where they have one, in the order of `sets`.
    """

    graph: Graph
    vocabulary: Vocabulary
    sets: Mapping[Split, tuple[QuerySet, ...]]
    inputs: Mapping[Split, tuple[Arrays, ...]] = field(init=False)
    _missing: dict[Split, tuple[Missing, ...]] = field(factory=dict, init=False, repr=False)

    @inputs.default
    def _encode(self) -> Mapping[Split, tuple[Arrays, ...]]:
        return {
            split: tuple(_set_inputs(q, self.vocabulary) for q in sets) for split, sets in self.sets.items()
        }

    def missing(self, split: Split) -> tuple[Missing, ...]:
        """The links that the inferred answers of each set of a split miss; none of training queries."""
        if split not in self._missing and split != "train":
            self._missing[split] = missing_links(self.sets[split], self.graph, split)
        return self._missing.get(split, ())


class KgQa(Task[KgQaOptions, KgQaData]):
    """First-order queries over a knowledge graph, trained on what the training graph entails."""

    name = "kgqa"
    source = "TEGA (Zheng et al., 2025), Sections 2 to 4, Appendices G and H"
    Options = KgQaOptions

    @classmethod
    def example_in(cls, folder: Path) -> Mapping[str, Any]:
        """A small graph, and the data of a few types."""
        rows: dict[str, list[str]] = {split: [] for split in SPLITS}
        for head in range(12):
            for relation, step in (("next", 1), ("over", 5), ("back", 11)):
                split = "valid" if head % 6 == step % 6 else "test" if head % 6 == (step + 1) % 6 else "train"
                rows[split].append(f"e{head}\t{relation}\te{(head + step) % 12}\n")
        for split, lines in rows.items():
            (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
        few = {"types": ("1p", "2p", "2i"), "train_queries": 20, "eval_queries": 5, "batch_size": 8}
        return {"graph": str(folder), **few}

    def reference(self, data: KgQaData, split: str) -> list[dict[str, Any]] | None:
        """Each query as its vocabulary writes it, with its answers, which share the label; none of what is drawn."""
        options = self.options
        if options.labels == "one" or (split == "train" and options.balance):
            return None
        found = []
        for queries in data.sets[_split(split)]:
            read = queries.template, queries.groundings, data.vocabulary
            literals = query_literals(*read) or {}
            inputs = text_inputs(*read) | {LITERALS + name: values for name, values in literals.items()}
            for i in range(len(queries)):
                answers = set(queries.answers[_split(split)].select(np.array([i])).entities.tolist())
                labels = [(e in answers) / len(answers) for e in range(data.graph.entities)]
                found.append(
                    {**{name: values[i].tolist() for name, values in inputs.items()}, "labels": labels}
                )
        return found

    def reference_settings(self, data: KgQaData) -> Mapping[str, Any]:
        """The vocabulary, of which some tokens are entities, and one the free variable."""
        words = data.vocabulary
        return {
            "model.input.vocabulary": len(words), "model.heads.0.first": words.first_entity, "model.heads.0.count": 12,
            "model.heads.0.free": words.free, **({} if words.syntax == "efo" else {"model.heads.0.pool": "cls"}),
        }  # fmt: skip

    def prepare(self) -> KgQaData:
        """Read the graph, and read or sample training, validation and test queries with their exact answers."""
        options = self.options
        graph = load_graph(options.graph)
        _print_line(graph.summary())
        if options.queries:
            sets = {split: read_samples(Path(options.queries), graph, split) for split in SPLITS}
        else:
            sets = {split: self._sample(graph, split) for split in SPLITS}
        vocabulary = attrs.evolve(Vocabulary.of(graph, options.syntax), reversed_=options.reverse)
        return KgQaData(graph, vocabulary, sets)

    def _sample(self, graph: Graph, split: Split) -> tuple[QuerySet, ...]:
        options, training = self.options, split == "train"
        count = options.train_queries if training else options.eval_queries
        asked = select(options.types if training else options.eval_types or options.types, load_types())
        sets = sample(
            asked, graph, split, count, options.seed, options.max_answers, progress_console(),
            leave_out=options.absent == "leave_out",
        )  # fmt: skip
        sampled = {queries.type.name for queries in sets}
        if absent := [each.name for each in asked if each.name not in sampled]:
            _print_line(f"left out, as the graph has no {split} queries of them: {', '.join(absent)}")
        short = ", ".join(f"{q.type.name} {len(q):,}" for q in sets if len(q) < count)
        few = f"; of {count:,} asked for, the graph has only: {short}" if short else ""
        _print_line(f"{sum(map(len, sets)):,} {split} queries{few}")
        return sets

    def overrides(self, data: KgQaData) -> Mapping[str, Any]:
        """The vocabulary's size, and which tokens are entities and the free variable, for the spec's first head."""
        return overrides_of(data.vocabulary)

    def overrides_for(self, spec: Spec, data: KgQaData) -> Mapping[str, Any]:
        """Nothing of a model that is given the graph, and so knows no names."""
        return {} if _support_of_name(spec.architecture).inductive else self.overrides(data)

    def batches(self, data: KgQaData, split: str, seed: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        """The batches of one pass; each is as long as its longest query.

        Yields:
            input_ids, token_kinds: int64 [b, x]; attention_mask: bool [b, x]; labels: int64 [b] or float32
            [b, entities]; with one answer a query, `ANSWERS`, bool [b, entities]; as uint8, what `graph_inputs`
            gives; and what `query_literals` does, each name after `LITERALS`.
        """
        part = _split(split)
        random = np.random.default_rng([seed, epoch, SPLITS.index(part)])
        for rows in self._rows(data, part, random):
            found = Answers.concatenate(
                [data.sets[part][i].answers[part].select(chosen) for i, chosen in rows]
            )
            batch = _tensors(_inputs(data, part, rows))
            every = torch.zeros(len(found), data.graph.entities)
            every[torch.from_numpy(found.queries), torch.from_numpy(found.entities)] = 1.0
            if self.options.labels == "one":
                which = (random.random(len(found)) * found.counts).astype(np.int64)
                batch["labels"] = torch.from_numpy(found.entities[found.offsets[:-1] + which])
                batch[ANSWERS] = every.bool()
            else:
                batch["labels"] = every / torch.from_numpy(found.counts).float().unsqueeze(1)
            yield batch

    def _rows(self, data: KgQaData, split: Split, random: np.random.Generator) -> Iterator[_Rows]:
        """What each batch of a pass takes of each set."""
        sets, training = data.sets[split], split == "train"
        most = max(map(len, sets)) if training and self.options.balance else 0
        rows_of_sets = [_repeat(len(queries), most, random) for queries in sets]
        owner = np.repeat(np.arange(len(sets)), [len(rows) for rows in rows_of_sets])
        row = np.concatenate(rows_of_sets)
        order = random.permutation(len(owner)) if training else np.arange(len(owner))
        lengths = np.array([of_set["input_ids"].shape[1] for of_set in data.inputs[split]])[owner[order]]
        grouped = self.options.group_by_length and training
        for places in _batch_places(lengths, self.options.batch_size, random if grouped else None):
            chosen = order[places]
            # queries of one type stand together, which changes no mean over the batch
            yield [(i, row[chosen[owner[chosen] == i]]) for i in np.unique(owner[chosen])]

    def check(self, model: Model, data: KgQaData) -> None:
        """A model that looks at query graphs needs them, and a system that executes queries is to support them."""
        support = _support(model)
        if support.task != self.name:
            raise TaskError(
                f"{model.spec.name!r} is trained with --task {support.task}; `peirce evaluate --task {self.name}` asks "
                "it queries"
            )
        names = _names(model)
        graphs = set(GRAPH_INPUTS).intersection(names)
        if not all(graphs <= inputs.keys() for inputs in data.inputs["train"]):
            raise _no_graphs_error(model)
        reasons = {each.type.name: support.why_untrained(each.template) for each in data.sets["train"]}
        refused = [f"{each}: {reason}" for each, reason in reasons.items() if reason is not None]
        if refused:
            fit = [each for each, reason in reasons.items() if reason is None]
            raise TaskError(
                f"{model.spec.name!r} cannot be trained on {'; '.join(refused)}. Train it on other types and evaluate "
                f"it on all: --set 'types={json.dumps(fit or ['1p'])}' --set 'eval_types=[\"all\"]'"
            )

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """The head's loss, label-smoothed cross-entropy for `entities`."""
        outputs, prefix = model(**_model_inputs(model, batch)), _head(model)
        labels, ranking = batch["labels"], model.heads[prefix]
        if ANSWERS in batch and isinstance(ranking, DistanceRanking):
            labels = F.one_hot(labels, batch[ANSWERS].shape[1]) * 2.0 - batch[ANSWERS].float()
        return model.loss(prefix, outputs, labels)

    def metrics(self, model: Model, data: KgQaData, split: str) -> Mapping[str, float]:
        """Filtered MRR and Hits@k on entailed and inferred answers, on average and per type."""
        return self.report(model, data, split).metrics(self.options.strata)

    def remarks(self, model: Model, data: KgQaData, split: str) -> tuple[str, ...]:
        """How the metrics are filtered and averaged, and the types that they leave out with the reason."""
        items, sets = [f"MRR and Hits@k: {protocol(self.options.filtering)}."], data.sets[_split(split)]
        support = _support(model)
        reasons = {each.type.name: support.why_unsupported(each.template) for each in sets}
        if support.inductive:
            items.append("The model is given the training triples, and was trained on no type here.")
        missing = zip(data.missing(_split(split)), reasons.values(), strict=False)
        if shares := shares_text(shares_of([links for links, reason in missing if reason is None])):
            items.append(f"{shares[0].upper()}{shares[1:]}.")
        if refused := {name: reason for name, reason in reasons.items() if reason is not None}:
            left = f"Means are over {len(reasons) - len(refused)} of {len(reasons)} types: "
            items.append(f"{left}{unsupported_text(model.spec.name, refused)}.")
        return tuple(items)

    def report(self, model: Model, data: KgQaData, split: str) -> Report:
        """The figures as a report, which prints as a table."""
        training, sets = model.training, data.sets[_split(split)]
        try:
            inductive = _support(model).inductive
            seen = set[str]() if inductive else {queries.type.name for queries in data.sets["train"]}
            return evaluate(
                model.spec.name, sets, scorer_of(model.eval(), data.graph, data.vocabulary), progress_console(),
                entities=data.graph.entities, seen=seen, filtering=self.options.filtering,
                missing=data.missing(_split(split)),
            )  # fmt: skip
        finally:
            model.train(training)

    def assets(self, data: KgQaData) -> Mapping[str, bytes]:
        """The vocabulary, and the graph's triples, so that `peirce ask` can mark known answers."""
        return assets_of(data.graph, data.vocabulary)


def overrides_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """What a vocabulary sets in a spec: its size, and which tokens the first head takes for what."""
    pooling = {"model.heads.0.pool": "cls"} if vocabulary.syntax != "efo" else {}
    return {
        **pooling,
        "model.input.vocabulary": len(vocabulary),
        "model.heads.0.first": vocabulary.first_entity,
        "model.heads.0.count": len(vocabulary.entity_names),
        "model.heads.0.free": vocabulary.free,
    }


def scorer_of(model: Model, graph: Graph, vocabulary: Vocabulary) -> Scorer:
    """The scores of a model in evaluation mode; one that knows no names is given the training triples."""
    support = _support(model)
    if support.inductive:
        return support.graph_scorer(model, graph.index("train"))
    return model_scorer(model, vocabulary)


def model_scorer(model: Model, vocabulary: Vocabulary) -> Scorer:
    """The scores of a model in evaluation mode, as numpy."""
    device = next(model.parameters()).device
    names, system = _names(model), executor_of(type(model.network))
    logits = f"{_head(model)}_logits"

    def score(template: Template, groundings: Groundings) -> Floats:
        arrays = query_inputs(template, groundings, vocabulary, names, model.spec, system)
        with torch.inference_mode():
            outputs = model(**{key: value.to(device) for key, value in _tensors(arrays).items()})
        return outputs[logits].float().cpu().numpy()

    return score


def _support(model: Model) -> type[QuerySupport]:
    """What a model's architecture declares of queries; of one that is given literals, at least what holds of all."""
    part = type(model.network)
    return executor_of(part) if takes_literals(_names(model)) else support_of(part)


def _support_of_name(architecture: str) -> type[QuerySupport]:
    """What an architecture declares of queries, by its name; nothing where only the model's registry knows it."""
    with suppress(RegistryError):
        return support_of(default_registry().get("architectures", architecture))
    return QuerySupport


def _set_inputs(queries: QuerySet, vocabulary: Vocabulary) -> Arrays:
    """The tokens of a set, and its query graph, which a syntax or a query may lack, as few models look at it."""
    inputs = text_inputs(queries.template, queries.groundings, vocabulary)
    with suppress(TaskError):
        inputs |= graph_inputs(queries.template, len(queries), vocabulary)
    return inputs


def _inputs(data: KgQaData, split: Split, rows: _Rows) -> Arrays:
    """The inputs of a batch by name: tokens, and what models that look at graphs or execute atoms take instead."""
    parts = []
    for i, chosen in rows:
        queries = data.sets[split][i]
        literals = query_literals(queries.template, queries.groundings[chosen], data.vocabulary) or {}
        inputs = {name: values[chosen] for name, values in data.inputs[split][i].items()}
        parts.append(inputs | {LITERALS + name: values for name, values in literals.items()})
    return join_batches(parts)


def _repeat(count: int, most: int, random: np.random.Generator) -> Ints:
    """Every row, as often as fits into `most` and at least once, and a random choice of them to fill the rest."""
    rest = random.permutation(count)[: most % count if most > count else 0]
    return np.concatenate([np.tile(np.arange(count), max(most // count, 1)), rest])


def _batch_places(lengths: Ints, size: int, random: np.random.Generator | None) -> list[Ints]:
    """Which places of an order each batch takes: those that follow each other, or, with `random`, those of like length
    within pools of many batches, so that the batches of an epoch differ from those of another."""

    def cut(places: Ints, size: int) -> list[Ints]:
        return [places[start : start + size] for start in range(0, len(places), size)]

    places = np.arange(len(lengths))
    if random is None:
        return cut(places, size)
    pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in cut(places, size * POOL)]
    batches = [batch for pool in pools for batch in cut(pool, size)]
    return [batches[i] for i in random.permutation(len(batches))]


def _tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _names(model: Model) -> list[str]:
    """The inputs that a model takes."""
    return [spec.name for spec in model.signature.inputs]


def _model_inputs(model: Model, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a batch that the model takes."""
    names = _names(model)
    if takes_literals(names):
        if LITERALS + names[0] not in batch:
            what = "one of these has too many atoms or variables"
            raise TaskError(f"{model.spec.name!r} executes queries, but {what}")
        return {name: batch[LITERALS + name] for name in names}
    if any(name in GRAPH_INPUTS and name not in batch for name in names):
        raise _no_graphs_error(model)
    taken = {name: batch[name] for name in names if name in batch}
    return {name: values.long() if name in GRAPH_INPUTS else values for name, values in taken.items()}


def _no_graphs_error(model: Model) -> TaskError:
    return TaskError(
        f"{model.spec.name!r} looks at query graphs, and these queries have none: they are not in EFO syntax, or one "
        f"has more than {NODES - 1} nodes; choose another syntax or types, or a spec without such a position"
    )


def _head(model: Model) -> str:
    """The prefix of the head that ranks entities: `entities`, or one that is made of it."""
    prefix = next((head.prefix for head in model.plan.heads if issubclass(head.part, Entities)), None)
    if prefix is None:
        raise TaskError(
            f"the spec {model.spec.name!r} has no head 'entities' to rank answers with; add [[model.heads]]"
        )
    return prefix


def _split(name: str) -> Split:
    if name not in SPLITS:
        raise TaskError(unknown("split", name, SPLITS))
    return name


def _print_line(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)
