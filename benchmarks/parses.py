"""How near a parser comes to gold trees: brackets, and the relations that Algorithm 1 finds on them.

The trees are Penn-style brackets, plain or gzipped; none ship with Peirce. A parser gets the trees' words, joined by
spaces, as its text; spaCy gets them as its tokens.

python benchmarks/parses.py FILE [--parser NAME ...] [--trees N] [--skip N] [--errors KIND]
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
from collections import Counter
from itertools import islice
from pathlib import Path

from measuring import record

from peirce_logic.detection.algorithm import Relation, detect
from peirce_logic.detection.lexicon import read_lexicon
from peirce_logic.detection.tree_senses import sense_by_tree
from peirce_logic.detection.trees import Token, Tree, flat_tree, read_brackets, tree_of
from peirce_logic.parsers import parser_of
from peirce_logic.parsers.conversion import tree_of_words
from peirce_logic.parsers.parser import Parser
from peirce_logic.parsers.spacy import Spacy, words_of

KINDS = ("unary", "intrinsic", "extrinsic")
EXACT, WITHOUT = "extrinsic, with punctuation", 'extrinsic, without "in"'
ATTACHED = "extrinsic, attached as in the gold tree"
SENSED = "extrinsic, of keywords that show a relation"
HALVES = ("extrinsic, first tree and every second", "extrinsic, the others")
"""spaCy's conversion was developed on the first half."""
STANDS = (
    (("VP",), ("VP", "VB", "MD", "TO"), False),
    (("S", "SINV", "SQ"), ("VP", "S"), False),
    (("SBAR", "SBARQ"), ("S",), False),
    (("PP", "WHPP", "X"), ("",), False),
    (("NP", "WHNP", "NX", "QP", "NAC"), ("NP", "QP", "NX", "NN", "CD", "PRP", "$", "DT", "JJ", "VBG"), True),
    (("ADJP", "ADVP"), ("JJ", "RB", "AD", "VB"), True),
)
"""Of some constituents, the labels of what may stand for them, best first, and whether the last such one does."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--parser", action="append", help="spacy if absent; repeatable")
    parser.add_argument("--trees", type=int, default=400)
    parser.add_argument("--skip", type=int, default=0, help="how many trees are passed over first")
    parser.add_argument("--errors", choices=KINDS, help="print the relations of a kind that differ")
    options = parser.parse_args()
    opened = gzip.open if options.file.suffix == ".gz" else open
    with opened(options.file, "rt", encoding="utf-8") as file:
        read = read_brackets(file.read(), str(options.file))
        trees = (tree for nested in read if (tree := tree_of(nested)) is not None and len(tree.tokens) > 1)
        gold = list(islice(trees, options.skip, options.skip + options.trees))
    record(
        "parses",
        [row for name in options.parser or ["spacy"] for row in compared(name, gold, options.errors)],
    )


def compared(name: str, gold: list[Tree], errors: str | None) -> list[dict[str, object]]:
    """The rows of a parser; relations of the kind `errors` that differ are printed."""
    lexicon, made = read_lexicon(), parser_of(name)
    parse(made, gold[0])  # which loads its model
    begin = cpu_time()
    parsed = [parse(made, tree) for tree in gold]
    took = cpu_time() - begin
    counts = {
        kind: Counter[str]()
        for kind in ("brackets", "keywords", *KINDS, *HALVES, EXACT, WITHOUT, ATTACHED, SENSED)
    }
    for number, (right, got) in enumerate(zip(gold, parsed, strict=True)):
        add(counts["brackets"], brackets(right), brackets(got))
        theirs, ours = detect([right], lexicon), detect([got], lexicon)
        add(counts["keywords"], {(r.key, r.relation) for r in theirs}, {(r.key, r.relation) for r in ours})
        for kind in KINDS:
            one, other = spans(theirs, kind, right), spans(ours, kind, right)
            add(counts[kind], set(one), set(other))
            if kind == "extrinsic":
                named = [
                    {each for each, r in found.items() if r.keyword.lower() != "in"} for found in (one, other)
                ]
                add(counts[HALVES[number % 2]], set(one), set(other))
                add(counts[WITHOUT], *named)
                add(counts[ATTACHED], *attached_alike(one, other, right, got))
                add(
                    counts[EXACT],
                    *(
                        {(r.key, r.relation, r.alpha, r.beta) for r in found.values()}
                        for found in (one, other)
                    ),
                )
                both = [detect([tree], lexicon, sense_by_tree) for tree in (right, got)]
                add(counts[SENSED], *(set(spans(each, kind, right)) for each in both))
            if errors == kind:
                show(one, other, right, got)
    rows: list[dict[str, object]] = []
    for what, count in counts.items():
        both, wanted, given = count["both"], count["gold"], count["found"]
        rows.append(
            {
                "of": what, "parser": name, "gold": wanted, "found": given,
                "precision": both / max(given, 1), "recall": both / max(wanted, 1),
                "F1": 2 * both / max(wanted + given, 1), "trees": len(gold),
                "flat": sum(not tree.parsed for tree in parsed), "sentences / s of CPU time": len(gold) / took,
            }
        )  # fmt: skip
    return rows


def cpu_time() -> float:
    """Seconds of CPU time of this process and of the programs that it has waited for."""
    return sum(os.times()[:4])


def parse(made: Parser, gold: Tree) -> Tree:
    """The parser's tree of a sentence, in one piece."""
    if isinstance(made, Spacy):
        from spacy.tokens import Doc

        doc = Doc(made.pipeline.vocab, words=gold.words)
        doc[0].is_sent_start = True
        for token in doc[1:]:
            token.is_sent_start = False
        return tree_of_words(words_of(made.pipeline(doc)[:]))
    text = " ".join(gold.words)
    trees = made.parse(text).trees
    return trees[0] if len(trees) == 1 else flat_tree([Token(text, 0, len(text))])


def brackets(tree: Tree) -> set[tuple[int, int]]:
    """The spans of characters of constituents of several words, without the whole sentence."""
    whole = (0, len(tree.tokens))
    return {
        (tree.tokens[c.start].start, tree.tokens[c.stop - 1].end)
        for c in tree.constituents
        if c.stop - c.start > 1 and (c.start, c.stop) != whole
    }


def spans(relations: list[Relation], kind: str, gold: Tree) -> dict[tuple[object, ...], Relation]:
    """What relations of a kind say; punctuation at the edges of a span does not count."""
    marks = {place for token in gold.tokens if not any(map(str.isalnum, token.text)) for place in token[1:]}

    def words(pieces: object) -> tuple[tuple[int, ...], ...]:
        kept = []
        for start, end in pieces:  # type: ignore[attr-defined]
            own = [t for t in gold.tokens if start <= t.start and t.end <= end]
            while own and own[0].start in marks:
                own.pop(0)
            while own and own[-1].end in marks:
                own.pop()
            if own:
                kept.append((own[0].start, own[-1].end))
        return tuple(kept)

    return {(r.key, r.relation, words(r.alpha), words(r.beta)): r for r in relations if r.kind == kind}


def attached_alike(
    one: dict[tuple[object, ...], Relation], other: dict[tuple[object, ...], Relation], right: Tree, got: Tree
) -> tuple[set[object], set[object]]:
    """The relations whose phrase hangs on the same word in both trees. What else differs lies within the phrases."""
    places = [
        {r.key: attached_to(tree, r) for r in found.values()} for tree, found in ((right, one), (got, other))
    ]
    same = {key for key, place in places[0].items() if key in places[1] and place == places[1][key]}
    return tuple({key for key, r in found.items() if r.key in same} for found in (one, other))  # type: ignore[return-value]


def attached_to(tree: Tree, relation: Relation) -> int | None:
    """The word that stands for what is around the keyword's phrase; None where nothing is."""
    start = next(i for i, token in enumerate(tree.tokens) if token.start == relation.key.start)
    stop = next(i for i, token in enumerate(tree.tokens) if token.end == relation.key.end) + 1
    holders = [] if stop - start == len(tree.tokens) else tree.around(start, stop)[0]
    return None if len(holders) < 2 else words_for(tree)[tree.constituents.index(holders[1])]


def words_for(tree: Tree) -> list[int]:
    """The word that stands for each constituent: the innermost verb of a clause, the noun of a noun phrase."""
    chosen: dict[int, int] = {}
    constituents = tree.constituents
    for i in reversed(range(len(constituents))):
        own, inside = constituents[i], []
        for j in range(i + 1, len(constituents)):
            if constituents[j].depth <= own.depth:
                break
            if constituents[j].depth == own.depth + 1:
                inside.append(j)
        if not inside:
            chosen[i] = own.start
            continue
        kind = re.split("[-=]", own.label)[0]
        wanted, last = next(((names, last) for kinds, names, last in STANDS if kind in kinds), (("",), True))
        found = [
            j
            for name in wanted
            for j in (inside[::-1] if last else inside)
            if constituents[j].label.startswith(name)
        ]
        chosen[i] = chosen[found[0] if found else inside[-1]]
    return [chosen[i] for i in range(len(constituents))]


def add(count: Counter[str], gold: set[object], found: set[object]) -> None:
    count.update(both=len(gold & found), gold=len(gold), found=len(found))


def show(one: dict, other: dict, right: Tree, got: Tree) -> None:  # type: ignore[type-arg]
    """The relations of a sentence that only the gold tree, or only the parser's, has."""
    text = " ".join(right.words)
    for mark, mine, others in (("-", one, other), ("+", other, one)):
        for key, relation in mine.items():
            if key not in others:
                shown = [" ... ".join(text[s:e] for s, e in each) for each in (relation.alpha, relation.beta)]
                print(f"{mark} {relation.keyword}: {shown[0]}  |  {shown[1]}")


if __name__ == "__main__":
    main()
