"""Small models of the systems that execute queries themselves, and groundings of TEGA's types to run them on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from peirce.compose import build
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_kg.encoding.literal_inputs import query_literals
from peirce_kg.encoding.vocabulary import Vocabulary
from peirce_kg.task import overrides_of
from peirce_queries.engine.template import Groundings, Template
from peirce_queries.languages.conversion import to_lisp
from peirce_queries.languages.lisp import SetExpression, parse_lisp
from peirce_queries.languages.types import QueryType, load_types

TYPES = load_types()
VOCABULARY = Vocabulary("toy", tuple("abcde"), ("r", "s", "t"))
ENTITIES = slice(VOCABULARY.first_entity, VOCABULARY.first_entity + 5)
PROJECTED = "(p,(r2),(p,(r1),(s1)))"
COMPLEMENTS = {
    "pni": f"(i,(n,{PROJECTED}),(p,(r3),(s2)))",
    "2pni": f"(i,{PROJECTED},(n,(p,(r4),(p,(r3),(s2)))))",
    "pn3i": f"(i,(n,{PROJECTED}),(p,(r3),(s2)),(p,(r4),(s3)))",
    "upni": "(i,(p,(r3),(u,(p,(r1),(s1)),(p,(r2),(s2)))),(n,(p,(r5),(p,(r4),(s3)))))",
    "unpi": (
        "(u,(i,(n,(p,(r3),(p,(r1),(s1)))),(p,(r5),(p,(r4),(s3)))),"
        "(i,(n,(p,(r3),(p,(r2),(s2)))),(p,(r5),(p,(r4),(s3)))))"
    ),
}
"""Negated atoms of an existential variable as the published code of BetaE reads them: complements of projections."""
SMALL: dict[str, dict[str, Any]] = {
    "betae": {"model.dims.feedforward": 5},
    "clmpt": {"model.dims.feedforward": 5, "model.augmenters": [], "model.options.heads": 2},
    "cone": {"model.dims.feedforward": 5},
    "cqd-beam": {},
    "cqd-continuous": {"model.heads.0.steps": 5},
    "cqd-hybrid": {"model.augmenters": [], "model.heads.0.links": ""},
    "fit": {"model.augmenters": [], "model.heads.0.links": "", "model.heads.0.threshold": 0.05},
    "qto": {"model.augmenters": [], "model.heads.0.links": "", "model.heads.0.threshold": 0.05},
    "fuzzqe": {"model.options.bases": 3},
    "gqe": {"model.dims.feedforward": 5},
    "query2box": {"model.dims.feedforward": 5},
    "q2p": {"model.dims.feedforward": 5},
    "lmpnn": {"model.dims.feedforward": 5, "model.augmenters": []},
}


def small(name: str, registry: Registry, *, width: int = 6, bare: bool = False, **settings: Any) -> Model:
    """A ready spec in float64 for five entities, with parameters that no symmetry hides; `bare` of its options."""
    head = {f"model.heads.0.{key}": value for key, value in settings.items()}
    changes = {"model.dims.unary": width, **SMALL[name], **overrides_of(VOCABULARY), **head}
    if bare:
        changes["model.options"] = {}
    model = build(load_spec(name, changes), registry=registry, dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4)
    return model


def grounded(query_type: QueryType | str, rows: int = 3, seed: int = 0) -> tuple[Template, Groundings]:
    """Random groundings of a type."""
    kind = TYPES[query_type] if isinstance(query_type, str) else query_type
    template, random = Template.of(kind.query), np.random.default_rng(seed)
    return template, Groundings(
        random.integers(0, 3, (rows, len(template.relations))),
        random.integers(0, 5, (rows, len(template.constants))),
    )


def run(model: Model, template: Template, groundings: Groundings) -> torch.Tensor:
    """The model's scores of the five entities, [rows, 5]."""
    literals = query_literals(template, groundings, VOCABULARY)
    assert literals is not None
    inputs = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in literals.items()}
    with torch.inference_mode():
        return model(**inputs)["entities_logits"]


def tree_of(kind: str) -> SetExpression:
    """A type as sets, with complements as the published code of BetaE has them."""
    return parse_lisp(COMPLEMENTS[kind]) if kind in COMPLEMENTS else to_lisp(TYPES[kind].query)


def named_tokens(template: Template, groundings: Groundings, row: int) -> dict[str, int]:
    """The token of each name of a template in one of its groundings."""
    relations = groundings.relations[row] + VOCABULARY.first_relation
    constants = groundings.constants[row] + VOCABULARY.first_entity
    names, ids = (*template.relations, *template.constants), (*relations.tolist(), *constants.tolist())
    return dict(zip(names, ids, strict=True))
