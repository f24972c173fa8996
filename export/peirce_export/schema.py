"""What the properties of an exported file may hold: the types, sizes and depths that a reader relies on.

A file may come from anyone. Whatever passes here can be used without further checks of its form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from peirce.errors import printable
from peirce.files import bound_of, parse_json, parse_toml, whole_number
from peirce.parts import Signature, TensorSpec, terms
from peirce.spec import StructureError, structured

LARGEST = 10**9
"""The largest size of a dim, and the largest opset: beyond it are the limits of what counts elements."""
_TENSORS = 10_000
_NAME = re.compile(r"[A-Za-z_][\w.:/-]{0,199}")
_ROLE = re.compile(r"model|prefill|step|top-[1-9]\d{0,8}")
_VERSION = re.compile(r"[\x20-\x7e]{0,200}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PRECISIONS = ("float32", "float16", "bfloat16")


@frozen(kw_only=True)
class _Signature:
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def signature_of(text: str) -> Signature:
    """A signature from its JSON.

    Raises:
        ValueError: it is no signature; the message says what is wrong with it.
    """
    data = _json(text, "signature")
    try:
        stated = structured(_Signature, data)
    except StructureError as error:
        raise ValueError(f"signature: {error}") from None
    for kind, specs in (("input", stated.inputs), ("output", stated.outputs)):
        if not 0 < len(specs) <= _TENSORS:
            raise ValueError(f"signature: {len(specs)} {kind}s")
        names = [spec.name for spec in specs]
        if len(set(names)) < len(names):
            raise ValueError(f"signature: two {kind}s have one name")
        for spec in specs:
            _check(kind, spec)
    return Signature.from_dict(data)


def _check(kind: str, spec: TensorSpec) -> None:
    where = f"signature: {kind} {_cut(spec.name)}"
    if not _NAME.fullmatch(spec.name):
        raise ValueError(f"{where} has no name of letters and digits")
    for dim in spec.dims:
        fits = (
            all(whole_number(term) is not None or _NAME.fullmatch(term) for term in terms(dim))
            if isinstance(dim, str)
            else 0 < dim <= LARGEST
        )
        if not fits:
            raise ValueError(f"{where} has the dim {_cut(str(dim))}")
    for symbol, size in spec.largest.items():
        if not 0 <= size <= LARGEST:
            raise ValueError(f"{where}: the largest {symbol} is {size}")
    if spec.high is not None and spec.high < 1:
        raise ValueError(f"{where}: its values are below {spec.high}")


def spec_of(text: str) -> str:
    """The spec as it stands, which is TOML.

    Raises:
        ValueError: it is not, or is too long.
    """
    _bounded(text, "spec")
    try:
        data = parse_toml(text)
    except ValueError as error:
        raise ValueError(f"spec: not valid TOML: {error}") from None
    if "extend" in data:
        raise ValueError("spec: it extends another, where it must be whole")
    return text


def provenance_of(text: str) -> Mapping[str, Any]:
    """The provenance from its JSON.

    Raises:
        ValueError: it is none.
    """
    data = _json(text, "provenance")
    if not isinstance(data, dict):
        raise ValueError("provenance: it holds no table")
    return data


def precision_of(text: str) -> Any:
    """The dtype that `float` stands for.

    Raises:
        ValueError: it is none that files are exported in.
    """
    if text not in _PRECISIONS:
        raise ValueError(f"precision {_cut(text)}")
    return text


def quantisation_of(text: str | None) -> Any:
    """How weights were quantised; None where they were not.

    Raises:
        ValueError: it is no way that files are quantised in.
    """
    if text not in (None, "dynamic", "weights"):
        raise ValueError(f"quantisation {_cut(text)}")
    return text


def digest_of(text: str | None) -> str | None:
    """The digest of weights; None where there is none.

    Raises:
        ValueError: it is no digest.
    """
    if text is not None and not _DIGEST.fullmatch(text):
        raise ValueError(f"weights {_cut(text)}")
    return text


def opset_of(text: str) -> int:
    """The number of an opset.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"opset {_cut(text)}")
    return int(text)


def role_of(text: str) -> str:
    """The role of a file.

    Raises:
        ValueError: it is none.
    """
    if not _ROLE.fullmatch(text):
        raise ValueError(f"role {_cut(text)}")
    return text


def version_of(name: str, text: str) -> str:
    """The version of a package.

    Raises:
        ValueError: it is none.
    """
    if not _VERSION.fullmatch(text):
        raise ValueError(f"version of {_cut(name)}: {_cut(text)}")
    return text


def _json(text: str, what: str) -> Any:
    _bounded(text, what)
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _cut(text: str) -> str:
    return repr(printable(text, 80))


def _bounded(text: str, what: str) -> None:
    if len(text) > bound_of("spec"):
        raise ValueError(f"{what}: {len(text):,} characters are too many")
