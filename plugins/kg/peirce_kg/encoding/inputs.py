"""From a query to the inputs of one model: its text, its literals, its graph, whatever the model takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from peirce.errors import TaskError
from peirce.spec import Spec
from peirce_kg.encoding.graph_inputs import graph_inputs
from peirce_kg.encoding.literal_inputs import Arrays, check_supported, query_literals, takes_literals
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.encoding.writing import KINDS
from peirce_kg.parts.positions.query_graph import APART, GRAPH_DISTANCES, GRAPH_INPUTS
from peirce_kg.parts.systems.literals import Executor
from peirce_queries import Groundings, Template

PADDING = {"token_kinds": KINDS.index("special"), GRAPH_DISTANCES.name: APART}
"""What stands after the end of a query, by input; 0 in the others."""


def text_inputs(template: Template, groundings: Groundings, vocabulary: Vocabulary) -> Arrays:
    """The tokens of groundings of one query: input_ids and token_kinds, int64 [n, x]; attention_mask, bool [n, x]."""
    ids, kinds = vocabulary.encode(template, groundings)
    return {"input_ids": ids, "token_kinds": kinds, "attention_mask": np.broadcast_to(True, ids.shape)}


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
        template, groundings: the query, and its groundings.
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
        arrays = text_inputs(template, groundings, vocabulary)
        length, most = arrays["input_ids"].shape[1], spec.input.max_length
        if length > most:
            raise TaskError(
                f"the query has {length} tokens; the model reads at most {most}: ask a shorter one"
            )
    if any(name in GRAPH_INPUTS for name in names):
        graphs = graph_inputs(template, len(groundings), vocabulary)
        arrays |= {name: values.astype(np.int64) for name, values in graphs.items()}
    return {name: np.array(values, order="C") for name, values in arrays.items() if name in names}


def join_batches(parts: Sequence[Arrays]) -> Arrays:
    """One batch of several, each input as long as in its longest query; what one of them lacks is left out."""
    found: Arrays = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts if name in part]
        if len(arrays) < len(parts):
            continue
        length = max(array.shape[1] for array in arrays)
        shape = (sum(map(len, arrays)), length, *arrays[0].shape[2:])
        found[name] = np.full(shape, PADDING.get(name, 0), arrays[0].dtype)
        first = 0
        for array in arrays:
            found[name][first : first + len(array), : array.shape[1]] = array
            first += len(array)
    return found
