"""Pictures of models: every architecture can be drawn, what is drawn is the plan, and differences are marked."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import small_specs
from attrs import evolve
from command_line import exit_code as run
from shared_folder import ROOT

import peirce
from peirce.registry import Registry, default_catalogue, load_spec
from peirce.spec import InputSpec, Spec
from peirce_show.contents import compare_contents, contents, spec_of
from peirce_show.drawing import WIDTH, draw
from peirce_show.svg import text_width
from peirce_show.terminal import text_picture

ARCHITECTURES = ("bart-base", "betae", "cone", "cqd-beam", "folnet-hybrid", "folnet-text-to-text", "lmpnn",
                 "logical-minilm", "nli-bidaf", "sqe-gru", "tega", "transformer-relative-complex")  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def checked(svg: str) -> list[str]:
    """The texts of a picture that is well formed, accessible, without network, and wide enough for each text."""
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    names = {each.get("id"): each.text for each in root if each.get("id")}
    assert all(names[name] for name in root.get("aria-labelledby", "").split())
    assert "prefers-color-scheme: dark" in svg
    assert svg.count("http") == 1  # the name of SVG itself
    texts = []
    for each in root.iter(f"{SVG}text"):
        text = "".join(each.itertext())
        texts.append(text)
        if each.get("transform") is None:
            share = {None: 0.0, "middle": 0.5, "end": 1.0}[each.get("text-anchor")]
            wide = text_width(text, float(each.get("font-size", 0)), bold=bool(each.get("font-weight")))
            start = float(each.get("x", 0)) - share * wide
            assert start > 0, text
            assert start + wide <= WIDTH + 1, text
    return texts


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_is_drawn(name: str, registry: Registry) -> None:
    spec = load_spec(name)
    shown = contents(spec, registry)
    texts = checked(draw(spec, registry=registry))
    lines = "\n".join(text_picture(shown))
    parts = [*shown.tokens, *shown.pairs, *shown.scopes, *shown.inside, *shown.heads]
    parts += [each for layer in shown.layers for each in (*layer.mixing, *layer.state)]
    for part in parts:
        assert part.plugin in lines
        assert part.name in lines
        assert any(text.startswith(part.name) for text in texts)


@pytest.mark.thorough
def test_every_ready_spec_is_drawn(registry: Registry) -> None:
    for entry in default_catalogue().entries("specs"):
        checked(draw(entry.name, registry=registry))


def test_an_architecture_of_a_stranger_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "peirce-averages" / "src")
    registry = Registry.discover(extra_plugins=["peirce_averages.plugin"])
    dims = {"layers": 2, "unary": 8}
    spec = Spec(name="theirs", architecture="averages", dims=dims, input=InputSpec(vocabulary=20))
    texts = checked(draw(spec, registry=registry))
    assert "architecture averages · module:peirce_averages.plugin" in texts
    assert "2 layers" in texts


def test_layers_are_folded(registry: Registry) -> None:
    """Equal layers are drawn once, a mixed stack as its cycle; a page can show each."""
    hybrid = contents("folnet-hybrid", registry)
    assert [layer.count for layer in hybrid.layers] == [2, 1, 1]
    assert hybrid.cycles == 3
    svg = draw(small_specs.FOLNET, registry=registry)
    assert "2 layers" in checked(svg)
    assert svg.count(">join<") == 1
    page = draw(small_specs.FOLNET, html=True, registry=registry)
    assert page.count(">join<") == 3
    assert "Content-Security-Policy" in page
    assert 'role="button"' in page


def test_arrows_follow_the_typing(registry: Registry) -> None:
    (layer,) = contents(small_specs.FOLNET, registry).layers
    ends = {each.name: ([r[0] for r in each.reads], [w[0] for w in each.writes]) for each in layer.mixing}
    assert ends["join"] == (["B", "U"], ["U"])
    assert ends["assoc"] == (["U", "U"], ["B"])
    assert ends["trans"] == (["B", "B"], ["B"])
    lines = [*text_picture(contents(small_specs.FOLNET, registry))]
    assert any("│──▶" in line and "assoc" in line and "──▶│" in line for line in lines)
    assert any("│◀─▶" in line and "join" in line and "◀──│" in line for line in lines)


def test_a_difference_is_marked(registry: Registry) -> None:
    old = small_specs.FOLNET
    new = old.replace({"model.operators.layer": "jm.ap", "model.dims.layers": 3, "model.positions.0.clip": 5})
    shown = compare_contents(contents(new, registry), contents(evolve(old, name="old"), registry))
    (layer,) = shown.layers
    assert {each.name: each.status for each in (*layer.mixing, *layer.state)} == {
        "join": "", "mu": "", "cjoin": "gone", "assoc": "", "trans": "gone", "prod": "", "bool": "",
    }  # fmt: skip
    assert (layer.count, layer.was) == (3, 2)
    assert shown.pairs[0].changes == ("clip = 5, was 4",)
    assert shown.before == {"layers": "2"}
    texts = checked(draw(new, other=evolve(old, name="old"), registry=registry))
    assert {"− cjoin", "~ distance", "3 layers (was 2)", "clip = 5, was 4"} <= {*texts}
    same = compare_contents(contents(old, registry), contents(old, registry))
    assert not same.before
    assert "~" not in "".join([*text_picture(same)][1:])


def test_two_architectures_are_held_against_each_other(registry: Registry) -> None:
    texts = checked(draw("sqe-lstm", other="folnet-hybrid", registry=registry))
    assert "+ lstm" in texts
    assert "− join" in texts


@pytest.mark.usefixtures("peirce_command")
def test_the_command_draws_specs_and_saved_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peirce.build(small_specs.TRANSFORMER).save(tmp_path / "saved")
    out = tmp_path / "model.html"
    assert run("draw", tmp_path / "saved", "-o", out, "--text", "--diff", "bert-base") == 0
    assert "assoc" in capsys.readouterr().out
    assert "against bert-base" in out.read_text()
    assert spec_of(tmp_path / "saved") == small_specs.TRANSFORMER
    assert run("draw", "tega", "-o", tmp_path / "tega.png") == 0
    assert (tmp_path / "tega.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tega",), "give a file for the picture with -o, or --text"),
        (("tega", "-o", "x.pdf"), "let it end in .svg, .html, .png"),
        (("tega", "-o", "nowhere/x.svg"), "folder nowhere does not exist"),
        (("tegga", "--text"), "Did you mean 'tega'?"),
        (("./none", "--text"), "there is no folder ./none"),
        (("text.txt", "--text"), "no runtime opens .txt files"),
    ],
)
def test_mistakes_are_told(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("no model")
    assert run("draw", *arguments) == 2
    assert told in capsys.readouterr().err


def test_what_a_picture_says_is_escaped(registry: Registry) -> None:
    spec = Spec.from_toml(small_specs.FOLNET.to_toml().replace("small-folnet", 'a<b>&\\"c'), source="a")
    assert any(text.startswith('a<b>&"c') for text in checked(draw(spec, registry=registry)))
    assert "<b>" not in draw(spec, html=True, registry=registry)
