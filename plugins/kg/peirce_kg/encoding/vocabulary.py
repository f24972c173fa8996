"""From queries to numbers: the vocabulary, and the file of it that is kept beside a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from peirce.errors import TaskError, unknown
from peirce.files import parse_json
from peirce_kg.encoding.writing import KINDS, SYMBOLS, SYNTAXES, Syntax, query_tokens
from peirce_queries import Constant, Graph, Groundings, Ints, Template, Variable

FORMAT = 1
PAD = 0
_KIND = {name: number for number, name in enumerate(KINDS)}
EXISTENTIALS = 8
"""Existential variables, e1 to e8, that have a token."""


@frozen
class Vocabulary:
    """Which token stands for what.

    Args:
        graph: the name of the graph.
        entity_names, relation_names: the entities and relations in the order of their ids.
        existentials: how many existential variables there are tokens for.
        syntax: the language that queries are written in.
        reversed_: whether they are written from their end; not kept in the file.
    """

    graph: str
    entity_names: tuple[str, ...] = field(repr=False)
    relation_names: tuple[str, ...] = field(repr=False)
    existentials: int = EXISTENTIALS
    syntax: Syntax = "efo"
    reversed_: bool = False

    @classmethod
    def of(cls, graph: Graph, syntax: Syntax = "efo") -> Vocabulary:
        """The vocabulary of a graph."""
        return cls(graph.name, graph.entity_names, graph.relation_names, syntax=syntax)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What the first tokens stand for; `[PAD]` is 0."""
        return ("[PAD]", *SYMBOLS[self.syntax])

    def __len__(self) -> int:
        return self.first_relation + len(self.relation_names)

    @property
    def free(self) -> int:
        """The token of the free variable."""
        return len(self.symbols)

    @property
    def first_entity(self) -> int:
        """The token of entity 0; the others follow."""
        return self.free + 1 + self.existentials

    @property
    def first_relation(self) -> int:
        """The token of relation 0; the others follow."""
        return self.first_entity + len(self.entity_names)

    def variable(self, variable: Variable) -> int:
        """The token of a variable; a `TaskError` where there are too few for existential ones."""
        number = int(variable.name[1:] or 0)
        if number > self.existentials:
            raise TaskError(
                f"the variable {variable.name} has no token; rename it to one of e1 to e{self.existentials}"
            )
        return self.free + number

    def encode(self, template: Template, groundings: Groundings) -> tuple[Ints, Ints]:
        """Token ids [n, x] and token kinds [n, x] of groundings of one template, int64; raises as `query_tokens`."""
        tokens = list(query_tokens(template.query, self.syntax, reversed_=self.reversed_))
        ids = np.empty((len(groundings), len(tokens)), np.int64)
        for place, (kind, token) in enumerate(tokens):
            if isinstance(token, Variable):
                ids[:, place] = self.variable(token)
            elif isinstance(token, Constant):
                ids[:, place] = (
                    self.first_entity + groundings.constants[:, template.constants.index(token.name)]
                )
            elif kind == "relation":
                ids[:, place] = self.first_relation + groundings.relations[:, template.relations.index(token)]
            else:
                ids[:, place] = self.symbols.index(token)
        kinds = np.array([_KIND[kind] for kind, _ in tokens], np.int64)
        return ids, np.broadcast_to(kinds, ids.shape)

    def decode(self, ids: Sequence[int]) -> list[str]:
        """What each token stands for."""
        variables = ["f", *(f"e{i + 1}" for i in range(self.existentials))]
        names = [*self.symbols, *variables, *self.entity_names, *self.relation_names]
        return [names[i] for i in ids]

    def to_bytes(self) -> bytes:
        """The vocabulary as JSON."""
        data = {
            "format": FORMAT, "graph": self.graph, "syntax": self.syntax, "symbols": self.symbols,
            "existentials": self.existentials, "entities": self.entity_names, "relations": self.relation_names,
        }  # fmt: skip
        return (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "vocabulary.json") -> Vocabulary:
        """The inverse of `to_bytes`.

        Raises:
            TaskError: the bytes are damaged or were written by something newer.
        """
        try:
            loaded: Any = parse_json(data)
            version, syntax = loaded["format"], loaded["syntax"]
            if isinstance(version, int) and version > FORMAT:
                raise TaskError(
                    f"{source} has format {version}; this version reads up to {FORMAT}: upgrade peirce"
                )
            if syntax not in SYNTAXES:
                raise TaskError(f"{source}: {unknown('syntax', str(syntax), SYNTAXES)}; save the model again")
            graph, existentials = loaded["graph"], loaded["existentials"]
            entities, relations = tuple(loaded["entities"]), tuple(loaded["relations"])
            sound = (version, list(loaded["symbols"])) == (FORMAT, ["[PAD]", *SYMBOLS[syntax]])
            sound = sound and isinstance(existentials, int) and min(len(entities), len(relations)) > 0
            if not sound or not all(isinstance(name, str) for name in (graph, *entities, *relations)):
                raise ValueError("it does not describe the tokens of queries")
        except (ValueError, TypeError, KeyError) as error:
            raise TaskError(
                f"{source} is not a vocabulary of queries: {error!r}; save the model again"
            ) from error
        return cls(graph, entities, relations, existentials, syntax)
