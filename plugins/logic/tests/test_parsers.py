"""Parsers: what plug-ins announce, and what each makes of what its library or program gives it."""

from __future__ import annotations

import shutil
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
from peirce_logic.detection.trees import Token, Tree, flat, read_brackets, tree_of, tree_over
from peirce_logic.parsers import parser_of
from peirce_logic.parsers.link_grammar import LinkGrammar, sentences, tree_of_printed
from peirce_logic.parsers.parser import Parsed, Parser
from peirce_logic.parsers.stanza import tree_of_sentence

TEXT = "We stay if it rains. They didn't come."
LIBRARIES = ("spacy", "benepar", "stanza", "link-grammar")
PATHS = ("benepar:./model", "benepar:a/b", "stanza:../en", "benepar:..")


class Words(Parser):
    """A parser of somebody else's."""

    name = "words"

    def parse(self, text: str) -> Parsed:
        return Parsed(text, (flat([Token(text, 0, len(text))]),))


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
        ("gone", "the parser 'gone' of module:lab, json:Gone, cannot be imported"),
        ("none", "the parser 'none' of module:lab, .* is no Parser of peirce_logic"),
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


@pytest.mark.skipif(shutil.which("link-parser") is None, reason="link-parser is not installed")
def test_link_grammar() -> None:
    parsed = LinkGrammar().parse(TEXT + " Colourless of of.")
    assert [tree.words for tree in parsed.trees[:2]] == [
        ["We", "stay", "if", "it", "rains", "."],
        ["They", "didn't", "come", "."],
    ]
    assert "if it rains" in shown(parsed.trees[0])
    # What begins a comment and a command of the program's own.
    parsed = LinkGrammar().parse("% of them came.\n\n!They left.\n\nWe stay.")
    assert [tree.parsed for tree in parsed.trees] == [False, False, True]
    assert "link-grammar-" in LinkGrammar().identity


@pytest.mark.parametrize(
    ("text", "printed", "constituents"),
    [  # as link-parser 5.12 prints them
        (
            "We stay if it rains.",
            "(S (NP we) (VP stay.v) (SBAR if.r (S (NP it) (VP rains.v))) .)",
            {"We stay if it rains .", "if it rains", "it rains"},
        ),
        ("It's 3.5 dollars!", "(S (NP it) (VP 's.v (NP 3.5{!} dollars.c)) !)",
         {"It 's 3.5 dollars !", "'s 3.5 dollars", "3.5 dollars"}),
        ("(He left early.)", "(S {{} (S (NP he) (VP left.v-d (ADVP early.e))) . {}})",
         {"( He left early . )", "He left early", "left early"}),
        ("Mr. Smith came", "(S (NP Mr..x Smith.m) (VP came.v-d))", {"Mr. Smith came", "Mr. Smith"}),
    ],
)  # fmt: skip
def test_what_link_parser_prints(text: str, printed: str, constituents: set[str]) -> None:
    tree = tree_of_printed(printed, f"Yes. {text}", 5, 5 + len(text))
    assert tree.parsed
    assert shown(tree) == constituents
    assert all(f"Yes. {text}"[token.start : token.end] == token.text for token in tree.tokens)


def test_what_it_does_not_parse_is_flat() -> None:
    for printed in (None, "(S (NP we)", "(S (NP they) (VP stay.v))", "(S we.r)"):
        tree = tree_of_printed(printed, "We stay.", 0, 8)
        assert (tree.parsed, tree.words) == (False, ["We", "stay", "."])


def test_sentences() -> None:
    text = 'Mr. A. Smith came. "Why?" he said.  He left\n\nat 3.5 o\'clock! Yes'
    assert [text[start:end] for start, end in sentences(text)] == [
        "Mr. A. Smith came.", '"Why?" he said.', "He left", "at 3.5 o'clock!", "Yes",
    ]  # fmt: skip


def test_a_tree_over_given_tokens() -> None:
    (nested,) = read_brackets("(ROOT (S (NP (PRP It)) (VP (VBZ is) (RB n't))))")
    given = [Token("It", 4, 6), Token("is", 7, 9), Token("n't", 9, 12)]
    assert shown(tree_of(nested, given=given) or flat([])) == {"It is n't", "is n't"}
    assert not (tree_of(nested, given=given[:2]) or flat([])).parsed
    for printed in ("", "(S It", "(" * 600 + "It is n't" + ")" * 600):  # what cannot be read is flat
        assert tree_over(printed, given, "a tree") == flat(given)


def test_stanza_gives_words_of_one_token_its_characters() -> None:
    doc = pytest.importorskip("stanza.models.common.doc")
    tree_reader = pytest.importorskip("stanza.models.constituency.tree_reader")
    words = [
        {"id": (1,), "text": "It", "start_char": 4, "end_char": 6},
        {"id": (2, 3), "text": "isn't", "start_char": 7, "end_char": 12},
        {"id": (2,), "text": "is"},
        {"id": (3,), "text": "n't"},
    ]
    (sentence,) = doc.Document([words], text="Yes It isn't").sentences
    (sentence.constituency,) = tree_reader.read_trees("(ROOT (S (NP (PRP It)) (VP (VBZ is) (RB n't))))")
    tree = tree_of_sentence(sentence)
    assert shown(tree) == {"It is n't", "is n't"}
    assert [token[1:] for token in tree.tokens] == [(4, 6), (7, 12), (7, 12)]
