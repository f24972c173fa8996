"""The logical keywords: which words and phrases show which relation, and where the spans of each lie."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from attrs import evolve, field, frozen

from peirce.errors import InputError, unknown
from peirce.files import parse_toml, read_text
from peirce.spec import StructureError, structure_value
from peirce_logic.relations import RELATIONS

Kind = Literal["unary", "intrinsic", "extrinsic"]
KINDS: tuple[Kind, ...] = ("unary", "intrinsic", "extrinsic")
NAMED = {name: Path(__file__).with_name(f"{name}.toml") for name in ("english", "broad")}
"""The lexicons of the package: the paper's keywords, and with those what English has beside them."""
FORMAT = 1


@frozen(kw_only=True)
class Keyword:
    """A word or phrase that shows a relation.

    Args:
        words: its tokens, in lower case; a clitic such as `n't` is a token.
        relation: one of the twelve.
        kind: `unary`, `intrinsic` or `extrinsic`.
        order: of several senses of the same words, the lowest is taken where nothing else decides.
        example: a sentence that shows the kind.
    """

    words: tuple[str, ...]
    relation: str
    kind: Kind
    order: int = 0
    example: str = ""

    def __str__(self) -> str:
        """The words as they are written."""
        return " ".join(self.words)


@frozen
class Match:
    """Where a keyword stands among the tokens of a sentence: [start, stop), with its senses, the default first."""

    start: int
    stop: int
    senses: tuple[Keyword, ...]


def _plain(text: str) -> str:
    """In lower case, a typographic apostrophe as a plain one."""
    return text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _words(text: str) -> tuple[str, ...]:
    return tuple(_plain(text).split())


@frozen(eq=False)
class Lexicon:
    """Keywords by their words.

    Args:
        keywords: all of them; the same words may stand under several relations, which are then their senses.
    """

    keywords: tuple[Keyword, ...]

    @cached_property
    def _senses(self) -> dict[tuple[str, ...], tuple[Keyword, ...]]:
        found: dict[tuple[str, ...], list[Keyword]] = {}
        for keyword in self.keywords:
            found.setdefault(keyword.words, []).append(keyword)
        return {words: tuple(sorted(each, key=lambda k: k.order)) for words, each in found.items()}

    @cached_property
    def _longest(self) -> int:
        return max((len(words) for words in self._senses), default=0)

    def senses(self, words: str) -> tuple[Keyword, ...]:
        """The senses of a word or phrase, the default first; empty if it is not a keyword."""
        return self._senses.get(_words(words), ())

    def matches(self, tokens: Sequence[str]) -> list[Match]:
        """The keywords among tokens, in their order: the longest phrase first, and no token twice.

        Args:
            tokens: of one sentence; their case does not matter.
        """
        words = [_plain(token) for token in tokens]
        taken = [False] * len(words)
        found = []
        for length in range(min(self._longest, len(words)), 0, -1):
            for start in range(len(words) - length + 1):
                stop = start + length
                senses = self._senses.get(tuple(words[start:stop]))
                if senses and not any(taken[start:stop]):
                    taken[start:stop] = [True] * length
                    found.append(Match(start, stop, senses))
        return sorted(found, key=lambda match: match.start)


def lexicon_file(lexicon: str | os.PathLike[str] | None = None) -> Path:
    """The file of a lexicon: one of `NAMED`, or a path; that of `english` if None."""
    return NAMED.get(os.fspath(lexicon or "english"), Path(lexicon or ""))


def read_lexicon(lexicon: str | os.PathLike[str] | None = None) -> Lexicon:
    """A lexicon by its name or file.

    Args:
        lexicon: `english`, the paper's keywords, also if None; `broad`, with more; or a TOML file as those are. With
            `extends = "english"`, another name or the path of another lexicon, its keywords are added to that one's; a
            relation's `remove` takes some away.

    Raises:
        InputError: the file cannot be read, or is not a lexicon.
    """
    file = lexicon_file(lexicon)
    return Lexicon(tuple(_keywords(file, (file.resolve(),)).values()))


@frozen(kw_only=True)
class _Table:
    """A relation's table; an entry is a keyword, or a keyword and an example."""

    unary: tuple[str | tuple[str, ...], ...] = ()
    intrinsic: tuple[str | tuple[str, ...], ...] = ()
    extrinsic: tuple[str | tuple[str, ...], ...] = ()
    order: Mapping[str, int] = field(factory=dict)
    remove: tuple[str, ...] = ()


def _keywords(file: Path, seen: tuple[Path, ...]) -> dict[tuple[str, tuple[str, ...]], Keyword]:
    """The keywords of a file and of those that it extends, by relation and words."""
    try:
        content = parse_toml(read_text(file))
    except FileNotFoundError:
        raise InputError(
            f"there is no lexicon {file}; name a TOML file of keywords, or english or broad"
        ) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"lexicon {file} cannot be read: {why}; it is a TOML file of keywords") from error
    if content.pop("format", FORMAT) != FORMAT:
        raise InputError(f"lexicon {file} does not have format {FORMAT}; upgrade peirce")
    content.pop("language", None)
    found: dict[tuple[str, tuple[str, ...]], Keyword] = {}
    if (base := content.pop("extends", None)) is not None:
        parent = NAMED.get(str(base), file.parent / str(base))
        if parent.resolve() in seen:
            raise InputError(f"lexicon {file} extends itself, by way of {parent}")
        found = _keywords(parent, (*seen, parent.resolve()))
    for relation, given in content.items():
        if relation not in dict(RELATIONS):
            raise InputError(f"lexicon {file}: {unknown('relation', relation, [n for n, _ in RELATIONS])}")
        where = f"lexicon {file}: [{relation}]"
        try:
            table: _Table = structure_value(_Table, given)
        except StructureError as error:
            raise InputError(f"{where} {error}") from None

        def find_keyword(what: str, text: str, relation: str = relation, where: str = where) -> Keyword:
            if keyword := found.get((relation, _words(text))):
                return keyword
            known = [str(each) for (of, _), each in found.items() if of == relation]
            raise InputError(f"{where} {what}: {unknown('keyword', text, known)}")

        for text in table.remove:
            del found[relation, find_keyword("remove", text).words]
        for keyword in _read_keywords(relation, table, where):
            other = found.setdefault((relation, keyword.words), keyword)
            if other.kind != keyword.kind:
                raise InputError(
                    f"{where} has {str(keyword)!r} as {keyword.kind} and as {other.kind}; leave one out, or `remove` "
                    "that of the lexicon that this one extends"
                )
            found[relation, keyword.words] = keyword
        for text, order in table.order.items():
            keyword = find_keyword("order", text)
            found[relation, keyword.words] = evolve(keyword, order=order)
    return found


def _read_keywords(relation: str, table: _Table, where: str) -> Iterator[Keyword]:
    spans = dict(RELATIONS)[relation]
    for kind in KINDS:
        entries = getattr(table, kind)
        if (kind == "unary") != (spans == 1) and entries:
            raise InputError(
                f"{where} joins {spans} span(s), and its {kind} keywords join {1 if kind == 'unary' else 2}; list them "
                "under another relation"
            )
        for entry in entries:
            text, *example = (entry,) if isinstance(entry, str) else entry or ("",)
            if not (words := _words(text)) or len(example) > 1:
                raise InputError(
                    f"{where} {kind} has {entry!r}; write a keyword, or a keyword and one example"
                )
            yield Keyword(words=words, relation=relation, kind=kind, example="".join(example))
