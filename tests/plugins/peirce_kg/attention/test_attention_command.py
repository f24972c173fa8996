"""`peirce kg attention`: pictures of several models side by side, and the same as JSON."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from kgqa_command import run
from peirce.compose import build
from peirce.errors import TaskError
from peirce.registry import Registry, load_spec
from peirce_kg.attention.drawing import Column, figure_of, shown
from peirce_kg.task import KgQa, KgQaOptions
from shared_folder import ROOT
from small_specs import NARROW

QUERY = "isa(alga,f) & !affects(virus,f)"
TOKENS = "( isa ( alga f ) ) & ( ! ( affects ( virus f ) ) )"
PAGE = ROOT / "docs" / "plugins" / "kg" / "encoders.md"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> list[str]:
    task = KgQa(KgQaOptions(graph="umls", types=("1p",), train_queries=5, eval_queries=5))
    data, folders = task.prepare(), []
    for name, layers in (("tega", 2), ("transformer-relative", 1)):
        folder = tmp_path_factory.mktemp("models") / name
        sizes = {**NARROW, "model.dims.layers": layers}
        model = build(load_spec(name, {**task.overrides(data), **sizes}), registry=registry)
        model.save(folder, task.assets(data))
        folders.append(str(folder))
    return folders


def _texts(path: Path) -> list[str]:
    return ["".join(element.itertext()) for element in ET.parse(path).iter(f"{SVG}text")]


def test_models_are_drawn_side_by_side(folders: list[str], tmp_path: Path) -> None:
    path = tmp_path / "maps.png"
    said = run("attention", QUERY, *folders, "-o", str(path))
    assert said == f"{path}: tega (layer 2 of 2), transformer-relative (layer 1 of 1)\n"
    assert path.read_bytes().startswith(b"\x89PNG")
    path = tmp_path / "all.svg"
    run("attention", QUERY, *folders, folders[1], "--layer", "all", "--head", "3", "-o", str(path))
    texts = _texts(path)
    assert {"layer 1 of 2, head 3 of 4", "layer 2 of 2, head 3 of 4", "tega"} <= set(texts)
    assert texts.count("transformer-relative (transformer-relative)") == 2
    tokens = TOKENS.split()
    for token in tokens:
        assert texts.count(token) == 8 * tokens.count(token)  # two axes of four maps
    assert "attention weight" in texts


def test_json_has_the_weights_and_draws_where_a_file_is_named(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(run("attention", QUERY, *folders, "--json", "--head", "1"))
    assert found["schema"] == "peirce.kg.attention/1"
    assert (found["file"], found["head"]) == (None, 1)
    assert found["query"] == "(isa(alga,f))&(!(affects(virus,f)))"
    first, second = found["models"]
    assert first["model"] == folders[0]
    assert [first[key] for key in ("name", "architecture", "syntax", "reversed", "layers", "heads")] == [
        "tega", "transformer", "efo", False, 2, 4,
    ]  # fmt: skip
    assert " ".join(first["tokens"]) == TOKENS
    assert [each["layer"] for each in first["maps"] + second["maps"]] == [2, 1]
    np.testing.assert_allclose(np.array(first["maps"][0]["weights"]).sum(1), 1, atol=1e-4)
    assert list(tmp_path.iterdir()) == []
    assert json.loads(run("attention", QUERY, folders[0], "--json", "-o", "one.png"))["file"] == "one.png"
    run("attention", QUERY, folders[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.svg", "one.png"]


def test_mistakes_leave_no_file(folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"maps\.jpg names no format of pictures; let it end in \.svg"):
        run("attention", QUERY, *folders, "-o", str(tmp_path / "maps.jpg"))
    with pytest.raises(TaskError, match="has no layer 2: its attention has layers 1 to 1"):
        run("attention", QUERY, *folders, "--layer", "2", "-o", str(tmp_path / "maps.svg"))
    tokens = ("f",) * 128
    large = Column(("large",) * 12, tokens, (np.ones((128, 128)) / 128,) * 12)
    with pytest.raises(TaskError, match=r"would be \d+ by \d+ inches large; give fewer models, one layer or"):
        figure_of([large] * 2)
    assert list(tmp_path.iterdir()) == []


def test_long_names_are_shortened_and_still_differ() -> None:
    paths = ["/people/person/nationality", "http://example.org/a#Bob", "("]
    assert shown(paths) == ["nationality", "Bob", "("]
    assert shown(["/film/genre", "/music/genre", "/m/027rn"]) == ["/film/genre", "/music/genre", "027rn"]
    assert shown(["concept_country_united_states"]) == ["concept_…ed_states"]
    assert shown(["/", "a\nb", "x" * 18]) == ["/", "a\\nb", "x" * 18]
