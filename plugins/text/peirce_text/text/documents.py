"""Documents and sentences: where one text ends, and where it may be divided."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_ABBREVIATIONS = "Mr Mrs Ms Dr St Prof Rev Capt Col Gen Sgt vs etc Jr Sr"
_END = re.compile(
    "".join(rf"(?<!\b{word})" for word in _ABBREVIATIONS.split())
    + r"""(?<!\b[A-Z])[.!?…]+["'”’)\]]*\s+(?![a-z])|(?<=[。！？])"""
)
"""The end of a sentence: what ends it, closing quotes, and space before anything but a small letter."""


def documents(lines: Iterable[str], count: int = 0) -> Iterator[list[str]]:
    """The documents of a file of lines, each as its lines without blank ones.

    Args:
        lines: the lines.
        count: how many lines make a document, blank ones aside; 0 if blank lines divide documents.
    """
    document: list[str] = []
    for line in lines:
        line = line.strip()
        if line:
            document.append(line)
        if document and (len(document) == count if count else not line):
            yield document
            document = []
    if document:
        yield document


def sentences(text: str) -> list[str]:
    """A text divided where sentences end, by punctuation alone; nothing but space is lost."""
    found, start = [], 0
    for match in _END.finditer(text):
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]
