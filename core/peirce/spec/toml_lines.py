"""Where each key of a TOML document stands: what an error needs to say `file:line`."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right

KeyPath = tuple[str, ...]
"""A key as its parts, `("model", "heads", "0", "use")`; list items are counted from 0."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}' r"|'''.*?''''{0,2}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every key, table and list item of a valid TOML document."""
    return _Scanner(text).scan()


def split_key(dotted: str) -> KeyPath:
    """The parts of a dotted key; a part with a dot in it stands in quotes, as in TOML.

    Raises:
        ValueError: `dotted` is no dotted key.
    """
    scanner = _Scanner(dotted)
    try:
        path = scanner.key()
    except ValueError:
        path = ()
    if not path or scanner.at != len(dotted):
        raise ValueError(f"{dotted!r} is no dotted key such as model.dims.layers")
    return path


def join_key(path: KeyPath) -> str:
    """The inverse of `split_key`."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else _quoted(part) for part in path)


def _quoted(part: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\"}
    plain = (escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in part)
    return f'"{"".join(plain)}"'


class _Scanner:
    """Reads a document that tomllib has accepted, so it need only tell keys and values apart."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.lengths: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self.skip(_BLANK) < len(self.text):
            line = self.line()
            if self.take("[["):
                table = self.with_indices(self.key(), new_item=True)
                self.take("]]")
            elif self.take("["):
                table = self.with_indices(self.key(), new_item=False)
                self.take("]")
            else:
                self.pair(table)
                continue
            self.record(table, line)
        return self.lines

    def with_indices(self, path: KeyPath, *, new_item: bool) -> KeyPath:
        """A header's path with the index of the latest item after each list of tables."""
        resolved: KeyPath = ()
        for depth, part in enumerate(path):
            resolved = (*resolved, part)
            if new_item and depth == len(path) - 1:
                self.lines.setdefault(resolved, self.line())
                self.lengths[resolved] = self.lengths.get(resolved, 0) + 1
            if resolved in self.lengths:
                resolved = (*resolved, str(self.lengths[resolved] - 1))
        return resolved

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        path = (*table, *self.key())
        self.record(path, line)
        self.take("=")
        self.skip(_SPACE)
        self.value(path)

    def value(self, path: KeyPath) -> None:
        if string := _STRING.match(self.text, self.at):
            self.at = string.end()
        elif self.take("["):
            index = 0
            while not self.take_after_blank("]"):
                item = (*path, str(index))
                self.record(item, self.line())
                self.value(item)
                self.take_after_blank(",")
                index += 1
        elif self.take("{"):
            while not self.take_after_blank("}"):
                self.pair(path)
                self.take_after_blank(",")
        else:
            self.skip(_BARE)

    def key(self) -> KeyPath:
        parts = []
        while True:
            self.skip(_SPACE)
            part = _KEY.match(self.text, self.at)
            if part is None:
                raise ValueError("no key")
            self.at = part.end()
            raw = part.group()
            parts.append(raw if raw[0] not in "\"'" else next(iter(tomllib.loads(f"{raw} = 0"))))
            self.skip(_SPACE)
            if not self.take("."):
                return tuple(parts)

    def record(self, path: KeyPath, line: int) -> None:
        """Keep a key's first line, and that of the tables that a dotted key makes on the way."""
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], line)

    def line(self) -> int:
        return bisect_right(self.starts, self.at)

    def skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        assert match is not None, "the pattern matches the empty string"
        self.at = match.end()
        return self.at

    def take(self, literal: str) -> bool:
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def take_after_blank(self, literal: str) -> bool:
        self.skip(_BLANK)
        return self.take(literal)
