"""What a part holds on to: the tensors that can be reached from it, its class and its module, and how much there is."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from types import CellType, FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

_OPAQUE = (str, bytes, int, float, complex, bool, type(None), ModuleType, type)
_DEPTH = 10
_MOST = 20_000


def held(made: Any) -> tuple[dict[int, tuple[str, Tensor]], dict[str, int]]:
    """The tensors that a part holds, by identity, with where they are; and the sizes of its containers, by place."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    queue = deque((name, value, 0) for name, value in _roots(made))
    while queue and len(seen) < _MOST:
        name, value, depth = queue.popleft()
        if isinstance(value, _OPAQUE) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            tensors[id(value)] = (name, value)
            continue
        if isinstance(value, dict | list | tuple | set | frozenset | deque):
            sizes[name] = len(value)
        if depth < _DEPTH:
            queue.extend((inner, each, depth + 1) for inner, each in _inside(name, value))
    return tensors, sizes


def _roots(made: Any) -> Iterator[tuple[str, Any]]:
    """The part's own attributes, those of its class, and the globals of the module that defines it."""
    parts = list(made.values()) if isinstance(made, dict) else [made]
    for part in parts:
        yield from ((f".{name}", value) for name, value in vars(part).items())
    for part in parts:
        for cls in type(part).__mro__:
            if not _foreign(cls.__module__):
                yield from ((f"{cls.__name__}.{name}", value) for name, value in vars(cls).items())
                names = getattr(vars(cls).get("infer") or vars(cls).get("forward"), "__globals__", {})
                yield from ((f"{cls.__module__}.{name}", value) for name, value in names.items())


def _foreign(module: str) -> bool:
    """Whether a module is no author's: torch's, Python's, or the contracts themselves."""
    return module.partition(".")[0] in ("torch", "builtins", "abc", "typing") or module.startswith(
        ("peirce.parts", "peirce.model")
    )


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]"[:80], each) for key, each in list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"{name}[{i}]", each) for i, each in enumerate(list(value)))
    elif isinstance(value, FunctionType):
        yield from ((f"{name}'s default", each) for each in value.__defaults__ or ())
        yield from ((f"{name}'s closure", each) for each in value.__closure__ or ())
        yield from ((f"{name}.{key}", each) for key, each in vars(value).items())
    elif isinstance(value, CellType):
        yield from ((name, each) for each in gc.get_referents(value))
    elif isinstance(value, nn.Module):
        yield from ((f"{name}.{key}", each) for key, each in vars(value).items())
    elif type(value).__name__ == "_lru_cache_wrapper":
        yield from ((f"{name}'s cache", each) for each in gc.get_referents(value))
    elif not _foreign(type(value).__module__):
        own = _got(value, "__dict__") or {}
        yield from ((f"{name}.{key}", each) for key, each in dict(own).items())
        slots = [slot for cls in type(value).__mro__ for slot in getattr(cls, "__slots__", ())]
        yield from ((f"{name}.{slot}", _got(value, slot)) for slot in slots if slot != "__weakref__")


def _got(value: Any, name: str) -> Any:
    """An attribute; None where asking for it raises anything, as objects that make attributes up may."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
