"""From a query to the inputs of one model: its text, its literals, its graph, whatever the model takes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from peirce.errors import TaskError
from peirce.spec import Spec

from peirce_kg.encoding.graph_inputs import graph_inputs
from peirce_kg.encoding.literal_inputs import Arrays, check_supported, query_literals, takes_literals
from peirce_kg.encoding.vocabulary import Vocabulary, pad
from peirce_kg.engine.template import Groundings, Template
from peirce_kg.parts.positions.query_graph import GRAPH_INPUTS
from peirce_kg.parts.systems.literals import Executor


def query_inputs(
    template: Template,
    groundings: Groundings,
    vocabulary: Vocabulary,
    names: Collection[str],
    spec: Spec,
    system: type[Executor] = Executor,
) -> Arrays:
    """The inputs of groundings of one query for a model.

    Args:
        template: the query.
        groundings: its groundings.
        vocabulary: the model's tokens.
        names: the inputs that the model takes.
        spec: the model's spec.
        system: what the architecture declares of the queries that it supports, where it executes queries.

    Raises:
        TaskError: the query is longer than the model reads, its syntax cannot write it, or the system does not support
            it.
    """
    if takes_literals(names):
        check_supported(spec.architecture, system, template)
        arrays = query_literals(template, groundings, vocabulary) or {}
    else:
        encoded = pad([vocabulary.encode(template, groundings)])
        length, most = encoded.input_ids.shape[1], spec.input.max_length
        if length > most:
            raise TaskError(
                f"the query has {length} tokens; the model reads at most {most}: ask a shorter one"
            )
        arrays = dict(encoded._asdict())
    if any(name in GRAPH_INPUTS for name in names):
        shown = graph_inputs(
            template.query, len(groundings), vocabulary.syntax, reversed_=vocabulary.reversed_
        )
        arrays |= {name: values.astype(np.int64) for name, values in shown.items()}
    return {name: np.ascontiguousarray(values) for name, values in arrays.items() if name in names}
