"""`peirce look`: real models on a page that holds their numbers, in pictures, as JSON; and what it refuses."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import exit_code
from PIL import Image
from small_specs import FOLNET

from peirce.compose import build, load
from peirce.errors import TaskError
from peirce.registry import Registry
from peirce.spec import Spec
from peirce_show import Mark, Matrix, View, observe
from peirce_show.svg import join_markup
from peirce_show.views.matrices import shorten
from peirce_show.views.rendering import render_page, render_picture, select
from peirce_show.views.texts import LONGEST, draw_text

SVG = "{http://www.w3.org/2000/svg}"
IDS = "5 17 3"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Path:
    folder = tmp_path_factory.mktemp("models") / "first"
    build(FOLNET.replace({"model.regularisation.init_std": 0.3}), registry=registry, seed=0).save(folder)
    return folder


def _data(page: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def _texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_page_holds_every_number_and_asks_for_no_network(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "look.html"
    assert exit_code("look", saved, IDS, "-o", path) == 0
    assert f"{path}: small-folnet (first): join.weights, mu.kernel" in capsys.readouterr().out
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|src=", page)
    (view,) = _data(page)
    expected = observe(load(saved).eval(), {"input_ids": np.array([[5, 17, 3]])}, IDS.split())
    assert len(view["matrices"]) == len(expected) == 25
    for held, own in zip(view["matrices"], expected, strict=True):
        assert (held["title"], held["layer"], held["rows"]) == (own.title, own.layer, IDS.split())
        values = np.frombuffer(base64.b64decode(held["values"]), "<f4").reshape(own.values.shape)
        assert np.array_equal(values, own.values)


def test_pictures_have_the_layer_and_the_head_that_are_asked_for(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "look.svg"
    assert exit_code("look", saved, IDS, "-o", path) == 0
    texts = _texts(path.read_text())
    assert {"join.weights", "small-folnet (first)", "layer 2, mean of 3", "attends", "attended to"} <= set(
        texts
    )
    assert [texts.count(token) for token in IDS.split()] == [2, 2, 2]
    how = ("--operator", "trans.output,atoms", "--layer", "1", "--head", "2", "--beside", saved)
    assert exit_code("look", saved, IDS, *how, "-o", path) == 0
    texts = _texts(path.read_text())
    assert (texts.count("trans.output"), texts.count("atoms"), texts.count("layer 1, 2 of 6")) == (2, 2, 4)
    drawn = tmp_path / "look.png"
    assert exit_code("look", saved, IDS, *how, "-o", drawn) == 0
    with Image.open(drawn) as picture:
        box = ET.fromstring(path.read_text()).get("viewBox", "").split()
        assert picture.format == "PNG"
        assert picture.size == pytest.approx([4 * float(size) for size in box[2:]], abs=4)


def test_json_has_the_numbers_without_a_file(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("look", saved, IDS, "--json", "--layer", "last", "--operator", "join") == 0
    found = json.loads(capsys.readouterr().out)
    ((matrix,),) = [view["matrices"] for view in found["views"]]
    assert (found["schema"], found["file"], matrix["layer"]) == ("peirce.look/1", None, "2")
    np.testing.assert_allclose(np.sum(matrix["values"], 2), 1, atol=1e-4)


def _matrix(title: str, layer: str, size: int = 2, channels: int = 1) -> Matrix:
    operator, _, name = title.partition(".")
    texts, names = tuple(map(str, range(size))), tuple(map(str, range(channels)))
    values = np.linspace(-1, 1, channels * size * size, dtype=np.float32).reshape(channels, size, size)
    return Matrix(
        layer=layer, operator=operator, name=name, rows=texts, columns=texts, channels=names, values=values,
        share=False, axes=("first", "second"),
    )  # fmt: skip


def test_what_a_model_predicts_stands_on_top() -> None:
    answers = ({"class": "<b>", "probability": 0.75}, {"class": "c", "probability": 0.25})
    view = View(name="m", text="t", matrices=(_matrix("a.b", "1"),), answers=answers)
    page = render_page([view])
    assert page.index("<td>&lt;b&gt;</td><td>0.750</td>") < page.index('id="stage"')
    assert "<b> 0.750, c 0.250" in _texts(render_picture([view]))


def test_one_colour_means_one_number_in_all_layers() -> None:
    small, large = _matrix("a.b", "1"), _matrix("a.b", "2")
    large.values[:] *= 4
    svg = render_picture([View(name="m", text="t", matrices=(small, large))])
    assert _texts(svg).count("−4") == 2
    opacities = [float(r.get("fill-opacity", "1")) for r in ET.fromstring(svg).iter(f"{SVG}rect")]
    assert opacities[:4] == [0.25, 0.08, 0.08, 0.25]
    assert "@media (prefers-color-scheme: dark)" in svg


def test_spans_lie_below_their_words_and_below_each_other() -> None:
    text = "We <stay> if it rains and we read."
    both = Mark(start=3, end=9, label="if", meaning="if: stay", sign="α", group=0)
    other = Mark(start=3, end=33, label="and", meaning="and: all", sign="α", group=1)
    key = Mark(start=10, end=12, label="if", meaning="if: stay | it rains")
    view = View(name="relations", text=text, marks=(both, other, key), labels=("and", "if"))
    rects = [
        (element.findtext("title"), float(element.get("y", 0)), element.get("fill"))
        for element in ET.fromstring(f"<svg>{join_markup([draw_text(view).drawn])}</svg>").iter("rect")
    ]
    (first, second, word), legend = rects[:3], rects[3:]
    assert [each[0] for each in rects[:3]] == ["if: stay", "and: all", "if: stay | it rains"]
    assert word[1] < first[1] < second[1] < legend[0][1]
    assert first[2] == word[2] != second[2]
    page = render_page([view])
    assert "&lt;stay&gt;" in page
    assert "<script" not in page
    assert render_picture([View(name="relations", text="None.", labels=("if",))])  # a text without marks
    with pytest.raises(TaskError, match="at most 10,000 are drawn; give a part of it"):
        draw_text(View(name="long", text="x" * (LONGEST + 1)))


def test_too_much_is_refused() -> None:
    many = View(name="m", text="t", matrices=tuple(_matrix("a", str(i)) for i in range(41)))
    with pytest.raises(TaskError, match="would have 41 panels, and at most 40 are drawn; give --layer or"):
        render_picture([many])
    large = View(name="m", text="t", matrices=(_matrix("a", "1", size=100, channels=401),))
    with pytest.raises(
        TaskError, match="would have 4,010,000 numbers, and at most 4,000,000 are kept; give --layer"
    ):
        select([large], "all", None, whole=True)
    apart = View(name="m", text="t", matrices=(_matrix("a.b", "1"), _matrix("c", "2")))
    with pytest.raises(TaskError, match="layer 1 has no c; layers with it: 2"):
        select([apart], "1", "c", whole=True)


def test_long_names_are_shortened_and_still_differ() -> None:
    paths = ["/people/person/nationality", "http://example.org/a#Bob", "("]
    assert shorten(paths) == ["nationality", "Bob", "("]
    assert shorten(["/film/genre", "/music/genre", "/m/027rn"]) == ["/film/genre", "/music/genre", "027rn"]
    assert shorten(["concept_country_united_states"]) == ["concept_…ed_states"]
    assert shorten(["/", "a\nb", "x" * 18]) == ["/", "a\\nb", "x" * 18]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ((), "give a file with -o, such as -o look.html, or --json"),
        (("-o", "look.pdf"), "look.pdf has no suffix of a picture; let it end in .svg, .html, .png"),
        (("--json", "--operator", "joins"), "unknown operator 'joins'. Did you mean 'join'? Known: join,"),
        (("--json", "--layer", "3"), "unknown layer '3'. Known: 0, 1, 2, all, last"),
        (("--json", "--head", "99"), "there is no channel 99: there are at most 12"),
        (
            ("--json", "--view", "text"),
            "unknown view 'text' of this model. Did you mean 'texts'? Known: texts",
        ),
        (("--json", "--set", "count=2"), "--set: unknown option 'count' of view 'texts'; there are none"),
    ],
)
def test_mistakes_are_told(
    how: tuple[str, ...], said: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("look", saved, IDS, *how) == 2
    assert said in capsys.readouterr().err


def test_models_without_pairs_and_views_without_models_are_told(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recurrent = (
        'format = 1\nmodel = { name = "r", architecture = "recurrent", dims = { layers = 1, unary = 8 } }'
    )
    build(Spec.from_toml(recurrent).replace({"model.input.vocabulary": 20})).save(tmp_path / "gru")
    for model, said in (
        (
            tmp_path / "gru",
            "gru has nothing to look at: the architecture 'recurrent' computes nothing between pairs",
        ),
        (
            "nowhere",
            "there is no folder of a saved model nowhere; train one with `peirce train`. Views that need",
        ),
        ("roles", "there is no folder of a saved model roles; it needs a model: give its folder first"),
    ):
        assert exit_code("look", model, IDS, "--json") == 2
        assert said in capsys.readouterr().err
    for older in (("roles", saved, IDS, "-o", "r.svg"), ("kg", "attention", "q", saved, "--layer", "all")):
        assert exit_code(*older) == 2
        assert "`peirce look MODEL" in capsys.readouterr().err
