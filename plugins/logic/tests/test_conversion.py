"""Dependency parses as constituents: clauses, verb phrases, subordinate clauses, coordination."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


SHAPES = """
We/PRP/PRON/nsubj/1 stay/VBP/VERB/ROOT/1 if/IN/SCONJ/mark/4 it/PRP/PRON/nsubj/4 rains/VBZ/VERB/advcl/1
././PUNCT/punct/1
stay if it rains | if it rains | it rains

I/PRP/PRON/nsubj/1 try/VBP/VERB/ROOT/1 not/RB/PART/neg/4 to/TO/PART/aux/4 go/VB/VERB/xcomp/1 because/IN/SCONJ/mark/7
it/PRP/PRON/nsubj/7 rains/VBZ/VERB/advcl/4
try not to go because it rains | not to go | to go | because it rains | it rains

They/PRP/PRON/nsubj/3 did/VBD/AUX/aux/3 n't/RB/PART/neg/3 come/VB/VERB/ROOT/3 home/RB/ADV/advmod/3
did n't come home | come home

But/CC/CCONJ/cc/2 Ann/NNP/PROPN/nsubj/2 sings/VBZ/VERB/ROOT/2 and/CC/CCONJ/cc/2 dances/VBZ/VERB/conj/2
sings and dances

Ann/NNP/PROPN/nsubj/1 sings/VBZ/VERB/ROOT/1 and/CC/CCONJ/cc/1 Bob/NNP/PROPN/nsubj/4 dances/VBZ/VERB/conj/1
Bob dances | Ann sings

the/DT/DET/det/1 end/NN/NOUN/ROOT/1 of/IN/ADP/prep/1 the/DT/DET/det/4 day/NN/NOUN/pobj/2
of the day | the day | the end

It/PRP/PRON/nsubjpass/2 was/VBD/AUX/auxpass/2 used/VBN/VERB/ROOT/2 and/CC/CCONJ/cc/2 sold/VBN/VERB/conj/2
was used and sold | used and sold

the/DT/DET/det/4 sales/NNS/NOUN/nmod/4 and/CC/CCONJ/cc/1 marketing/NN/NOUN/conj/1 arm/NN/NOUN/ROOT/4
-

go/VB/VERB/ROOT/0 only/RB/ADV/advmod/2 when/WRB/SCONJ/advmod/4 it/PRP/PRON/nsubj/4 rains/VBZ/VERB/advcl/0
only when it rains | it rains

go/VB/VERB/ROOT/0 if/IN/SCONJ/mark/3 Ann/NNP/PROPN/nsubj/3 sings/VBZ/VERB/advcl/0 and/CC/CCONJ/cc/3
Bob/NNP/PROPN/nsubj/6 dances/VBZ/VERB/conj/3
if Ann sings and Bob dances | Ann sings and Bob dances | Bob dances | Ann sings

In/IN/ADP/prep/4 May/NNP/PROPN/pobj/0 ,/,/PUNCT/punct/4 Ann/NNP/PROPN/nsubj/4 sang/VBD/VERB/ROOT/4 and/CC/CCONJ/cc/4
Bob/NNP/PROPN/nsubj/7 danced/VBD/VERB/conj/4
Bob danced | Ann sang | In May

go/VB/VERB/ROOT/0 if/IN/SCONJ/mark/3 Ann/NNP/PROPN/nsubj/3 sings/VBZ/VERB/advcl/0 or/CC/CCONJ/cc/3
if/IN/SCONJ/mark/7 Bob/NNP/PROPN/nsubj/7 dances/VBZ/VERB/conj/3
if Ann sings or if Bob dances | if Ann sings | Ann sings | if Bob dances | Bob dances

We/PRP/PRON/nsubj/1 see/VBP/VERB/ROOT/1 the/DT/DET/det/3 sign/NN/NOUN/dobj/1 as/IN/ADP/prep/3 proof/NN/NOUN/pobj/4
see the sign as proof | the sign | as proof

He/PRP/PRON/nsubj/1 left/VBD/VERB/ROOT/1 his/PRP$/PRON/poss/3 post/NN/NOUN/dobj/1 as/IN/ADP/prep/3 king/NN/NOUN/pobj/4
left his post as king | his post as king | his post | as king

They/PRP/PRON/nsubj/2 will/MD/AUX/aux/2 stay/VB/VERB/ROOT/2 rather/RB/ADV/advmod/4 than/IN/CCONJ/cc/2
go/VB/VERB/conj/2
will stay rather than go | stay rather than go

It/PRP/PRON/nsubj/1 fell/VBD/VERB/ROOT/1 until/IN/ADP/prep/1 May/NNP/PROPN/pobj/2 ,/,/PUNCT/punct/1
when/WRB/SCONJ/advmod/7 we/PRP/PRON/nsubj/7 sold/VBD/VERB/advcl/1
fell until May , when we sold | until May , when we sold | May , when we sold | when we sold | we sold

It/PRP/PRON/nsubj/1 fell/VBD/VERB/ROOT/1 in/IN/ADP/prep/1 May/NNP/PROPN/pobj/2 when/WRB/SCONJ/advmod/6
we/PRP/PRON/nsubj/6 sold/VBD/VERB/advcl/1
fell in May when we sold | when we sold | we sold | in May

go/VB/VERB/ROOT/0 without/IN/ADP/prep/0 a/DT/DET/det/3 coat/NN/NOUN/pobj/1 and/CC/CCONJ/cc/0 without/IN/ADP/conj/0
tea/NN/NOUN/pobj/5
without a coat and without tea | without a coat | a coat | without tea

use/VB/VERB/ROOT/0 it/PRP/PRON/dobj/0 when/WRB/SCONJ/advmod/3 free/JJ/ADJ/advcl/0 and/CC/CCONJ/cc/3 go/VB/VERB/conj/3
use it when free | when free

If/IN/SCONJ/mark/2 it/PRP/PRON/nsubj/2 rains/VBZ/VERB/advcl/8 or/CC/CCONJ/cc/2 if/IN/SCONJ/mark/6 it/PRP/PRON/nsubj/6
snows/VBZ/VERB/advcl/8 we/PRP/PRON/nsubj/8 stay/VBP/VERB/ROOT/8
If it rains or if it snows | If it rains | it rains | if it snows | it snows

see/VB/VERB/ROOT/0 a/DT/DET/det/2 cat/NN/NOUN/dobj/0 or/CC/CCONJ/cc/2 dog/NN/NOUN/conj/2 of/IN/ADP/prep/4
hers/PRP/PRON/pobj/5
a cat or dog of hers | a cat or dog | a cat | of hers

take/VB/VERB/ROOT/0 either/CC/CCONJ/preconj/2 tea/NN/NOUN/dobj/0 or/CC/CCONJ/cc/2 coffee/NN/NOUN/conj/2
either tea or coffee

ask/VB/VERB/ROOT/0 a/DT/DET/det/2 man/NN/NOUN/dobj/0 in/IN/ADP/prep/2 case/NN/NOUN/pobj/3 of/IN/ADP/prep/4
rain/NN/NOUN/pobj/5
a man | in case of rain | case of rain | of rain
"""
"""Dependency parses, and below each its constituents of several words but for the sentence."""


@pytest.mark.parametrize("shape", SHAPES.strip().split("\n\n"))
def test_shapes(shape: str) -> None:
    *parse, constituents = shape.splitlines()
    tree = tree_of_words(words(" ".join(parse)))
    assert tree.parsed
    assert shown(tree) - {" ".join(tree.words)} == {*constituents.split(" | ")} - {"-"}


def test_dependencies_that_cross_and_sentences_with_two_roots() -> None:
    crossing = tree_of_words(words("a/X/X/dep/2 b/X/X/dep/3 c/X/X/ROOT/2 d/X/X/dep/2"))
    assert crossing.parsed
    assert shown(crossing) == {"a b c d"}
    assert not tree_of_words(words("a/X/X/ROOT/0 b/X/X/ROOT/1")).parsed


RELATIONS = ["conj", "cc", "punct", "nsubj", "aux", "prep", "advcl", "mark", "dobj", "amod"]
TAGS = ["VERB", "NOUN", "ADP", "ADV", "ADJ", "CCONJ"]


@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_every_dependency_tree_keeps_its_words(count: int, drawn: Any) -> None:
    """Each word once, in its place, whatever depends on what."""
    places = drawn.sample(range(count), count)
    heads = {place: places[drawn.randrange(max(i, 1))] for i, place in enumerate(places)}
    each = [f"w/X/{drawn.choice(TAGS)}/{drawn.choice(RELATIONS)}/{head}" for _, head in sorted(heads.items())]
    tree = tree_of_words(words(" ".join(each)))
    assert {c.start for c in tree.constituents if c.stop - c.start == 1} == set(range(count))


def test_what_nests_too_deep_is_flat() -> None:
    many = [f"w{i}/NN/NOUN/{'conj' if i else 'ROOT'}/{max(i - 1, 0)}" for i in range(400)]
    tree = tree_of_words(words(" ".join(many)))
    assert not tree.parsed
    assert len(tree.words) == 400
