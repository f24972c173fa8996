"""The check `parser` finds what is wrong with a parser, and nothing in the template of `peirce new`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from peirce.registry import Registry
from peirce_logic.checks import parser
from peirce_testing import BrokenError, Case

PARSER = '''
import re
from itertools import count

import peirce
from peirce.errors import TaskError
from peirce_logic.detection.trees import Constituent, Token, Tree
from peirce_logic.parsers.parser import Parsed, Parser

MADE = count()


class Halves(Parser):
    """Sentences end at full stops, words at spaces, and each sentence is a first word and the others."""

    name = "halves"

    def __init__(self, model=None):
        if model is not None:
            raise TaskError(f"the parser has no model {model!r}; leave it out")
        super().__init__(model)

    def parse(self, text):
        return Parsed(text, tuple(map(self.tree, self.sentences(text))))

    def sentences(self, text):
        words = [Token(found[0], found.start(), found.end()) for found in re.finditer(r"\\S+", text)]
        ends = [i + 1 for i, word in enumerate(words) if word.text.endswith(".")]
        return [words[a:b] for a, b in zip([0, *ends], [*ends, len(words)]) if a < b]

    def tree(self, tokens):
        n = len(tokens)
        rest = [Constituent("REST", 1, n, 1)] if n > 2 else []
        words = [Constituent("X", i, i + 1, 2 if rest and i else 1) for i in range(n)]
        return Tree(tokens, [Constituent("S", 0, n, 0), *words[:1], *rest, *words[1:]])


@peirce.hookimpl
def register_parsers():
    return {"halves": f"{__name__}:Halves"}
'''
FLAWS = {
    "loses_its_places": ("found.start(), found.end())", "found.start() + 1, found.end() + 1)"),
    "crosses": ("*words[:1], *rest", '*[Constituent("WRONG", 0, n - 1, 1)] * (n > 2), *rest'),
    "tidies": ("Parsed(text, tuple(", "Parsed(' '.join(text.split()), tuple("),
    "counts": ('Constituent("S",', 'Constituent(f"S{next(MADE)}",'),
    "takes_any_model": ("if model is not None:", "if False:"),
    "raises": ("raise TaskError(", "raise KeyError("),
    "has_another_name": ('name = "halves"', 'name = "thirds"'),
}


@pytest.mark.parametrize("name", ["is_right", *FLAWS])
def test_a_flaw_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    old, new = FLAWS.get(name, ("", ""))
    assert old in PARSER
    (tmp_path / f"parser_that_{name}.py").write_text(PARSER.replace(old, new, 1), encoding="utf-8")
    registry = Registry.of(f"parser_that_{name}")
    with pytest.raises(BrokenError) if name in FLAWS else nullcontext():
        parser.run(Case(registry.entry("parsers", "halves"), registry))
