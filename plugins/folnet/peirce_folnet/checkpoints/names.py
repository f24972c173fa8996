"""Which tensors of a published FOLNet checkpoint are which parameters of a model.

One table serves both ways: each published name stands for the parameters whose concatenation along the first axis it
holds. Published readers are numbered by the branch that they read (1 unary, 2 binary); three operators read kernel and
premise with one matrix, kernel first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from peirce.parts import Plan

Names = Mapping[str, tuple[str, ...]]
"""Published name -> the parameters that it holds, in order."""

READERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "join": {"reader.1": ("premise",), "reader.2": ("kernel",), "writer": ("output",)},
    "mu": {"reader.2": ("kernel", "premise"), "writer": ("output",)},
    "cjoin": {"kernel": ("kernel",), "premise": ("premise",), "output": ("output",)},
    "assoc": {"reader.1": ("kernel", "premise"), "writer": ("output",)},
    "prod": {"reader.1": ("kernel",), "reader.2": ("premise",), "writer": ("output",)},
    "trans": {"reader.2": ("kernel", "premise"), "writer": ("output",)},
}
"""The projections of each operator as the published code groups them."""

BOOL: Mapping[str, Mapping[str, str]] = {
    "gelu": {"clause_in": "hidden", "clause_out": "output"},
    "reglu": {"clause_in.gating": "gate", "clause_in.direct": "hidden", "clause_out": "output"},
}
"""bool's layers by the kind of its hidden layer; for relations there is a `clause_skip` besides."""

OUTER: Mapping[str, str] = {
    "folnet.encoder.word_embd.weight": "network.input.embedding.weight",
    "folnet.encoder.type_embd.weight": "network.input.token_type.weight",
    "cls.heads.predictions.bias": "heads.mlm.bias",
    **{
        f"{theirs}.{leaf}": f"{ours}.{leaf}"
        for theirs, ours in (
            ("folnet.encoder.diag", "network.diagonal_in"),
            ("folnet.diag", "network.diagonal_out"),
            ("folnet.dense", "network.pooler.dense"),
            ("cls.heads.predictions.transform.dense", "heads.mlm.dense"),
            ("cls.heads.seq_relationship", "heads.nsp.dense"),
            ("sch.dense", "heads.scl.dense"),
        )
        for leaf in ("weight", "bias")
    },
}
"""Everything outside the layers, but for the positions."""

POSITIONS: Mapping[str, str] = {
    "absolute": "folnet.encoder.abs_pos_embd.weight",
    "distance": "folnet.encoder.rel_pos_embd.weight",
}
TIED, EMBEDDING = "cls.heads.predictions.decoder.weight", "folnet.encoder.word_embd.weight"
"""The published decoder repeats the word embeddings, which a model holds once."""


def names(plan: Plan, parameters: Collection[str]) -> Names:
    """The published names of a model's parameters.

    Args:
        plan: the model's plan, whose operators write properties before relations.
        parameters: the names of the model's state dict.
    """
    written = [[p.name for p in plan.mixing if p.output is not None and p.output.branch == b] for b in "UB"]
    table: dict[str, tuple[str, ...]] = {theirs: (ours,) for theirs, ours in OUTER.items()}
    for i, position in enumerate(plan.positions):
        table[POSITIONS[position.name]] = (f"network.input.positions.{i}.table.weight",)
    for layer in range(plan.dims.layers):
        theirs, ours = f"folnet.reasoner.layers.{layer}.deducers", f"network.layers.{layer}.operators"
        place = 0
        for branch, operators in enumerate(written, 1):
            for k, operator in enumerate(operators):
                for group, roles in READERS[operator].items():
                    for leaf in ("weight", "bias"):
                        parts = tuple(f"{ours}.{place}.{operator}.{role}.{leaf}" for role in roles)
                        table[f"{theirs}.0.operators.{branch}.{k}.{group}.{leaf}"] = parts
                place += 1
        clauses = [
            (f"{branch}.0.{group}", f"{side}.{role}")
            for branch, side in ((1, "unary"), (2, "binary"))
            for group, role in BOOL[plan.state[0].options.activation].items()
        ]
        for group, role in (*clauses, ("2.0.clause_skip", "converse")):
            for leaf in ("weight", "bias"):
                parts = (f"{ours}.{place}.bool.{role}.{leaf}",)
                table[f"{theirs}.1.operators.{group}.{leaf}"] = parts
    known = frozenset(parameters)
    return {theirs: parts for theirs, parts in table.items() if known.issuperset(parts)}
