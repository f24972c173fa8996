"""What a parser of text promises: trees over the characters that it was given.

The contract is a class of the package that uses parsers, which this one does not know: it asks by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from peirce.errors import PeirceError, TaskError
from peirce.testing.check import Case, check
from peirce.testing.failures import BrokenError, NotApplicableError

TEXTS = ("", " \n\t", "No.", "“Why?” — he asked\n\nagain, and\tagain 👍. e\u0301t 2.5 % (or so)!")
"""What a parser of text meets beside its example."""
NO_MODEL = "no_such_model"


@check(
    "parsers",
    contract="a parser goes by its name, and says in a line what is missing where it cannot be made",
)
def parser(case: Case) -> None:
    """With its own model, and with one that nobody has; at the latest when it parses."""
    found = _class_of(case)
    if found.name != case.entry.name:
        raise BrokenError(f"its name is {found.name!r}, and users take it as {case.entry.name!r}")
    try:
        found(NO_MODEL).parse(found.example)
    except PeirceError as error:
        if not str(error).strip() or "\n" in str(error).strip():
            raise BrokenError(
                f"with the model {NO_MODEL!r}, its message is {str(error)!r}; it is one line"
            ) from error
    except Exception as error:
        raise BrokenError(
            f"with the model {NO_MODEL!r} it raises {type(error).__name__}: {error}; raise a TaskError that says what "
            "to install"
        ) from error
    else:
        raise BrokenError(f"it parses with the model {NO_MODEL!r}, which is not there")


@check(
    "parsers",
    contract="every sentence has a tree over its own characters, in their order, the same each time",
)
def parser_text(case: Case) -> None:
    """Its example, no text, and text with all sorts of characters; one that reads trees reads its example alone."""
    found = _class_of(case)
    try:
        made, again = found(), found()
        made.parse(found.example)  # a model that is missing may be missed here first
    except TaskError as error:
        raise NotApplicableError(str(error)) from error
    if made.identity != again.identity or not made.identity.strip():
        raise BrokenError(
            f"its identity is {made.identity!r}, and of another one made alike {again.identity!r}"
        )
    reads_trees = bool(found.reads_trees)
    for text in (found.example, *(TEXTS[:2] if reads_trees else TEXTS)):
        parsed = made.parse(text)
        if parsed != again.parse(text):
            raise BrokenError(f"of {text!r} it gives other trees each time")
        if not reads_trees and parsed.text != text:
            raise BrokenError(f"given {text!r}, it parses {parsed.text!r}; it reads text, and changes none")
        if wrong := _wrong(parsed.text, parsed.trees):
            raise BrokenError(f"of {text!r}: {wrong}")
        if text == found.example and (not parsed.trees or parsed.failed):
            raise BrokenError(f"of its example, {parsed.failed} of {len(parsed.trees)} sentences are parsed")
        if not text.strip() and parsed.trees:
            raise BrokenError(f"of {text!r} it has {len(parsed.trees)} sentences")
    if reads_trees:
        try:
            made.parse("no tree")
        except PeirceError:
            return
        raise BrokenError("it reads 'no tree' as trees; raise an InputError")


def _class_of(case: Case) -> Any:
    """The class that is announced, with what a parser has."""
    target = case.entry.part.value
    module, _, attribute = target.partition(":")
    found = getattr(import_module(module), attribute, None)
    lacking = [
        name for name in ("name", "parse", "identity", "example", "reads_trees") if not hasattr(found, name)
    ]
    if not isinstance(found, type) or lacking:
        raise BrokenError(
            f"{target} is {found!r}, and has no {', '.join(lacking) or 'class'}; it is no subclass of Parser"
        )
    return found


def _wrong(text: str, trees: Sequence[Any]) -> str:
    """What is wrong with the trees of a text; empty if nothing is."""
    end = 0
    for number, tree in enumerate(trees):
        if not tree.tokens:
            return f"sentence {number} has no token"
        if tree.tokens[0].start < end:
            return f"sentence {number} begins at {tree.tokens[0].start}, and the one before ends at {end}"
        last, places = tree.tokens[0].start, [token[1:] for token in tree.tokens]
        for token in tree.tokens:
            if not last <= token.start < token.end <= len(text):
                return f"token {token} does not stand after the one before and within {len(text)} characters"
            # Tokens of one contraction share its characters.
            if places.count(token[1:]) == 1 and text[token.start : token.end] != token.text:
                return f"token {token} stands at {text[token.start : token.end]!r}"
            last, end = token.start, max(end, token.end)
        if wrong := _crossing(tree):
            return f"sentence {number}: {wrong}"
    return ""


def _crossing(tree: Any) -> str:
    """What is wrong with the constituents of a tree: parents come before children, and hold them whole."""
    count, above = len(tree.tokens), list[Any]()
    for each in tree.constituents:
        while above and each.start >= above[-1].stop:
            above.pop()
        parent = above[-1] if above else None
        if parent is None and (each is not tree.constituents[0] or (each.start, each.stop) != (0, count)):
            return f"{each} is in no constituent; the first is the whole sentence, and holds all others"
        if parent is not None and not parent.start <= each.start < each.stop <= parent.stop:
            return f"{each} crosses {parent}"
        if each.depth != len(above):
            return f"{each} lies {len(above)} deep"
        above.append(each)
    alone = {each.start for each in tree.constituents if each.stop - each.start == 1}
    if len(alone) < count:
        return f"{count - len(alone)} of its {count} tokens have no constituent of their own"
    if not tree.parsed and any(each.depth > 1 for each in tree.constituents):
        return "it could not be parsed, and is not flat"
    return ""
