from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from kgqa_reference import queries

from peirce.errors import TaskError
from peirce_queries.languages.drawing import MAX_DRAWN, draw, label, layout
from peirce_queries.languages.language import Query, parse
from peirce_queries.languages.querygraph import Node, QueryGraph
from peirce_queries.languages.types import load_types

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    return sorted(element.text or "" for element in ET.parse(path).iter(f"{SVG}text"))


@given(queries())
def test_nodes_stand_apart_and_within(query: Query) -> None:
    places, (width, height) = layout(QueryGraph.of(query))
    assert len(set(places)) == len(places)
    assert all(0 < x < width and 0 < y < height for x, y in places)


@pytest.mark.parametrize("name", ["3p", "inpu", "3cnm"])
def test_edges_lead_to_the_right_where_nothing_runs_in_circles(name: str) -> None:
    graph = QueryGraph.of(load_types()[name].query)
    places, _ = layout(graph)
    assert all(places[start][0] < places[end][0] for start, end in graph.edges)
    assert places[graph.free][0] == max(x for x, _ in places)


def test_pictures_show_every_node_and_are_the_same_each_time(tmp_path: Path) -> None:
    graph = QueryGraph.of(load_types()["inpu"].query)
    draw(graph, tmp_path / "one.svg", "inpu")
    draw(graph, tmp_path / "two.svg", "inpu")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert texts(tmp_path / "one.svg") == sorted(
        ["s1", "r1", "e1", "r3", "s2", "r2", "¬", "∪", "f", "s3", "r4", "e2", "r5"]
    )
    lines = [e for e in ET.parse(tmp_path / "one.svg").iter(f"{SVG}g") if "patch" in e.get("id", "")]
    assert len(lines) > len(graph.nodes) + len(graph.edges)
    draw(graph, tmp_path / "one.PNG")
    assert (tmp_path / "one.PNG").read_bytes().startswith(b"\x89PNG")
    draw(graph, tmp_path / "one.pdf")
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")


def test_names_stand_as_they_are(tmp_path: Path) -> None:
    query = parse('("$x$ <&"("a\\nb\\u0001",f))&(r(f,f))&("名"(e1,f))'.replace("\\u0001", "\x01"))
    draw(QueryGraph.of(query), tmp_path / "names.svg", str(query))
    assert texts(tmp_path / "names.svg") == sorted(["$x$ <&", "a\\nb\\x01", "f", "r", "名", "e1"])
    assert label(Node("entity", "x" * 28)) == "x" * 28
    assert label(Node("entity", "x" * 29)) == "x" * 27 + "…"


def test_what_cannot_be_drawn_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = QueryGraph.of(parse("r(a,f)"))
    with pytest.raises(TaskError, match=r"\.svg, \.png, \.pdf"):
        draw(graph, tmp_path / "query.jpg")
    wide = QueryGraph.of(parse("&".join(f"r(a{i},f)" for i in range(MAX_DRAWN // 2))))
    with pytest.raises(TaskError, match="has 201 nodes; up to 200 are drawn"):
        draw(wide, tmp_path / "query.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TaskError, match=r"pip install 'peirce-queries\[pictures\]'"):
        draw(graph, tmp_path / "query.svg")
    assert list(tmp_path.iterdir()) == []
