"""Detection and mapping: the paper's worked example, a literal transcription of Algorithm 1, and the command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import exit_code
from hypothesis import given
from hypothesis import strategies as st

from peirce.errors import InputError
from peirce_logic.cli import PIECE, _split_text
from peirce_logic.detection.algorithm import detect
from peirce_logic.detection.display import as_object
from peirce_logic.detection.lexicon import Lexicon, read_lexicon
from peirce_logic.detection.trees import read_brackets
from peirce_logic.ids import logical_ids
from peirce_logic.parsers.brackets import Brackets
from peirce_logic.relations import LOGICAL_IDS

WORKED = (
    "(S (CC But) (NP (PRP I)) (VP (VBP try) (ADVP (RB very) (RB hard)) (S (RB not) (VP (TO to) (VP (VB go) "
    "(NP (DT that) (NN way))))) (SBAR (IN because) (S (NP (PRP it)) (VP (MD would) (VP (VB be) (ADJP (RB too) "
    "(JJ easy)) (PP (IN for) (NP (PRP them)))))))) (. .))"
)
ENGLISH = read_lexicon()


def found(trees: str, lexicon: Lexicon = ENGLISH) -> list[dict[str, Any]]:
    parsed = Brackets().parse(trees)
    return [as_object(each, parsed.text) for each in detect(parsed.trees, lexicon)]


def test_the_worked_example() -> None:
    """Figures 3 and 4."""
    whole = "I try very hard not to go that way because it would be too easy for them ."
    wanted = [
        ("comparative", "But", None, whole),
        ("negation", "not", "to go that way", None),
        ("causal", "because", "try very hard not to go that way", "it would be too easy for them"),
    ]
    keys = ("sentence", "relation", "keyword", "alpha", "beta")
    assert found(WORKED) == [dict(zip(keys, (0, *each), strict=True)) for each in wanted]


def test_its_table_of_ids() -> None:
    """Table 1: 18 tokens by 3 levels."""
    parsed = Brackets().parse(WORKED)
    offsets = [(token.start, token.end) for token in parsed.trees[0].tokens][:18]
    rows = [
        ("comparative", "k" + 17 * "b"),
        ("causal", "--aaaaaaaakbbbbbbb"),
        ("negation", "-----kaaaa--------"),
    ]
    roles = {"k": "key", "a": "alpha", "b": "beta"}
    wanted = [[LOGICAL_IDS[name, roles[each]] if each in roles else 0 for each in row] for name, row in rows]
    relations = detect(parsed.trees, ENGLISH)
    assert logical_ids(relations, offsets, 3).tolist() == wanted
    assert logical_ids(relations, [*offsets, (0, 0)], 5)[3:].tolist() == [[0] * 19] * 2
    assert logical_ids(relations, offsets, 2).tolist() == wanted[:2]
    pieces = [(start + i, start + i + 1) for start, end in offsets for i in range(end - start)]
    letters = logical_ids(relations, pieces, 3)
    words = [i for i, (start, end) in enumerate(offsets) for _ in range(end - start)]
    assert letters.tolist() == [[row[i] for i in words] for row in wanted]


@pytest.mark.parametrize(
    ("tree", "keyword", "alpha", "beta"),
    [
        (
            "(S (NP We) (VP stay (ADVP (ADVP as long) (SBAR as (S (NP it) (VP rains))))))",
            "as long as", "stay", "it rains",
        ),
        ("(S (NP (NP French) (CONJP as well as) (NP German)))", "as well as", "French", "German"),
        ("(S (NP Some) (PRN (, ,) (PP for example) (NP Ann) (, ,)) (VP came))", "for example", "Ann", None),
        (
            "(S (S (NP It) (VP was cold)) (, ,) (CC but) (S (NP he) (VP came)) (. .))",
            "but", "It was cold", "he came .",
        ),
        ("(S (CC But) (, ,) (NP he) (VP came) (. .))", "But", None, "he came ."),
        ("(S (PP In (NP (NNP May))) (, ,) (NP it) (VP rained))", "In", "it rained", "May"),
        ("(S (NP We) (VP stay (SBAR if (S (NP it) (VP rains))) .))", "if", "stay", "it rains"),
        ("(S (NP They) (VP did n't (VP come)))", "n't", "did ... come", None),
        ("(S (NP They) (VP did n\u2019t (VP come)))", "n\u2019t", "did ... come", None),
    ],
)  # fmt: skip
def test_phrases_and_clitics(tree: str, keyword: str, alpha: str, beta: str | None) -> None:
    (only,) = found(tree)
    assert (only["keyword"], only["alpha"], only["beta"]) == (keyword, alpha, beta)


def test_traces_and_roots_are_no_constituents() -> None:
    plain = "(S (CC But) (NP it) (VP rained))"
    assert found("( (S (NP-SBJ (-NONE- *)) (CC But) (NP it) (VP rained)))") == found(plain)
    assert found(f"(ROOT {plain})")[0]["alpha"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(S I)\n(S (NP I)", "line 2: the tree that begins here does not end: 1 bracket"),
        ("(S I))", "line 1: closes nothing"),
        ("(S I)\nrun", "line 2: 'run' is outside of a tree"),
        ("(S " * 600, "a tree has more than 500 levels"),
    ],
)
def test_what_is_no_tree_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        list(read_brackets(text))


# --- a literal transcription of Algorithm 1 on nested lists ---

Node = list[Any]  # [label, child, ...], a child being a node or a word


def words(node: Node | str) -> list[str]:
    return [node] if isinstance(node, str) else [word for child in node[1:] for word in words(child)]


def literal(tree: Node, before: list[str]) -> list[tuple[str, list[list[str]], list[list[str]]]]:
    """Lines 4 to 22; single words alone."""
    found = []

    def sides(node: Node, child: Node) -> list[list[str]]:
        place = next(i for i, each in enumerate(node) if each is child)
        return [[word for each in own for word in words(each)] for own in (node[1:place], node[place + 1 :])]

    def kept(*spans: list[str]) -> list[list[str]]:
        return [span for span in spans if span]

    def visit(node: Node, parents: list[Node]) -> None:
        text = " ".join(words(node))
        if text in KINDS and parents:
            left, right = sides(parents[-1], node)
            outside = sides(parents[-2], parents[-1]) if len(parents) > 1 else [before]
            alpha, beta = {
                "unary": ((left, right), ()), "intrinsic": ((left,), (right,)), "extrinsic": (outside, (left, right)),
            }[KINDS[text]]  # fmt: skip
            found.append((text, kept(*alpha), kept(*beta)))
        for child in node[1:]:
            if isinstance(child, list):
                visit(child, [*parents, node])

    visit(tree, [])
    return found


KINDS = {"not": "unary", "and": "intrinsic", "or": "intrinsic", "because": "extrinsic", "but": "extrinsic"}
leaves = st.sampled_from(["he", "ran", "far", *KINDS]).map(lambda word: ["X", word])
trees = st.recursive(
    leaves, lambda child: st.lists(child, min_size=2, max_size=4).map(lambda c: ["X", *c]), max_leaves=12
)


def brackets(node: Node | str) -> str:
    return node if isinstance(node, str) else f"({' '.join([node[0], *map(brackets, node[1:])])})"


@given(st.lists(trees.filter(lambda tree: isinstance(tree[1], list)), min_size=1, max_size=3))
def test_it_is_algorithm_1(sentences: list[Node]) -> None:
    parsed = Brackets().parse(" ".join(map(brackets, sentences)))
    relations = detect(parsed.trees, ENGLISH)

    def pieces(spans: Any) -> list[list[str]]:
        return [parsed.text[start:end].split() for start, end in spans]

    wanted = []
    for i, tree in enumerate(sentences):
        before = words(sentences[i - 1]) if i else []
        wanted += [(i, *each) for each in literal(tree, before)]
    got = [(r.sentence, r.keyword, pieces(r.alpha), pieces(r.beta)) for r in relations]
    assert got == wanted


# --- the lexicon ---


def test_every_keyword_has_a_kind_and_an_example() -> None:
    assert len(ENGLISH.keywords) == 78
    for keyword in ENGLISH.keywords:
        assert ENGLISH.senses(str(keyword))
        assert str(keyword).split()[0] in keyword.example.lower()


def test_a_lexicon_is_extended_or_replaced(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"

    def lexicon(text: str) -> Lexicon:
        own.write_text(text, encoding="utf-8")
        return read_lexicon(own)

    longer = lexicon('extends = "english"\n[causal]\nremove = ["because"]\nextrinsic = ["weil"]\n')
    assert not longer.senses("because")
    assert longer.senses("Weil")[0].kind == "extrinsic"
    tea = lexicon('[disjunction]\nintrinsic = [["oder", "Tee oder Kaffee."]]\n')
    (only,) = found("(S (NP Tee) (CC oder) (NP Kaffee))", tea)
    assert (only["relation"], only["alpha"], only["beta"]) == ("disjunction", "Tee", "Kaffee")
    # Case and the kind of an apostrophe do not matter.
    tree = "(S (NP They) (VP did n't (VP come)))"
    negation = lexicon("[negation]\nunary = ['N\u2019T']\norder = { 'n\u2019t' = 3 }\n")
    assert [each["keyword"] for each in found(tree, negation)] == ["n't"]
    assert [sense.order for sense in negation.senses("n\u2019t")] == [3]
    assert not found(tree, lexicon("extends = 'english'\n[negation]\nremove = ['n\u2019t']\n"))
    later = lexicon("extends = 'english'\n[temporal]\norder = { since = 9 }\n")
    assert [sense.relation for sense in later.senses("since")] == ["causal", "temporal"]
    with pytest.raises(InputError, match=r"there is no lexicon .*gone.toml; name a TOML file of keywords"):
        read_lexicon(tmp_path / "gone.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[casual]\nextrinsic = ['so']", "unknown relation 'casual'. Did you mean 'causal'"),
        ("[causal]\nextern = ['so']", r"\[causal\] unknown key 'extern'"),
        ("[causal]\nunary = ['so']", r"\[causal\] joins 2 span"),
        ("causal", "cannot be read"),
        ("extends = 'own.toml'", "extends itself"),
        ("[causal]\nextrinsic = [['so', 'a', 'b']]", "one example"),
        ("[causal]\nextrinsic = ['so']\norder = { se = 1 }", "order: unknown keyword 'se'"),
        ("extends = 'english'\n[causal]\nremove = ['becuse']", "remove: unknown keyword 'becuse'"),
        ("[causal]\nextrinsic = ['so']\nintrinsic = ['So']", "'so' as extrinsic and as intrinsic"),
    ],
)
def test_what_is_no_lexicon_is_refused(text: str, said: str, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(text)
    with pytest.raises(InputError, match=said):
        read_lexicon(own)


# --- the command ---


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trees = tmp_path / "trees.txt"
    trees.write_text(WORKED)
    how = ("--parser", "brackets")
    assert exit_code("logic", "detect", trees, *how, "--jsonl") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == found(WORKED)
    assert exit_code("logic", "stats", trees, *how, "--json") == 0
    counted = json.loads(capsys.readouterr().out)["relations"]
    assert {name: n for name, n in counted.items() if n} == {"negation": 1, "comparative": 1, "causal": 1}


def test_several_texts_are_told_apart_kept_and_counted_in_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "relations.sqlite"
    given = ("logic", "detect", WORKED, "(S (NP Ann) (CC and) (NP Bob))", "--parser", "brackets", "--jsonl")
    for processes in (1, 2):
        assert exit_code(*given, "--cache", cache, "--processes", processes) == 0
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [each.pop("text") for each in shown] == [0, 0, 0, 1]
        assert shown[:3] == found(WORKED)
    monkeypatch.setattr(Brackets, "parse", None)  # what is kept is not parsed again
    assert exit_code("logic", "detect", WORKED, "--parser", "brackets", "--cache", cache) == 0
    assert capsys.readouterr().out.startswith("But I try very hard")


def test_a_file_is_counted_in_parts() -> None:
    for text, end in (("One two three.\n\n" * 10_000, "three."), ("If it rains, we stay. " * 9000, "stay.")):
        parts = list(_split_text(text))
        assert "".join(parts) == text
        assert max(map(len, parts)) <= PIECE
        assert all(part.rstrip().endswith(end) for part in parts)
    assert all(part.endswith("word") for part in _split_text("word " * 20_000 + "word"))
    assert list(_split_text("x" * (PIECE + 1))) == ["x" * PIECE, "x"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.txt"], "there is no file no.txt"),
        (["."], "it is a folder"),
        (["(S x)", "--json", "--jsonl"], "--json and --jsonl"),
        (["--parser", "brackets", "--", "-x if y"], "the text, line 1: '-x' is outside of a tree"),
        (["(S x)", "--parser", "bracket"], "unknown parser 'bracket'. Did you mean 'brackets'"),
    ],
)
def test_it_refuses_in_a_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("logic", "detect", *arguments) == 2
    assert said in capsys.readouterr().err


def test_files_that_hold_no_text_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, packed = tmp_path / "bad.txt", tmp_path / "trees.gz"
    for content, said in ((b"if \xff it", " is not UTF-8"), (b"\n(S a))", ": line 2: closes")):
        file.write_bytes(content)
        for command in ("detect", "stats"):
            assert exit_code("logic", command, file, "--parser", "brackets") == 2
            assert f"{file}{said}" in capsys.readouterr().err
    packed.write_bytes(gzip.compress(WORKED.encode()))
    assert exit_code("logic", "detect", packed, "--parser", "brackets", "--jsonl") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
