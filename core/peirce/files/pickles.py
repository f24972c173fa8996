"""Pickles of data, followed without an unpickler: nothing that they name is imported, and nothing is called.

`pickletools.genops` splits a pickle into opcodes. A caller says which names may stand in it and what takes the place of
a call of each. Each opcode makes at most one value, none is copied twice, and what is hashed is small, so time and
memory grow with the length of the pickle alone.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from attrs import frozen

from peirce.files.read import too_large_error

LITERALS = re.compile(r"(BIN)?INT[12]?|LONG[14]?|(BIN)?FLOAT|(SHORT_|BIN)*(UNICODE|STRING|BYTES)8?")
"""The opcodes of numbers, texts and bytes."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: Mapping[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_DEEPEST, _MOST = 64, 4096
"""How deep tuples that are hashed may be nested, and how many items they have unfolded: far more than any name needs,
and few enough for the recursion and the time of a hash."""


@frozen(eq=False)
class Name:
    """What a pickle names, such as `collections.OrderedDict`, and what makes the value of a call of it."""

    name: str
    make: Callable[..., Any]


Find = Callable[[str], Callable[..., Any] | None]
"""Returns what makes the value of a call of a name; None for a name that is refused."""


def follow_pickle(
    stream: IO[bytes],
    find: Find = lambda name: None,
    *,
    refer: Callable[[Any], Any] | None = None,
    literals: re.Pattern[str] = LITERALS,
    most: int | None = None,
) -> Any:
    """The value that the next pickle of a stream describes: of plain tables, and of what a caller makes of calls.

    Args:
        stream: where a pickle begins.
        find: beside sets and dicts of the standard library, which are known.
        refer: returns what stands for an object outside the pickle, of its id.
        literals: the opcodes of numbers and texts that may stand in it.
        most: how many bytes it may have; any number if None.

    Raises:
        Exception: the pickle is damaged, or has another opcode or name; nothing of it was run.
    """
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    start = stream.tell()
    for opcode, given, position in pickletools.genops(stream):
        name, argument = opcode.name, cast(Any, given)
        if most is not None and position is not None and position - start > most:
            raise too_large_error(most, what="a pickle in it")
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif literals.fullmatch(name):
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[argument])
        elif name == "MARK":
            marks.append(stack)
            stack = []
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name in _CLOSING:
            above, stack = stack, marks.pop()
            _CLOSING[name](stack, above)
        elif name == "POP":
            stack.pop()
        elif name == "APPEND":
            _extend(stack, [stack.pop()])
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            _update(stack, [key, value])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            parts = argument.split(" ") if name == "GLOBAL" else [stack.pop(), stack.pop()][::-1]
            stack.append(_known_name(".".join(parts), find))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, called = stack.pop(), stack.pop()
            stack.append(called.make(*arguments))
        elif name == "BUILD":
            stack.pop()  # attributes, as of a dict or of a tensor
        elif name == "BINPERSID" and refer is not None:
            stack.append(refer(stack.pop()))
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it has the opcode {name}")
    raise ValueError("it has no end")


def _known_name(name: str, find: Find) -> Name:
    name = name.replace("__builtin__.", "builtins.")  # as protocol 2 calls them
    make = _CALLS.get(name) or find(name)
    if make is None:
        raise ValueError(f"it names {name}, which is neither imported nor run")
    return Name(name, make)


def _extend(stack: list[Any], items: list[Any]) -> None:
    if isinstance(stack[-1], list):
        stack[-1].extend(items)
    elif isinstance(stack[-1], set):
        stack[-1].update(map(_checked_key, items))


def _update(stack: list[Any], items: list[Any]) -> None:
    if isinstance(stack[-1], dict):
        stack[-1].update(zip(map(_checked_key, items[::2]), items[1::2], strict=True))


_CLOSING: Mapping[str, Callable[[list[Any], list[Any]], None]] = {
    "TUPLE": lambda stack, items: stack.append(tuple(items)),
    "LIST": lambda stack, items: stack.append(items),
    "DICT": lambda stack, items: stack.append(_make_table(list(zip(items[::2], items[1::2], strict=True)))),
    "FROZENSET": lambda stack, items: stack.append(frozenset(map(_checked_key, items))),
    "APPENDS": _extend,
    "ADDITEMS": _extend,
    "SETITEMS": _update,
    "POP_MARK": lambda stack, items: None,
}
"""What is done with the items above the last mark, by opcode."""


def _checked_key(key: Any) -> Any:
    """A value that is to be hashed, which tuples of tuples could make take any time."""
    level, count = [key], 0
    for _ in range(_DEEPEST):
        level = [item for each in level if isinstance(each, tuple) for item in each]
        count += len(level)
        if not level:
            return key
        if count > _MOST:
            break
    raise ValueError("it has keys of tuples that are nested too deeply")


def _take(items: list[Any]) -> list[Any]:
    """The items of a list that a call is given, which are gone then, so that no second call copies them."""
    found, items[:] = list(items), []
    return found


def _make_table(items: list[Any] | None = None) -> dict[Any, Any]:
    return {_checked_key(key): value for key, value in _take(items or [])}


def _refuse_call(*arguments: Any) -> Any:
    raise ValueError("it calls a plain type, as no file of data does")


_CALLS: Mapping[str, Callable[..., Any]] = {
    "builtins.set": lambda items: set(map(_checked_key, _take(items))),
    "builtins.frozenset": lambda items: frozenset(map(_checked_key, _take(items))),
    "collections.OrderedDict": _make_table,
    "collections.defaultdict": lambda factory: {},
    **{f"builtins.{kind}": _refuse_call for kind in ("list", "dict", "int", "long", "float", "str")},
}
"""What makes the values of calls of the standard library. Plain types are named as those of a defaultdict's values."""
