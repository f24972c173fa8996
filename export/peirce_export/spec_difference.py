"""How the spec in an exported file differs from that of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from peirce.errors import SpecError
from peirce.files import parse_toml
from peirce.spec import KeyPath, Spec, join_key

_ABSENT = object()
_MOST = 8
"""So many differences are told; two specs with more are simply two models."""


def spec_difference(of_file: str, of_model: str) -> str | None:
    """A sentence that names the keys that differ, with both values; None where the specs are equal.

    Args:
        of_file: the spec in the file's metadata, as TOML.
        of_model: the model's spec, as TOML.
    """
    found = list(_differences(_plain(of_file), _plain(of_model), ()))
    if not found:
        return None
    told = "; ".join(found[:_MOST]) + (f"; and {len(found) - _MOST} more" if len(found) > _MOST else "")
    return f"The file was exported from another spec than that of the model: {told}."


def _plain(text: str) -> dict[str, Any]:
    """The spec with every default written out, so that one that another version left out is no difference."""
    with suppress(SpecError):  # a key that this version does not know is a difference to tell
        text = Spec.from_toml(text).to_toml()
    return parse_toml(text)


def _differences(one: Any, two: Any, path: KeyPath) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in dict.fromkeys([*one, *two]):
            yield from _differences(one.get(key, _ABSENT), two.get(key, _ABSENT), (*path, key))
    elif isinstance(one, list) and isinstance(two, list):
        for i in range(max(len(one), len(two))):
            mine, other = (items[i] if i < len(items) else _ABSENT for items in (one, two))
            yield from _differences(mine, other, (*path, str(i)))
    elif one != two:
        yield f"{join_key(path)} is {_said(one)} in the file and {_said(two)} in the model"


def _said(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)
