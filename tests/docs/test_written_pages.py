"""What is written before the site is built: every part, spec, command and public name has its place there."""

from __future__ import annotations

import ast
import posixpath
import re
import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from code_blocks import FENCE
from shared_folder import ROOT

import peirce
from peirce.commands.main import commands, load_command
from peirce.registry import KINDS, Registry, fields, ready_specs
from peirce_training.experiments import EXPERIMENTS

DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))


@pytest.fixture(scope="module")
def writer() -> Iterator[dict[str, Any]]:
    """The script that writes the pages, as its names."""
    sys.path.insert(0, str(DOCS / "writer"))
    yield runpy.run_path(str(DOCS / "writer" / "__main__.py"))
    sys.path.remove(str(DOCS / "writer"))


@pytest.fixture(scope="module")
def pages(writer: dict[str, Any]) -> dict[str, str]:
    """Every page and picture that is written, by its path."""
    return writer["generated"]()


def test_every_public_name_is_in_the_reference(writer: dict[str, Any], pages: dict[str, str]) -> None:
    grouped = [name for names in import_module("api").GROUPS.values() for name in names]
    assert sorted([*grouped, "__version__"]) == sorted(peirce.__all__)
    for face in import_module("api").FACES:
        page, room = pages[f"reference/api-{face.rpartition('.')[2]}.md"], import_module(face)
        assert {*re.findall(r"^\| \[?`(\w+)`", page, re.M)} == set(room.__all__)
    described = "".join(page for path, page in pages.items() if path.startswith("reference/api"))
    links = re.findall(r"\]\((api[\w/-]*\.md)#(\w+)\)", described)
    assert links
    for path, name in links:
        assert f"## {name}\n" in pages[f"reference/{path}"].lower(), f"{path}#{name}"


def test_every_part_has_a_page_with_its_options(pages: dict[str, str], registry: Registry) -> None:
    for kind in KINDS:
        for entry in registry.entries(kind):
            page = pages[f"reference/{kind}/{entry.name}.md"]
            assert f"({kind}/{entry.name}.md)" in pages["reference/parts.md"]
            assert f"`{entry.plugin}" in page
            assert entry.name in page.partition("```")[2], f"{entry.name}: no line of a spec"
            if kind == "operators":
                assert pages[f"reference/{kind}/{entry.name}.svg"].startswith("<svg")
                assert r"\[" in page, f"{entry.name}: no formula"
            if kind == "heads":
                assert f"- labels: {entry.part.labels.partition('[')[0]}" in page
            classes = [entry.part.Options, *([entry.part.Dims] if kind == "architectures" else [])]
            for options in classes:
                for field in fields(options):
                    assert field["meaning"], f"{entry.name}: no meaning of {field['name']}"
                    assert f"| `{field['name']}` |" in page


@pytest.mark.parametrize(
    ("text", "latex", "rest"),
    [
        (
            "u[h](x) = sum_a K[h](x,a) v[h](a), with K a softmax.",
            r"u_{h}(x)=\sum _{a}\,K_{h}(x,a)\,v_{h}(a)",
            "with K a softmax.",
        ),
        ("score[h](x,y) -= m[h] |y - x|.", r"\operatorname{score}_{h}(x,y)\mathrel{-}=m_{h}|y-x|", ""),
        ("u = q'[r](x) k'[r](a).", r"u=q'_{r}(x)\,k'_{r}(a)", ""),
        ("b_{t-1} = 2 ** (-8 h / n).", r"b_{t-1}=2^{-8\,h/n}", ""),
        ("A class for each token, as in tagging.", "", "A class for each token, as in tagging."),
    ],
)
def test_a_formula_becomes_latex(writer: dict[str, Any], text: str, latex: str, rest: str) -> None:
    assert import_module("formulas").display(text) == (latex, rest)


def test_formulas_within_prose_leave_articles_and_hyphens_alone(writer: dict[str, Any]) -> None:
    said = import_module("formulas").inline("A cross-entropy of a [CLS], `u[h]` and q(x) . k(y) is x's own.")
    assert said == r"A cross-entropy of a \[CLS\], `u[h]` and \(q(x)\cdot k(y)\) is \(x\)'s own."


def test_every_ready_spec_and_experiment_is_in_the_gallery(pages: dict[str, str]) -> None:
    for name in ready_specs():
        assert f"(specs/{name}.md)" in pages["gallery/specs.md"]
        page = pages[f"gallery/specs/{name}.md"]
        assert "- **Size:**" in page
        assert "- **Measured:**" in page
        assert f"peirce summary {name}\n" in page
    drawn = [name for name in ready_specs() if f"gallery/specs/{name}.svg" in pages]
    assert len(drawn) == len(ready_specs())
    for name in (entry.name for entry in Registry.discover(kinds=(EXPERIMENTS,)).entries(EXPERIMENTS)):
        section = pages["gallery/experiments.md"].partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert f"peirce experiments run {name} " in section
        for path in re.findall(r"\]\(([\w/-]+\.svg)\)", section):
            assert f"gallery/{path}" in pages


def test_pictures_of_written_pages_are_what_their_spec_and_tables_give_today(pages: dict[str, str]) -> None:
    drawn = {path: text for path, text in pages.items() if path.startswith("assets/")}
    assert "assets/small.svg" in drawn
    for path, text in drawn.items():
        assert (DOCS / path).read_text(encoding="utf-8") == text, path


def test_every_command_has_a_page(pages: dict[str, str]) -> None:
    for command in commands():
        if any(entry.distribution.startswith("peirce-") for entry in command.entries):
            assert command.help.endswith("."), f"{command.name} has no line of help"
            page = pages[f"reference/commands/{command.words.replace(' ', '-')}.md"]
            for words in _commands_within(load_command(command), f"peirce {command.words}"):
                assert f"```\n{words} " in page, f"no usage of {words}"


def _commands_within(command: Any, words: str) -> Iterator[str]:
    """What a user types for each command that is no group of others."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield words
    for name, one in (nested or {}).items():
        yield from _commands_within(one, f"{words} {name}")


def test_notebooks_are_pages_with_what_they_printed(pages: dict[str, str]) -> None:
    page = pages["notebooks/ask-a-knowledge-graph.md"]
    assert re.search(r"``` \{ .text .output \}\n[^`]*Exact answers: 2 on train", page)
    for path, text in pages.items():
        for link in (
            re.findall(r"\]\(([\w-]+\.png)\)", text)
            if path.startswith("notebooks/") and path[-1] == "d"
            else ()
        ):
            assert f"notebooks/{link}" in pages


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere(
    writer: dict[str, Any], pages: dict[str, str]
) -> None:
    template = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = writer["configuration"](template, pages)
    places = writer["places"]
    texts = places.pages() | {path: page for path, page in pages.items() if path.endswith(".md")}
    for page, text in texts.items():
        assert f": {page}\n" in navigation
        for link in _links(text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            known = target in texts or target in pages or target in places.places()
            assert link.startswith("https://") or known, f"{page}: {link}"


def test_each_question_was_asked_somewhere_and_leads_to_a_section() -> None:
    text = (DOCS / "questions.md").read_text(encoding="utf-8")
    asked = re.findall(r"^- \*\*\[.+?\]\((\S+)\)\*\*(.+?)(?=^- |^## |\Z)", text, re.M | re.S)
    assert len(asked) == len({address for address, _ in asked}) >= 20
    trackers = "huggingface/setfit|huggingface/pytorch-image-models|pykeen/pykeen"
    for address, answer in asked:
        assert re.fullmatch(rf"https://github\.com/({trackers})/issues/\d+", address)
        links = re.findall(r"\]\(([\w./-]+)#?([\w-]*)\)", answer)
        assert links, address
        for path, anchor in links:
            titles = re.findall(r"^#+ (.+)$", (DOCS / path).read_text(encoding="utf-8"), re.M)
            headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert not anchor or anchor in headings, f"{path}#{anchor}"


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", *(f"examples/{path.parent.name}/README.md" for path in EXAMPLES)]
)
def test_links_of_pages_that_the_site_leaves_out_lead_somewhere(page: str) -> None:
    for link in _links((ROOT / page).read_text(encoding="utf-8")):
        assert link.startswith("https://") or ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def _links(text: str) -> list[str]:
    """The targets of a page's links, without anchors and those within the page."""
    return re.findall(r"\]\(([^)#\s]+)", re.sub(r"`(?:[^`\n]|\n(?!\n))*`", "", FENCE.sub("", text)))


def test_every_test_of_a_stranger_stands_on_the_page_with_its_report(pages: dict[str, str]) -> None:
    strangers, page = import_module("strangers"), pages["results/strangers.md"]
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in strangers.TESTS.glob("test_*.py")]
    tests = [
        node for module in modules for node in module.body if getattr(node, "name", "").startswith("test_")
    ]
    reports = [report for module in modules for report in strangers.reports(module)]
    assert len(reports) >= len(tests) > 0
    for address, *_ in reports:
        assert address.startswith("https://")
        assert f"([report]({address}))" in page
