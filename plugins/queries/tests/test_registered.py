"""A stranger's syntax, format and model take part in what queries are read, converted and asked by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kgqa_command import call

from peirce.errors import ModelFileError, PeirceError, TaskError
from peirce.registry import VARIABLE, default_catalogue
from peirce_queries import QueryError, convert_files, open_answerer, read_query
from peirce_queries.answering.commands import ask
from peirce_queries.languages.commands import show

STRANGER = """
import re
from peirce.registry import hookimpl
from peirce_queries import (
    Answerer, Atom, Constant, FileQueries, FREE, GraphReader, Query, QueryReader, QueryWriter, Ranking, Syntax,
    from_names, parse,
)

@hookimpl
def register_syntaxes():
    return {"arrows": "stranger:Arrows"}

@hookimpl
def register_formats():
    return {"plain": "stranger:Plain"}

@hookimpl
def register_answerers():
    return {"last": "stranger:Last"}

class Arrows(Syntax):
    begins = re.compile("->")

    @staticmethod
    def read(text):
        _, relation, head = text.split()
        return Query(Atom(relation, Constant(head), FREE))

class Plain(GraphReader, QueryReader, QueryWriter):
    graph_file, query_files = "names.txt", "*.asked"

    @staticmethod
    def read_graph(folder):
        import numpy as np
        graph = from_names("plain", {"train": [("a", "r", "b"), ("b", "r", "c")], "test": [("a", "r", "c")]})
        return graph, np.arange(3), np.arange(1)

    @staticmethod
    def read_queries(paths):
        for path in paths:
            yield FileQueries(str(path), "test", parse("r1(s1,f)"), ("r1", "s1"), [[0, 0]], {"test": [[1, 2]]})

    @staticmethod
    def write_graph(folder, graph):
        (folder / "names.txt").write_text(" ".join(graph.entity_names))

    @staticmethod
    def check(query):
        pass

    @staticmethod
    def write_queries(folder, content):
        for split, sets in content.sets.items():
            (folder / f"{split}.asked").write_text(" ".join(str(each.type.query) for each in sets))

class Last(Answerer):
    provider = "nobody"

    @classmethod
    def opens(cls, place):
        return place.name == "last"

    @classmethod
    def open(cls, place, given):
        answerer = cls()
        answerer.graph = given.graph
        return answerer

    def rank(self, query, top, console=None):
        return Ranking(entities=[self.graph.entities - 1], scores=[0.5])
"""


@pytest.fixture
def registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """The plug-in of queries and a stranger's, whose module is beside this test's files; nothing else is on."""
    (tmp_path / "stranger.py").write_text(getattr(request, "param", STRANGER))
    file = tmp_path / "registry.toml"
    switches = 'default = "off"\nmodules = ["stranger"]\n[plugins]\n"peirce-queries:queries" = "on"\n'
    file.write_text(f"format = 1\n{switches}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "stranger", raising=False)
    monkeypatch.setenv(VARIABLE, str(file))
    default_catalogue.cache_clear()
    yield
    default_catalogue.cache_clear()


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    folder = tmp_path / "graph"
    folder.mkdir()
    for split, rows in {"train": "a\tr\tb\nb\tr\tc\n", "valid": "", "test": "a\tr\tc\n"}.items():
        (folder / f"{split}.tsv").write_text(rows)
    return folder


@pytest.mark.usefixtures("registry")
def test_a_syntax_is_read_by_how_its_texts_begin() -> None:
    assert read_query("-> likes ann") == read_query("likes(ann,f)")
    assert "likes(ann,f)" in call(show, "--", "-> likes ann")


@pytest.mark.parametrize("registry", [STRANGER.replace('"->"', 'r"\\(p,"')], indirect=True)
def test_a_text_of_two_syntaxes_names_both(registry: None) -> None:
    with pytest.raises(QueryError, match="fits the syntaxes arrows and lisp; disable"):
        read_query("(p,(likes),(ann))")


@pytest.mark.usefixtures("registry")
def test_a_format_is_read_and_written(tmp_path: Path, graph: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("names.txt", "test.asked"):
        (theirs / name).touch()
    content = convert_files(str(theirs), "peirce", tmp_path / "ours", None, None)
    assert [tuple(row) for row in content.counts] == [("test", "1p", 1, 1, "")]
    convert_files(str(tmp_path / "ours"), "plain", tmp_path / "back", None, None)
    assert (tmp_path / "back" / "test.asked").read_text() == "r1(s1,f)"
    with pytest.raises(TaskError, match=r"unknown format 'plane'\. Did you mean 'plain'"):
        convert_files(str(graph), "plane", tmp_path / "none", None, None)


@pytest.mark.usefixtures("registry")
def test_a_model_is_opened_by_what_its_folder_holds(tmp_path: Path, graph: Path) -> None:
    found = json.loads(call(ask, tmp_path / "last", "r(a,f)", "--graph", graph, "--json"))
    assert found["answers"] == [{"entity": "c", "score": 0.5, "known": True}]
    assert found["exact"] == 2
    with pytest.raises(ModelFileError, match="holds no model that answers queries"):
        call(ask, graph, "r(a,f)", "--graph", graph)
    with pytest.raises(PeirceError, match="answers one query at a time"):
        call(ask, tmp_path / "last", "--graph", graph, "--queries", "x", "--scores", "y")


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("registry", ["# registers nothing"], indirect=True)
def test_without_models_a_graph_answers_exactly(tmp_path: Path, graph: Path) -> None:
    with pytest.raises(TaskError, match="`pip install peirce-kg` brings models"):
        open_answerer(tmp_path, None)
    found = json.loads(call(ask, "r(a,f)", "--graph", graph, "--json"))
    assert [each["entity"] for each in found["answers"]] == ["b", "c"]
    assert found["query"] == str(read_query("r(a,f)"))
    shown = call(ask, "r(f1,e1) & r(e1,f2)", "--graph", graph, "--exact", "--split", "train")
    assert "a, c" in shown
    assert "The graph entails 1 answer." in shown
