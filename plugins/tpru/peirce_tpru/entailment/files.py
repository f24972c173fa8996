"""Files of pairs as they are published: `A,B,E,H1,H2,H3` a line, gzipped or not."""

from __future__ import annotations

import re
from pathlib import Path

from attrs import frozen

from peirce.errors import TaskError
from peirce.files import open_file, read_lines
from peirce_tpru.entailment.formulas import CONNECTIVES, literals, variables

TRAIN, VALID = "train", "validate"
HEURISTICS = ("h1", "h2", "h3")
"""B has no more connectives than A; no other variables than A; no other literals than A."""
_DEEPEST = 64
_INNERMOST = re.compile(r"\(~*[a-z](?:[&|>]~*[a-z])?\)")
_OPEN = re.compile(r"~*[a-z](?:[&|>]~*[a-z])?")
"""A proposition without parentheses; only a variable or its negation stands alone in published files."""


@frozen
class Pair:
    """Two propositions.

    Args:
        one: A.
        other: B.
        entails: whether A entails B.
        guesses: what each of the heuristics says.
    """

    one: str
    other: str
    entails: bool
    guesses: tuple[bool, bool, bool]

    @property
    def line(self) -> str:
        """The pair as its file has it."""
        return ",".join([self.one, self.other, *(str(int(flag)) for flag in (self.entails, *self.guesses))])


def guess(one: str, other: str) -> tuple[bool, bool, bool]:
    """What the heuristics say of a pair."""
    return (
        connectives(one) >= connectives(other),
        {*variables(other)} <= {*variables(one)},
        literals(other) <= literals(one),
    )


def connectives(text: str) -> int:
    """How many connectives a proposition has."""
    return sum(map(text.count, CONNECTIVES))


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """The pairs of a file.

    Raises:
        TaskError: it cannot be read, has no pairs, or a line is not in the published format.
    """
    found = []
    try:
        with open_file(path) as file:
            for number, line in enumerate(read_lines(file), 1):
                if text := line.decode("utf-8", "replace").strip():
                    found.append(_pair(text, f"{path}, line {number}"))
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror or error}") from error
    if not found:
        raise TaskError(f"{path} has no pairs")
    return tuple(found)


def find_files(folder: Path) -> dict[str, Path]:
    """The files of a folder, by name without `.txt` and `.gz`: the training file, `validate` and each `test_*`.

    Raises:
        TaskError: the folder has none, has one of them both gzipped and not, or cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise TaskError(
            f"{folder} cannot be read: {error.strerror or error}; give the folder of train.txt, validate.txt and "
            "test_*.txt"
        ) from error
    known: dict[str, Path] = {}
    for path in (each for each in paths if each.name.removesuffix(".gz").endswith(".txt")):
        name = path.name.removesuffix(".gz").removesuffix(".txt")
        if name in known:
            raise TaskError(f"{folder} holds {known[name].name} and {path.name}; remove one")
        if name in (TRAIN, VALID) or name.startswith("test_"):
            known[name] = path
    if not known:
        raise TaskError(
            f"{folder} has no files of pairs; their names are train.txt, validate.txt and test_easy.txt or the like, "
            "with .gz after it when they are gzipped"
        )
    return known


def _pair(text: str, where: str) -> Pair:
    fields = text.split(",")
    if len(fields) != 6 or any(flag not in "01" or not flag for flag in fields[2:]):
        raise TaskError(f"{where}: a line is A,B,E,H1,H2,H3, the last four 0 or 1, and this is {text[:80]!r}")
    for formula in fields[:2]:
        if not _is_proposition(formula):
            raise TaskError(
                f"{where}: {formula[:80]!r} is not a proposition of a to z, &, |, >, ~ and parentheses, at most "
                f"{_DEEPEST} of these within each other"
            )
    entails, *guesses = (flag == "1" for flag in fields[2:])
    return Pair(fields[0], fields[1], entails, (guesses[0], guesses[1], guesses[2]))


def _is_proposition(text: str) -> bool:
    """Whether a text is a proposition; the innermost parentheses are taken away until a letter is left."""
    for _ in range(_DEEPEST):
        if _OPEN.fullmatch(text):
            return True
        text, found = _INNERMOST.subn("p", text)
        if not found:
            return False
    return False
