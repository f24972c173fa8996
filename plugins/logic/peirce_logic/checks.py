"""The check of the conformance suite for parsers of text."""

from __future__ import annotations

from typing import Any

from peirce.errors import PeirceError, TaskError
from peirce.registry import class_named
from peirce_testing import BrokenError, Case, NotApplicableError, check, is_refused

TEXTS = ("", "No.", "“Why?” — he asked\n\nagain, and\tagain 👍. e\u0301t 2.5 % (or so)!")
"""What a parser must read besides its example."""


@check("parsers")
def parser(case: Case) -> None:
    """A parser goes by its name, says in a line what is missing, and gives each sentence a tree over its own
    characters, in their order, the same each time. Its example, no text, and text with all sorts of characters; one
    that reads trees reads its example alone.
    """
    try:
        parser_class: Any = class_named("parsers", case.entry.name, object, case.registry)
    except PeirceError as error:
        raise BrokenError(str(error)) from error
    if getattr(parser_class, "name", None) != case.entry.name:
        raise BrokenError(f"{parser_class!r} is registered as {case.entry.name!r}, and its `name` differs")
    example = parser_class.example
    if not is_refused(lambda: parser_class("no_such_model").parse(example), "with a missing model"):
        raise BrokenError("it parses with the model 'no_such_model', which does not exist")
    try:
        made = parser_class()
        made.parse(example)  # a missing model may be noticed here first
    except TaskError as error:
        raise NotApplicableError(str(error)) from error
    for text in (example, *(() if parser_class.reads_trees else TEXTS)):
        parsed = made.parse(text)
        if parsed != parser_class().parse(text):
            raise BrokenError(f"{text!r} is parsed into different trees each time")
        if not parser_class.reads_trees and parsed.text != text:
            raise BrokenError(f"the text {text!r} becomes {parsed.text!r}; a parser changes no text")
        if bool(parsed.trees) is not bool(text) or (text == example and parsed.failed):
            raise BrokenError(f"{parsed.failed} of {len(parsed.trees)} sentences of {text!r} are not parsed")
        end = 0
        for tree in parsed.trees:
            end = _check_order(parsed.text, tree, end)


def _check_order(text: str, tree: Any, end: int) -> int:
    """Where a tree ends, which begins behind `end`; its tokens are in order, and its constituents are nested."""
    last, places = end, [token[1:] for token in tree.tokens]
    for token in tree.tokens:
        # Tokens of one contraction share its characters.
        matches = places.count(token[1:]) > 1 or text[token.start : token.end] == token.text
        if not (last <= token.start < token.end <= len(text) and matches):
            raise BrokenError(f"of {text!r}: token {token} stands at {text[token.start : token.end]!r}")
        last, end = token.start, max(end, token.end)
    above: list[Any] = []
    for each in tree.constituents:
        while above and each.start >= above[-1].stop:
            above.pop()
        if above and not above[-1].start <= each.start < each.stop <= above[-1].stop:
            raise BrokenError(f"of {text!r}: the constituent {each} crosses {above[-1]}")
        above.append(each)
    return end
