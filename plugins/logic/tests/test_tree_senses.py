"""The sense of a keyword by the tree around it: each rule both ways, and what is left to the most frequent sense."""

from __future__ import annotations

import pytest

from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detection.tree_senses import is_time, sense_by_tree
from peirce_logic.parsers.brackets import Brackets

ENGLISH = read_lexicon()


@pytest.mark.parametrize(
    ("tree", "relation"),
    [
        ("(S (NP It) (VP rained (SBAR (IN as) (S (NP he) (VP spoke)))))", "temporal"),
        ("(S (SBAR (IN As) (S (NP I) (VP (VBD was) (ADJP ill)))) (NP I) (VP slept))", "causal"),
        ("(S (SBAR (IN As) (S (NP I) (VP (VBD was) (VP (VBN told))))) (NP I) (VP slept))", "temporal"),
        ("(S (NP He) (VP (VP sings) (SBAR (IN as) (S (NP I) (VP do)))))", None),
        ("(S (NP He) (VP joined (PP (IN as) (NP a director))))", None),
        ("(S (NP He) (VP is (ADJP (RB as) (JJ tall))))", None),
        ("(S (NP He) (VP ran (ADVP (ADVP (RB so) (RB fast)) (SBAR (IN as) (S (NP he) (VP wished))))))", None),
        ("(S (NP We) (VP stay (SBAR (IN since) (S (NP it) (VP rains)))))", "causal"),
        ("(S (NP We) (VP have (VP slept (SBAR (IN since) (S (NP it) (VP rained))))))", "temporal"),
        ("(S (NP We) (VP slept (PP (IN since) (NP noon))))", "temporal"),
        ("(S (NP He) (VP slept (SBAR (IN while) (S (NP it) (VP rained)))))", "temporal"),
        ("(S (NP He) (VP slept (PP (IN for) (NP (DT a) (NN while))) (. .)))", None),
        ("(S (NP He) (VP lost (PP (IN in) (NP a casino))))", None),
        ("(S (NP He) (VP lost (PP (IN in) (NP the last two weeks))))", "temporal"),
        ("(S (NP He) (VP lost (PP (IN in) (NP (NP a house) (PP (IN of) (NP (CD 1989)))))))", None),
        ("(S He lost in)", "temporal"),
        ("(S (SBAR (IN As) (S (NP (PRP you)) (VP (VBP know)))) (NP I) (VP slept))", None),
        ("(S (NP He) (VP slept (SBAR (IN as) (S (NP it) (VP (MD may) (VP (VB rain)))))))", "causal"),
        ("(S (NP We) (VP have (VP slept (SBAR (IN since) (S (NP it) (VP (VBZ rains)))))))", "causal"),
        (
            "(S (SBAR (IN While) (S (NP it) (VP (VBZ is) (ADJP cold)))) (, ,) (NP we) (VP swim))",
            "comparative",
        ),
        ("(S (SBAR (IN While) (S (NP it) (VP (VBD rained)))) (, ,) (NP we) (VP swam))", "temporal"),
    ],
)
def test_the_tree_tells_what_a_keyword_shows(tree: str, relation: str | None) -> None:
    trees = Brackets().parse(tree).trees
    words = {"as", "since", "while", "in"}
    match = next(m for m in ENGLISH.matches(trees[0].words) if trees[0].words[m.start].lower() in words)
    sense = sense_by_tree(trees, 0, match)
    assert (sense and sense.relation) == relation


def test_what_names_a_time() -> None:
    assert all(map(is_time, ("May", "weeks", "1989", "1990s", "1990\u2019s", "centuries")))
    assert not any(map(is_time, ("casino", "12", "half", "19890")))


@pytest.mark.parametrize(
    ("tree", "relation"),
    [
        ("(S (SBAR (IN If) (S (NP it) (VP rains))) (, ,) (ADVP (RB then)) (NP we) (VP stay))", None),
        ("(S (NP We) (VP slept (PP (IN since) (ADVP (RB then)))))", None),
        ("(S (ADVP (RB Then)) (NP we) (VP slept))", "temporal"),
        ("(S (NP We) (VP (VBP like) (NP tea)))", None),
        ("(S (NP (NP (NNS Files)) (PP (IN like) (NP this))) (VP fail))", "example"),
        ("(NP (NN Chapter) (DT No) (. .) (CD 5))", None),
        ("(S (INTJ (UH No)) (, ,) (NP it) (VP rains))", None),
        ("(S (NP (DT All)) (PP (IN but) (NP one)) (VP came))", None),
        ("(S (NP It) (VP is (RB not) (ADVP (RB yet)) (ADJP cold)))", None),
        ("(S (NP It) (VP is cold) (CC yet) (VP is dry))", "comparative"),
        ("(S (ADVP (RB However) (RB hard)) (NP he) (VP tries))", None),
        ("(S (NP Thanks) (VP (JJ Special) (NP (NNS thanks)) (PP (IN to) (NP Ann))))", None),
        ("(S (NP We) (VP left (NP the day) (ADVP (RB before))) (. .))", None),
        ("(S (NP We) (VP use (NP it) (PP (IN at) (NP (DT the) (JJ same) (NN time)))))", None),
        ("(S (NP (DT some)) (VP are (VP (RB otherwise) (VBN stated))))", None),
        ("(S (SBAR (WRB When) (SQ (VBD did) (NP he) (VP come))) (. ?))", None),
    ],
)
def test_where_other_keywords_show_none(tree: str, relation: str | None) -> None:
    trees = Brackets().parse(tree).trees
    matches = [m for m in ENGLISH.matches(trees[0].words) if str(m.senses[0]) not in ("if", "since", "not")]
    sense = sense_by_tree(trees, 0, matches[0])
    assert (sense and sense.relation) == relation
