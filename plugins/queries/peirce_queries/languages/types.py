"""Query types: named abstract queries, kept in TOML files of one form."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from attrs import frozen

from peirce.errors import TaskError, unknown
from peirce.files import parse_toml, read_text
from peirce_queries.languages.language import Query, parse
from peirce_queries.languages.parsing import QueryError

GROUPS = ("seen", "unseen", "all")
"""Names that stand for several types at once."""

HARD = ("1p", "2p", "3p", "4p", "2i", "3i", "4i", "pi", "ip", "2in", "3in", "inp", "pin", "pni", "2u", "up")
"""The types of the benchmarks "+H" (Gregucci et al., 2025), whose 2i1p and 1p2i are ip and pi."""
_LONGER = {
    "4p": "(r1(s1,e1))&(r2(e1,e2))&(r3(e2,e3))&(r4(e3,f))",
    "4i": "(r1(s1,f))&(r2(s2,f))&(r3(s3,f))&(r4(s4,f))",
}
"""Those that are not TEGA's."""


@frozen
class QueryType:
    """A named shape of queries. seen: whether models are trained on it in TEGA's benchmark."""

    name: str
    query: Query
    seen: bool


def load_types(path: Path | None = None) -> dict[str, QueryType]:
    """The types of a TOML file by name, in its order; TEGA's 55 when no file is given.

    Raises:
        TaskError: the file cannot be read, or a type in it is malformed, not abstract or there twice.
    """
    return _read_types(path) if path else {**_published_types()}


@cache
def _published_types() -> dict[str, QueryType]:
    return _read_types(None)


def _read_types(path: Path | None) -> dict[str, QueryType]:
    source = str(path) if path else "types.toml"
    try:
        text = read_text(path) if path else (files(__package__) / source).read_text(encoding="utf-8")
        tables = parse_toml(text).get("type", [])
    except (OSError, ValueError) as error:
        message = getattr(error, "strerror", None) or error
        raise TaskError(f"{source}: query types cannot be read: {message}") from error
    if not isinstance(tables, list):
        raise TaskError(f"{source}: `type` must be [[type]] tables with name, formula and seen")
    types: dict[str, QueryType] = {}
    for number, table in enumerate(tables, 1):
        where = f"{source}: type {number}"
        match table:
            case {"name": str(name), "formula": str(formula), "seen": bool(seen), **rest} if not rest:
                pass
            case _:
                has = ", ".join(table) if isinstance(table, dict) and table else "nothing"
                needed = "name, formula and seen (true or false) and nothing else"
                raise TaskError(f"{where} needs {needed}; it has {has}")
        if not name or not name.isprintable() or "," in name or name != name.strip():
            problem = "must be printable, without commas and without spaces at its ends"
            raise TaskError(f"{where}: the name {name!r} {problem}")
        if name in types or name in GROUPS:
            raise TaskError(f"{where}: the name {name!r} is taken; choose another")
        try:
            query = parse(formula)
        except QueryError as error:
            raise TaskError(f"{source}: type {name!r}: {error}") from error
        if not query.abstract:
            raise TaskError(
                f"{source}: type {name!r} names relations r1, r2, ... and entities s1, s2, ... only"
            )
        types[name] = QueryType(name, query, seen)
    if not types:
        raise TaskError(f"{source} has no [[type]] table with name, formula and seen")
    return types


def hard_types() -> dict[str, QueryType]:
    """The types of `HARD` by name."""
    known = load_types() | longer_types()
    return {name: known[name] for name in HARD}


def longer_types() -> dict[str, QueryType]:
    """The types of `HARD` that are not TEGA's, by name."""
    return {name: QueryType(name, parse(formula), seen=False) for name, formula in _LONGER.items()}


def select(names: Iterable[str], types: dict[str, QueryType]) -> tuple[QueryType, ...]:
    """The types called `names`, each once; `seen`, `unseen` and `all` stand for their groups.

    Raises:
        TaskError: a name is not known.
    """
    chosen: dict[str, QueryType] = {}
    for name in names:
        if name in _LONGER and name not in types:
            raise TaskError(
                f'the query type {name} is of the benchmarks "+H" and not of TEGA\'s; `peirce kg sample --hard --types '
                f"{name}` samples it, or add it by a --types-file"
            )
        if name not in types and name in load_types():
            raise TaskError(
                f"the query type {name} is not among those of this command ({', '.join(types)}); a --types-file "
                "can add it"
            )
        if name not in types and name not in GROUPS:
            raise TaskError(unknown("query type", name, [*types, *GROUPS]))
        for kind in types.values():
            if name in (kind.name, "all", "seen" if kind.seen else "unseen"):
                chosen[kind.name] = kind
    if not chosen:
        raise TaskError("no query type is named; name some, such as 1p, 2i, or seen, unseen, all")
    return tuple(chosen.values())
