r"""N-Triples, a line at a time: https://www.w3.org/TR/n-triples/.

An IRI is called by itself, without the angle brackets; a blank node as it is written, `_:b0`. A literal is an entity
too, called as N-Triples writes it: in quotes, with its language or type, and escapes for `\`, `"` and line ends alone.
Terms that are one in RDF 1.1 have one name: a string has no type written, and languages are in lower case (3.3).
"""

from __future__ import annotations

import re
from contextlib import suppress

XSD = "http://www.w3.org/2001/XMLSchema#"
_SPACE = r"[ \t]*"
_UNICODE = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_IRI = rf"<(?:[^\x00-\x20<>\"{{}}|^`\\]|{_UNICODE})*>"
_NAME_START = (
    "A-Za-z0-9_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = rf"{_NAME_START}\-\u00b7\u0300-\u036f\u203f-\u2040"
_BLANK = rf"_:[{_NAME_START}](?:[{_NAME}.]*[{_NAME}])?"
_STRING = rf'"(?:[^"\\\n\r]|\\[tbnrf"\'\\]|{_UNICODE})*"'
_LITERAL = rf"{_STRING}(?:\^\^{_IRI}|@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*)?"
_LINE = re.compile(
    rf"{_SPACE}(?:(?P<head>{_IRI}|{_BLANK}){_SPACE}(?P<relation>{_IRI}){_SPACE}"
    rf"(?P<tail>{_IRI}|{_BLANK}|{_LITERAL}){_SPACE}\.{_SPACE})?(?:\#.*)?"
)
_NO_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")
_ESCAPE = re.compile(rf"{_UNICODE}|\\.")
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


class MalformedError(Exception):
    """A line that holds no triple; the reader of the file adds its place."""


def parse_line(line: str) -> tuple[str, str, str] | None:
    """Head, relation and tail of a line, by name; None for a comment or an empty one; else a `MalformedError`."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise MalformedError(
            f"expected an N-Triples statement, `<head> <relation> <tail> .`, found {line[:200]!r}"
        )
    head, relation, tail = match.group("head", "relation", "tail")
    return (term_name(head), term_name(relation), term_name(tail)) if head else None


def term_name(term: str) -> str:
    """What an IRI, a blank node or a literal is called; raises `MalformedError` for a bad escape."""
    if term.startswith("<"):
        return _unescape(term[1:-1])
    if term.startswith("_"):
        return term
    end = term.rindex('"')
    text = _unescape(term[1:end])
    written = "".join(_WRITTEN.get(character, character) for character in text)
    kind = term[end + 1 :]
    kind = kind.lower() if kind.startswith("@") else _unescape(kind)
    kind = "" if kind == f"^^<{XSD}string>" else kind
    return f'"{written}"{kind}'


def literal_name(name: str) -> str:
    """What a literal that is written in N-Triples is called; any other name is its own."""
    with suppress(MalformedError):
        return term_name(name) if name.startswith('"') and re.fullmatch(_LITERAL, name) else name
    return name


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    escape = match[0][1:]
    if escape[0] not in "uU":
        return _NAMED.get(escape, escape)
    code = int(escape[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise MalformedError(f"{match[0]} does not encode a character")
    return chr(code)


def write_line(head: str, relation: str, tail: str) -> str:
    """The statement that is read as a triple of names: IRIs with escapes, and blank nodes and literals as they are."""
    literal = re.fullmatch(_LITERAL, tail) is not None
    return f"{_resource(head)} <{_escape(relation)}> {tail if literal else _resource(tail)} .\n"


def _resource(name: str) -> str:
    return name if re.fullmatch(_BLANK, name) else f"<{_escape(name)}>"


def _escape(name: str) -> str:
    return _NO_IRI.sub(lambda match: f"\\u{ord(match[0]):04X}", name)
