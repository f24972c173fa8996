from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from kgqa_command import call
from small_specs import NARROW

import peirce
from peirce.compose import build
from peirce.errors import InputError, ModelFileError, PeirceError, TaskError
from peirce.model import Model
from peirce.registry import Registry, load_spec
from peirce_kg.encoding.inputs import query_inputs
from peirce_kg.exported import ExportedModel
from peirce_kg.task import KgQa, KgQaData, KgQaOptions, model_scorer
from peirce_queries import Reply, model_reply, parse_any
from peirce_queries.answering.commands import ask
from peirce_queries.engine.answers import answer, pair_answers, to_ids
from peirce_queries.languages.conversion import read_query, to_query
from peirce_queries.languages.language import parse
from peirce_queries.languages.types import load_types, select
from peirce_queries.sampling.sampler import sample

Exported = tuple[Path, Model, KgQaData]
QUERY = "(embassy(usa,f))&(!(embassy(e1,usa)))|(embassy(ussr,f))"


def reply_to(model: ExportedModel, text: str, top: int = 10) -> Reply:
    return model_reply(model, parse_any(text), top)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Exported:
    directory = tmp_path_factory.mktemp("kgqa") / "model"
    task = KgQa(KgQaOptions(graph="nations", types=("1p",), train_queries=5, eval_queries=5))
    data = task.prepare()
    model = build(load_spec("tega", {**task.overrides(data), **NARROW}), registry=registry).eval()
    model.save(directory, task.assets(data))
    peirce.export(model, to="onnx", path=directory / "model.onnx")
    return directory, model, data


def test_equals_torch_for_every_shape(exported: Exported) -> None:
    directory, model, data = exported
    model_file = ExportedModel(directory)
    scorer = model_scorer(model, data.vocabulary)
    for queries in sample(list(load_types().values()), data.graph, "train", 1, seed=0):
        query = queries.query(0, data.graph)
        reply = reply_to(model_file, str(query))
        scores = scorer(*to_ids(query, data.graph))[0]
        best = np.argsort(-scores, kind="stable")[:10]
        assert [a.entity for a in reply.answers] == [data.graph.entity_names[i] for i in best]
        assert np.allclose([a.score for a in reply.answers], scores[best], atol=1e-4)


def test_a_model_of_reversed_queries_is_asked_so(exported: Exported, tmp_path: Path) -> None:
    directory, model, data = exported
    copy = shutil.copytree(directory, tmp_path / "reversed")
    query = parse("(embassy(usa,e1))&(accusation(e1,f))")
    (copy / "training.json").write_text(json.dumps({"task": {"name": "kgqa", "options": {"reverse": True}}}))
    forwards, backwards = (
        [a.score for a in reply_to(ExportedModel(d), str(query)).answers] for d in (directory, copy)
    )
    scores = model_scorer(model, attrs.evolve(data.vocabulary, reversed_=True))(*to_ids(query, data.graph))[0]
    assert np.allclose(backwards, np.sort(scores)[::-1][:10], atol=3e-6)
    assert not np.allclose(backwards, forwards, atol=3e-6)
    (copy / "training.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"training\.json cannot be read"):
        ExportedModel(copy)


def test_pairs_are_ranked_by_the_chances_of_both(exported: Exported) -> None:
    directory, model, data = exported
    reply = reply_to(
        ExportedModel(directory),
        "MATCH ({name: 'usa'})-[:embassy]->(a)-[:accusation]->(b) RETURN a, b",
        top=7,
    )
    scorer = model_scorer(model, data.vocabulary)

    def chances(text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        scores = scorer(*to_ids(parse(text), data.graph))[0].astype(np.float64)
        return scores - np.log(np.exp(scores).sum())

    first, names = chances("embassy(usa,f)&accusation(f,e1)"), data.graph.entity_names
    both = {
        (a, b): first[i] + second
        for i, a in enumerate(names)
        for b, second in zip(names, chances(f"embassy(usa,{a})&accusation({a},f)"), strict=True)
    }
    best = sorted(both, key=lambda pair: -both[pair])[:7]
    assert [a.entity for a in reply.answers] == best
    assert np.allclose([a.score for a in reply.answers], [both[pair] for pair in best], atol=1e-3)
    index = data.graph.index("train")
    (exact,) = pair_answers(*to_ids(to_query(reply.query, pairs=True), data.graph), index)
    assert reply.exact is not None
    assert reply.exact["train"] == len(exact) > 0
    with pytest.raises(TaskError, match="asks for pairs"):
        read_query("r(f1,f2)")


def test_known_answers_are_marked(exported: Exported) -> None:
    directory, _, data = exported
    reply = reply_to(ExportedModel(directory), QUERY, top=data.graph.entities)
    query = parse(QUERY)
    for split in ("train", "valid", "test"):
        marked = {a.entity for a in reply.answers if split in a.known}
        exact = answer(query, data.graph, data.graph.index(split))
        assert marked == {data.graph.entity_names[i] for i in exact}
        assert reply.exact is not None
        assert reply.exact[split] == len(exact)
    assert [a.rank for a in reply.answers] == list(range(1, 15))


@pytest.mark.thorough
def test_the_best_are_ranked_in_the_graph(exported: Exported, tmp_path: Path) -> None:
    directory, model, data = exported
    ranked = tmp_path / "ranked"
    shutil.copytree(directory, ranked)
    report = peirce.export(model, to="onnx", path=ranked / "model.onnx", top_k=5)
    assert {line.output for line in report.lines} >= {"entities_top_scores", "entities_top_ids"}
    whole, best = ExportedModel(directory), ExportedModel(ranked)
    for queries in sample(select(("1p", "2in", "up"), load_types()), data.graph, "train", 1, seed=0):
        query = str(queries.query(0, data.graph))
        first, second = reply_to(whole, query, 5).answers, reply_to(best, query, 5).answers
        assert [a.entity for a in first] == [a.entity for a in second]
        assert np.allclose([a.score for a in first], [a.score for a in second], atol=1e-4)
    assert len(reply_to(best, QUERY, 3).answers) == 3
    with pytest.raises(TaskError, match=r"ranks only the best 5 entities, not 6;.*--top-k 6"):
        reply_to(best, QUERY, 6)


def test_command_prints_a_table_and_json(exported: Exported) -> None:
    shown = call(ask, exported[0], QUERY, "--top", 3)
    assert "Exact answers:" in shown
    reply = json.loads(call(ask, exported[0], QUERY, "--top", 3, "--json"))
    assert (reply["schema"], reply["query"], reply["graph"]) == ("peirce.ask/1", str(parse(QUERY)), "nations")
    assert [a["rank"] for a in reply["answers"]] == [1, 2, 3]
    assert all(a["entity"] in shown for a in reply["answers"])


def test_neither_torch_nor_pykeen_is_needed(exported: Exported) -> None:
    script = """
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch", "pykeen"):
                    raise ImportError(f"{name} is refused here")

        sys.meta_path.insert(0, Refuse())
        import typer
        from peirce_queries.answering.commands import ask
        app = typer.Typer()
        app.command()(ask)
        app()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(exported[0]), QUERY, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    wanted = [a.entity for a in reply_to(ExportedModel(exported[0]), QUERY).answers]
    assert [a["entity"] for a in json.loads(result.stdout)["answers"]] == wanted


@pytest.fixture(scope="module")
def page(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> str:
    runtime = tmp_path_factory.mktemp("dist")
    for name in ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        (runtime / name).touch()
    told = ("--page", runtime / "page.html", "--runtime", runtime)
    call(ask, exported[0], QUERY, "--top", 3, *told)
    with pytest.raises(PeirceError, match="--page is of an exported model"):
        call(ask, QUERY, "--zero-shot", "--graph", "nations", *told)
    return (runtime / "page.html").read_text()


def _known(page: str) -> dict[str, Any]:
    (data,) = re.findall(r'id="data">(.*?)</script>', page)
    return dict(json.loads(data))


def test_a_page_begins_with_the_query(exported: Exported, page: str, tmp_path: Path) -> None:
    known, graph = _known(page), exported[2].graph
    assert (known["query"], known["top"], known["scores"]) == (str(parse(QUERY)), 3, "entities_logits")
    assert (known["entities"], known["relations"]) == ([*graph.entity_names], [*graph.relation_names])
    assert known["examples"].keys() == {"1p", "2p", "2i", "pi", "2in", "2u"}
    assert "<title>Ask nations</title>" in page
    model_file = ExportedModel(exported[0])
    model_file.vocabulary = attrs.evolve(model_file.vocabulary, reversed_=True)
    with pytest.raises(InputError, match=r"model\.onnx cannot become a page: a page ranks all entities"):
        model_file.write_page(tmp_path / "page.html", parse(QUERY), 10, tmp_path)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js runs the script of a page")
def test_a_page_reads_queries_as_python_does(exported: Exported, page: str) -> None:
    model_file, graph = ExportedModel(exported[0]), exported[2].graph
    sampled = sample(list(load_types().values()), graph, "train", 1, seed=0)
    texts = [str(queries.query(0, graph)) for queries in sampled]
    texts += [
        "embassy ( 'usa',f )|!!\n\"embassy\"(e1,usa)",
        "0(3,f)",
        "(((embassy(usa,f1))))",
        "'0'(e8,f)",
        "embassy(usa,f)&(embassy(f,e1)&embassy(e1,f))|(embassy(e2,f)|!(embassy(f,f)&embassy(f,usa)))",
    ]
    # no grammar
    texts += ["", "embassy", "embassy(usa,f", "embassy(usa,f))", "embassy(usa f)", "embassy('usa,f)"]
    texts += ["embassy(usa,f)embassy(usa,f)", "embassy('',f)", 'embassy("\\x",f)', "embassy(usa,\u00a0f)"]
    texts += ["!(embassy(usa,f)&)"]
    texts += [  # no name, no answer that is asked for, or too long
        *("embassy(uss,f)", "embasy(usa,f)", "embassy(14,f)", "embassy(usa,e1)", "embassy(f1,f2)"),
        *("embassy(f1,f)", "embassy(f,'f')", "embassy(usa,f2)", "embassy(e9,f)"),
        "&".join(["embassy(usa,f)"] * 30),
    ]
    reader = (files("peirce_kg") / "page" / "efo.js").read_text()
    script = f"""const data = {json.dumps(_known(page))};
        {reader}
        const read = text => {{ try {{ return encoded(text).inputs; }} catch (error) {{ return error.message; }} }};
        console.log(JSON.stringify({json.dumps(texts)}.map(read)));"""
    command = ["node", "--input-type=module", "-"]
    found = json.loads(subprocess.check_output(command, input=script, text=True))
    names, read = ("input_ids", "token_kinds"), 0
    for text, own in zip(texts, found, strict=True):
        wanted = None
        with suppress(TaskError):
            arrays = query_inputs(*to_ids(parse(text), graph), model_file.vocabulary, names, model_file.spec)
            wanted = {name: array[0].tolist() for name, array in arrays.items()}
            read += 1
        assert (None if isinstance(own, str) else own) == wanted, f"{text}: {own}"
    assert (read, len(texts)) == (58, 81)
    said = dict(zip(texts, found, strict=True))
    assert said["embassy(usa f)"].startswith("Column 13: ")
    assert "near it are embassy, " in said["embasy(usa,f)"]


def test_a_model_of_another_graph_and_a_missing_file_are_refused(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEIRCE_NO_DIGESTS", "1")
    copy = Path(shutil.copytree(exported[0], tmp_path / "copy"))
    vocabulary = copy / "assets" / "vocabulary.json"
    changed = json.loads(vocabulary.read_text())
    changed["entities"].append("atlantis")
    vocabulary.write_text(json.dumps(changed))
    with pytest.raises(ModelFileError, match="does not score the 15 entities"):
        ExportedModel(copy)
    files = ("assets/triples.npz", "assets/vocabulary.json", "model.onnx", "provenance.json", "spec.toml")
    for name in files:
        (copy / name).unlink()
        with pytest.raises(ModelFileError, match=Path(name).name):
            ExportedModel(copy)
    with pytest.raises(ModelFileError, match=r"there is no folder .*nowhere"):
        ExportedModel(tmp_path / "nowhere")
