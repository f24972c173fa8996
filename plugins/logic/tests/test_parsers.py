"""Parsers: what plug-ins announce, and what each makes of what its library or program gives it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

import pytest

from peirce import hookimpl
from peirce.errors import InputError, RegistryError, TaskError
from peirce.registry import Registry
from peirce_logic.detection.algorithm import detect
from peirce_logic.detection.display import as_object
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detection.trees import Token, Tree, flat_tree, read_brackets, tree_of, tree_over
from peirce_logic.parsers import parser_of
from peirce_logic.parsers.parser import Parsed, Parser

TEXT = "We stay if it rains. They didn't come."
LIBRARIES = ("spacy", "benepar")
PATHS = ("benepar:./model", "benepar:a/b", "benepar:../en", "benepar:..")


class Words(Parser):
    """A parser of somebody else's."""

    name = "words"

    def parse(self, text: str) -> Parsed:
        return Parsed(text, (flat_tree([Token(text, 0, len(text))]),))


def shown(tree: Tree) -> set[str]:
    return {" ".join(tree.words[c.start : c.stop]) for c in tree.constituents if c.stop - c.start > 1}


def test_a_plugin_announces_a_parser() -> None:
    plugin = ModuleType("lab")
    plugin.register_parsers = hookimpl(  # type: ignore[attr-defined]
        lambda: {"words": f"{__name__}:Words", "gone": "json:Gone", "none": "json:JSONDecoder"}
    )
    catalogue = Registry.of(plugin)
    made = parser_of("words:big", catalogue)
    assert (made.model, made.parse("a b").failed) == ("big", 1)
    for name, said in (
        ("gone", "'gone' of module:lab, json:Gone, cannot be imported"),
        ("none", "'none' of module:lab, .* is not a Parser"),
        ("word", "unknown parser 'word'. Did you mean 'words'"),
    ):
        with pytest.raises(RegistryError, match=said):
            parser_of(name, catalogue)


@pytest.mark.parametrize(
    ("name", "said"),
    [  # the library, or where it is here, its model
        *((f"{name}:no_such_model", f"the parser '{name}' needs .*|no_such_model") for name in LIBRARIES),
        ("brackets:x", r"has no model 'x'"),
        *((name, r"by the names under which they are installed, and .* is a path") for name in PATHS),
    ],
)
def test_what_is_not_installed_is_said_with_what_to_run_and_a_path_is_no_model(name: str, said: str) -> None:
    with pytest.raises((TaskError, InputError), match=said):
        parser_of(name).parse(TEXT)


@pytest.mark.skipif(find_spec("spacy") is None, reason="spacy is not installed")
def test_spacy() -> None:
    try:
        parser = parser_of("spacy")
    except TaskError as error:
        pytest.skip(str(error))
    found = [as_object(each, TEXT) for each in detect(parser.parse(TEXT).trees, read_lexicon())]
    assert [(each["keyword"], each["alpha"], each["beta"]) for each in found] == [
        ("if", "stay", "it rains"), ("n't", "did ... come", None),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"has 1,000,001 characters, and spaCy reads 1,000,000 at once"):
        parser.parse("x" * 1_000_001)
    with pytest.raises(TaskError, match=r"unknown spaCy model .*Name one of those, or install it"):
        parser_of("spacy:this")
    assert "this" not in sys.modules  # what is no model of spaCy is not imported


def test_a_tree_over_given_tokens() -> None:
    (nested,) = read_brackets("(ROOT (S (NP (PRP It)) (VP (VBZ is) (RB n't))))")
    given = [Token("It", 4, 6), Token("is", 7, 9), Token("n't", 9, 12)]
    assert shown(tree_of(nested, given=given) or flat_tree([])) == {"It is n't", "is n't"}
    assert not (tree_of(nested, given=given[:2]) or flat_tree([])).parsed
    for printed in ("", "(S It", "(" * 600 + "It is n't" + ")" * 600):  # what cannot be read is flat
        assert tree_over(printed, given, "a tree") == flat_tree(given)
