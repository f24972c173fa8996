"""What published code has otherwise costs: each system's variants on UMLS, on the same vectors, queries and seeds.

MRR in percent of entailed and inferred answers of test queries, filtered by the graph that is asked. CQD searches with
one ComplEx, trained as `peirce kg embed` does; the others are trained for as many steps as are asked for.

    python benchmarks/systems.py [--queries N] [--steps N] [--search N]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measuring import record

from peirce.compose import build
from peirce.registry import default_registry, load_spec
from peirce_kg.embedding.training import EmbeddingOptions, embed
from peirce_kg.task import overrides_of
from peirce_queries.graphs.graph import load_graph
from peirce_training import make_task, train, training_options

HEAD, OPTIONS = "model.heads.0.", "model.options."
TYPES = ["1p", "2p", "3p", "2i", "pi", "ip", "2in", "inp", "pin", "pni", "2u", "up"]
POSITIVE = ["1p", "2p", "3p", "2i", "pi", "ip", "2u", "up"]
FIRST = {"nodes": "variables", "passes": "path", "unions": "apart"}
COMPLEX = {
    "Adagrad, N3 0.05": {},
    "Adagrad, N3 0.01": {"n3": 0.01},
    "Adagrad": {"n3": 0.0},
    "Adam": {"optimizer": "adam", "n3": 0.0},
}
SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "beam": ("cqd-beam", {}),
    "beam, branches apart": ("cqd-beam", {HEAD + "branches": "apart"}),
    "published": ("cqd-continuous", {}),
    "published, N3 0.05": ("cqd-continuous", {HEAD + "n3": 0.05}),
    "published, no N3": ("cqd-continuous", {HEAD + "n3": 0.0}),
    "published, unions apart": ("cqd-continuous", {HEAD + "unions": "apart"}),
    "logarithm": (
        "cqd-continuous",
        {HEAD + "objective": "logarithm", HEAD + "n3": 0.0, HEAD + "unions": "apart"},
    ),
}
TRAINED: dict[str, tuple[str, dict[str, Any]]] = {
    "LMPNN, published": ("lmpnn", {}),
    "LMPNN, first form": ("lmpnn", {OPTIONS + key: value for key, value in FIRST.items()}),
    "ConE, published": ("cone", {}),
    "ConE, first form": (
        "cone",
        {OPTIONS + "form": "paper", OPTIONS + "margin": 20.0, HEAD + "margin": 20.0},
    ),
    "ConE, paper's form": ("cone", {OPTIONS + "form": "paper"}),
    "LMPNN, entities keep their vectors": ("lmpnn", {OPTIONS + "nodes": "variables"}),
    "LMPNN, layers by path": ("lmpnn", {OPTIONS + "passes": "path"}),
    "LMPNN, unions apart": ("lmpnn", {OPTIONS + "unions": "apart"}),
}


def main() -> None:
    """Measure and write results/systems.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--search", type=int, default=1000, help="steps of the continuous search")
    asked = parser.parse_args()
    registry, rows = default_registry(), []
    common = {"graph": "umls", "eval_queries": asked.queries, "types": TYPES}
    task = make_task("kgqa", {**common, "train_queries": 500, "batch_size": 128}, registry)
    data = task.prepare()
    with TemporaryDirectory() as folder:
        made = {}
        for name, options in COMPLEX.items():
            found = embed(load_graph("umls"), EmbeddingOptions(dim=400, **options))
            made[name] = Path(folder) / f"{len(made)}.safetensors"
            found.write(made[name])
            rows.append(
                {
                    "system": "ComplEx",
                    "variant": name,
                    "type": "link",
                    "answers": "valid",
                    "mrr": percent(found.mrr or 0),
                }
            )
        vectors = made[next(iter(COMPLEX))]

        def measure(system: str, variant: str, model: Any, types: list[str]) -> None:
            report = task.report(model, data, "test")
            for kind in types:
                for answers, figures in report.cells.get(kind, {}).items():
                    own = {"type": kind, "answers": answers, "mrr": percent(figures.mrr)}
                    rows.append({"system": system, "variant": variant, **own})
            record("systems", rows)  # each time: what is measured stays

        augmenter = [{"use": "kge", "file": str(vectors), "frozen": True}]
        for variant, (spec, settings) in SEARCHES.items():
            steps = {HEAD + "steps": asked.search} if spec == "cqd-continuous" else {}
            changes = {
                "model.dims.unary": 400,
                "model.augmenters": augmenter,
                **steps,
                **overrides_of(data.vocabulary),
            }
            measure(
                "CQD", variant, build(load_spec(spec, {**changes, **settings}), registry=registry), POSITIVE
            )
        for variant, (spec, settings) in TRAINED.items():
            sizes = {"model.augmenters.0.file": str(vectors)} if spec == "lmpnn" else {}
            sizes |= {"model.dims.feedforward": 800} if spec == "lmpnn" else {"model.dims.unary": 256}
            loaded = load_spec(spec, {**sizes, **settings})
            options = training_options(
                {"steps": asked.steps, "lr": 1e-3, "test_split": "", "valid_split": "", "keep": 1}
            )
            done = train(loaded, task, options, Path(folder) / variant, registry=registry, data=data)
            measure(variant.partition(",")[0], variant, done.model, TYPES)


def percent(share: float) -> float:
    """Rounded to a tenth."""
    return round(100 * share, 1)


if __name__ == "__main__":
    main()
