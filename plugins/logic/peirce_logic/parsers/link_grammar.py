"""Link Grammar's parser (Sleator and Temperley, 1993), which turns its links into constituents itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from attrs import evolve

from peirce.errors import InputError, TaskError
from peirce_logic.detection.trees import Token, Tree, flat, read_brackets, tree_of
from peirce_logic.parsers.parser import Parsed, Parser

PROGRAM = "link-parser"
SECONDS = 20
"""How long the program may think about one sentence."""
_NO_END = "".join(rf"(?<!\b{word}\.)" for word in ("Mr", "Mrs", "Ms", "Dr", "[A-Z]"))
_END = re.compile(rf"{_NO_END}(?<=[.!?])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]?[A-Z0-9])|\n\s*\n")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_MARK = re.compile(r"(?<=.)\.(?:[a-z]{1,2}(?:-[a-z]+)*|[a-z]+-[a-z]+|#[^)\s]*)$|\[[!?~&]+\]|\{[?!~&]+\}")


class LinkGrammar(Parser):
    """Trees of the program `link-parser`, aligned to the text; what it cannot align is flat.

    Args:
        model: its dictionary; `en` if None.

    Raises:
        TaskError: the program is not installed.
    """

    name = "link-grammar"
    default = "en"

    def __init__(self, model: str | None = None) -> None:
        if shutil.which(PROGRAM) is None:
            raise TaskError(
                f"the parser 'link-grammar' needs the program {PROGRAM}, which is not there; run "
                "`apt install link-grammar`, or what installs it on your system"
            )
        super().__init__(model)

    @property
    def identity(self) -> str:
        """What its trees depend on; the program's version, too."""
        done = subprocess.run(
            [str(shutil.which(PROGRAM)), "--version"], capture_output=True, text=True, encoding="utf-8", check=False,
            timeout=60,
        )  # fmt: skip
        return " ".join([super().identity, *done.stdout.splitlines()[:1]])

    def parse(self, text: str) -> Parsed:
        """The sentences of a text."""
        spans = list(sentences(text))
        lines = [" ".join(text[start:end].split()) for start, end in spans]
        printed = self._printed(lines) if lines else []
        each = zip(printed, spans, strict=True)
        return Parsed(text, tuple(tree_of_printed(one, text, *span) for one, span in each))

    def _printed(self, lines: Sequence[str]) -> list[str | None]:
        """The brackets that the program prints for each line; None where there are none."""
        command = [
            str(shutil.which(PROGRAM)), str(self.model), "-constituents=3", "-graphics=0", "-verbosity=1", "-echo",
            f"-timeout={SECONDS}", "-limit=100",
        ]  # fmt: skip
        # What begins with an exclamation mark would be a command of the program's own, with a percent sign a comment.
        given = [line.lstrip("!% ") or "." for line in lines]
        try:
            done = subprocess.run(
                command, input="\n".join(given) + "\n", capture_output=True,
                text=True, encoding="utf-8", check=False, timeout=60 + 2 * SECONDS * len(lines),
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise TaskError(
                f"{PROGRAM} did not end; give the parser 'link-grammar' less text at a time"
            ) from error
        if done.returncode:
            said = " ".join(done.stderr.split())[-300:]
            raise TaskError(f"{PROGRAM} failed with the dictionary {self.model!r}: {said}")
        found: list[str | None] = []
        for line in done.stdout.splitlines():
            # It echoes each sentence, and prints the brackets of its best linkage after it.
            place = next((n for n in range(len(found), len(given)) if given[n] == line.strip()), None)
            if place is not None:
                found += [None] * (place + 1 - len(found))
            elif found and found[-1] is None and line.startswith("(S"):
                found[-1] = line
        return [*found, *[None] * (len(lines) - len(found))]


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text begin and end: at a full stop before a capital letter, and at empty lines."""
    start = 0
    for match in (*_END.finditer(text), None):
        end = len(text) if match is None else match.end()
        piece = text[start:end]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        start = end


def tree_of_printed(printed: str | None, text: str, start: int, end: int) -> Tree:
    """The tree of a sentence as the program prints it, in one line (`-constituents=3`).

    It writes words in its dictionary's case with marks behind them, `stay.v`, and sets those that it left out in
    braces.

    Args:
        printed: the line; None where there is none.
        text: the document's text.
        start: of the sentence in it. end: one after its last character.
    """
    whole = [Token(m[0], start + m.start(), start + m.end()) for m in _WORD.finditer(text[start:end])]
    if printed is None:
        return flat(whole)
    # A bracket that is a word is written as a brace.
    clean = re.sub(r"\{\{\}|\{\}\}", lambda m: "-LRB-" if m[0] == "{{}" else "-RRB-", printed)
    try:
        nested = next(read_brackets(clean, f"the output of {PROGRAM}"))
    except (InputError, StopIteration):
        return flat(whole)
    tree, tokens, at = tree_of(nested), [], start
    for leaf in tree.words if tree else ():
        word = _MARK.sub("", _MARK.sub("", leaf))
        word = word[1:-1] if len(word) > 2 and word[0] + word[-1] == "{}" else word
        while at < end and text[at].isspace():
            at += 1
        if not word or text[at : at + len(word)].lower() != word.lower() or at + len(word) > end:
            return flat(whole)
        tokens.append(Token(text[at : at + len(word)], at, at + len(word)))
        at += len(word)
    return flat(whole) if tree is None or text[at:end].strip() else evolve(tree, tokens=tuple(tokens))
