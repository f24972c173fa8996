"""Dependency parses as constituents: clauses, verb phrases, subordinate clauses, coordination."""

from __future__ import annotations

import pytest
from peirce_logic.detection.trees import Token, Tree
from peirce_logic.parsers.conversion import Word, tree_of_words


def words(parse: str) -> list[Word]:
    """Words of `text/tag/pos/relation/head`, where the head is a word's number, or its own at the root."""
    found, at = [], 0
    for each in parse.split():
        text, tag, pos, relation, head = each.split("/")
        token = Token(text, at, at + len(text))
        found.append(Word(token=token, head=int(head), relation=relation, tag=tag, pos=pos))
        at = token.end + 1
    return found


def shown(tree: Tree) -> set[str]:
    """The constituents of several words, as their texts."""
    return {" ".join(tree.words[c.start : c.stop]) for c in tree.constituents if c.stop - c.start > 1}


@pytest.mark.parametrize(
    ("parse", "constituents"),
    [
        (
            "We/PRP/PRON/nsubj/1 stay/VBP/VERB/ROOT/1 if/IN/SCONJ/mark/4 it/PRP/PRON/nsubj/4 rains/VBZ/VERB/advcl/1 "
            "././PUNCT/punct/1",
            {"We stay if it rains .", "stay if it rains", "if it rains", "it rains"},
        ),
        (
            "They/PRP/PRON/nsubj/3 did/VBD/AUX/aux/3 n't/RB/PART/neg/3 come/VB/VERB/ROOT/3 home/RB/ADV/advmod/3",
            {"They did n't come home", "did n't come home", "come home"},
        ),
        (
            "But/CC/CCONJ/cc/2 Ann/NNP/PROPN/nsubj/2 sings/VBZ/VERB/ROOT/2 and/CC/CCONJ/cc/2 dances/VBZ/VERB/conj/2",
            {"But Ann sings and dances", "sings and dances"},
        ),
        (
            "Ann/NNP/PROPN/nsubj/1 sings/VBZ/VERB/ROOT/1 and/CC/CCONJ/cc/1 Bob/NNP/PROPN/nsubj/4 "
            "dances/VBZ/VERB/conj/1",
            {"Ann sings and Bob dances", "Ann sings", "Bob dances"},
        ),
        (
            "the/DT/DET/det/1 end/NN/NOUN/ROOT/1 of/IN/ADP/prep/1 the/DT/DET/det/4 day/NN/NOUN/pobj/2",
            {"the end of the day", "the end", "of the day", "the day"},
        ),
    ],
)
def test_shapes(parse: str, constituents: set[str]) -> None:
    tree = tree_of_words(words(parse))
    assert tree.parsed
    assert shown(tree) == constituents


def test_crossing_dependencies_give_a_flat_tree() -> None:
    tree = tree_of_words(words("a/X/X/dep/2 b/X/X/dep/3 c/X/X/ROOT/2 d/X/X/dep/2"))
    assert not tree.parsed
    assert shown(tree) == {"a b c d"}
