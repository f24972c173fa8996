"""The pages on which small models answer in the reader's browser: each is trained, exported and written once.

One reads regions of RCC-8, the other asks the graph UMLS. The models stay in `build`, in folders that are named after
all that they depend on here; training takes each about a minute of one core.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

MODEL = "model.onnx"
FACTS_PAGE = Path("plugins/relations/ask/index.html")
FACTS, PAIR = "a NTPP b, b EC c, c NTPPI d", ("a", "d")
SIZES = {"steps": (2, 3), "branches": (1, 2)}
COUNTS = {"train": 6000, "test": 500}
FACTS_SETTINGS = {
    "task.batch_size": 32,
    "model.dims": "{layers=4, unary=32, binary=32, heads=4, head_size=8, feedforward_unary=64, feedforward_binary=64}",
    "model.options.vary": 2,
    "train.steps": 1500,
    "train.lr": 3e-3,
    "train.threads": 1,
}
QUERY_PAGE = Path("plugins/kg/ask/index.html")
QUERY = "treats(antibiotic,f) & !causes(bacterium,f)"
QUERY_SETTINGS = {
    "task.graph": "umls",
    "task.train_queries": 2000,
    "task.eval_queries": 50,
    "task.batch_size": 64,
    "model.dims": "{layers=2, unary=64, heads=4}",
    "model.regularisation": "{dropout=0.0, init_std=0.1}",
    "train.steps": 900,
    "train.warmup": 90,
    "train.lr": 3e-3,
    "train.threads": 1,
}


def write(target: Path, build: Path) -> None:
    """Write the pages, of models that are trained where there are none yet.

    Args:
        target: the folder of the site's pages.
        build: where the models stay, and where npm has brought onnxruntime-web.
    """
    facts, queries = _facts_model(build), _query_model(build)
    if not (facts / MODEL).is_file():
        data = build / "rcc8"
        data.mkdir(exist_ok=True)
        for number, (split, count) in enumerate(COUNTS.items()):
            (data / f"{split}.jsonl").write_text("".join(problems(number, count)), encoding="utf-8")
        _train(facts, "relational-rounds", "relations", {"task.data": data, **FACTS_SETTINGS})
    if not (queries / MODEL).is_file():
        _train(queries, "tega", "kgqa", QUERY_SETTINGS)
    runtime = ("--runtime", str(build / "node_modules" / "onnxruntime-web" / "dist"))
    for page, words in (
        (FACTS_PAGE, ("relate", str(facts), FACTS, "--pair", *PAIR)),
        (QUERY_PAGE, ("ask", str(queries), QUERY)),
    ):
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        _peirce(*words, "--page", str(target / page), *runtime)
        written = (target / page).read_text(encoding="utf-8")
        back = '<main><p><a href="../../../index.html">Peirce, all pages</a></p>'
        (target / page).write_text(written.replace("<main>", back, 1), encoding="utf-8")


def relation_scores(
    build: Path, facts: str, pair: tuple[str, str]
) -> tuple[dict[str, float], int, dict[str, Any]]:
    """The scores of the relations by ONNX Runtime, the number of nodes, and all outputs."""
    import peirce
    from peirce_relations.encoding import read_facts
    from peirce_relations.serving import RelationPipeline

    found: dict[str, Any] = {}
    with peirce.Session(_facts_model(build) / MODEL) as session:
        model = RelationPipeline(_facts_model(build), session)
        model.ask({"facts": facts, "pair": pair}, found.update)
        problem, nodes = read_facts(facts, pair)
        outputs = session.run(model.relations.arrays([problem]))
    return dict(zip(found["relations"], found["scores"], strict=True)), len(nodes), outputs


def entity_scores(build: Path, query: str) -> tuple[dict[str, float], dict[str, Any]]:
    """The ten best entities with their scores by ONNX Runtime, and all outputs."""
    from peirce_kg.encoding.inputs import query_inputs
    from peirce_kg.exported import ExportedModel
    from peirce_queries import model_reply, read_query, to_ids

    model, formula = ExportedModel(_query_model(build)), read_query(query)
    reply = model_reply(model, formula)
    names = [spec.name for spec in model.session.signature.inputs]
    feeds = query_inputs(*to_ids(formula, model.graph), model.vocabulary, names, model.spec)
    return {str(each.entity): each.score for each in reply.answers}, model.session.run(feeds)


def _facts_model(build: Path) -> Path:
    """Where the model of relations stays."""
    return build / f"rcc8-{zlib.crc32(repr((SIZES, COUNTS, FACTS_SETTINGS)).encode()):08x}"


def _query_model(build: Path) -> Path:
    """Where the model of queries stays."""
    return build / f"umls-{zlib.crc32(repr(QUERY_SETTINGS).encode()):08x}"


def problems(number: int, count: int) -> Iterator[str]:
    """The problems of a block as lines; half of them ask for another pair that the facts decide, as the page may."""
    import numpy as np
    from attrs import evolve

    from peirce_relations.calculi.algebra import rcc8
    from peirce_relations.calculi.closure import closure
    from peirce_relations.calculi.sources import block, source

    drawn, algebra = Random(number), rcc8()
    for problem in block(source("rcc8", max(SIZES["steps"])), SIZES, seed=0, number=number, count=count):
        if drawn.random() < 0.5:
            left = closure(algebra, problem.nodes, problem.edges, problem.labels)
            x, y = drawn.choice(np.argwhere(left.sum(2) == 1).tolist())
            problem = evolve(problem, query=(x, y), answer=algebra.relations[left[x, y].argmax()])
        yield problem.line()


def _train(model: Path, spec: str, task: str, settings: Mapping[str, Any]) -> None:
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    _peirce("train", spec, "--task", task, *sets, "-o", str(model), "--overwrite")
    _peirce("export", str(model), "-o", str(model / MODEL), "--attention")


def _peirce(*words: str) -> None:
    subprocess.run([sys.executable, "-P", "-m", "peirce", *words], check=True)
