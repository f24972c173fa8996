"""The inputs and outputs of an ONNX graph against a signature: names, dtypes and dims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import onnx
from onnx import TensorProto

from peirce.parts import Signature, TensorSpec
from peirce_export.failures import DtypeMismatch, NameMismatch, check_dims

FLOATS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
WHOLE = {"int64": TensorProto.INT64, "bool": TensorProto.BOOL}


def check(proto: onnx.ModelProto, signature: Signature, precision: str, source: str) -> None:
    """Check a graph's inputs and outputs against a signature.

    Args:
        proto: the graph; its initializers are not read.
        signature: what the model declares.
        precision: what `float` stands for.
        source: the file's name, for errors.

    Raises:
        NameMismatch, DtypeMismatch, DimMismatch: the first fault, looked for in this order.
    """
    weights = {tensor.name for tensor in proto.graph.initializer}
    boundary = (
        ("input", [node for node in proto.graph.input if node.name not in weights], signature.inputs),
        ("output", list(proto.graph.output), signature.outputs),
    )
    for kind, nodes, specs in boundary:
        _check_names(kind, [node.name for node in nodes], [spec.name for spec in specs], source)
    for check_tensor in (partial(_check_dtype, precision=precision), _check_dims):
        for kind, nodes, specs in boundary:
            for node, spec in zip(nodes, specs, strict=True):
                check_tensor(source, f"{kind} {spec.name!r}", node, spec)


def _check_names(kind: str, found: Sequence[str], declared: Sequence[str], source: str) -> None:
    missing = [name for name in declared if name not in found]
    extra = [name for name in found if name not in declared]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(extra)} beside them"] if extra else []
        raise NameMismatch(
            f"{source}: the signature has {kind}s {', '.join(declared)}; the file {' and '.join(parts)}"
        )
    if list(found) != list(declared):
        raise NameMismatch(
            f"{source}: the {kind}s are in the order {', '.join(found)}, but the signature has "
            f"{', '.join(declared)}"
        )


def _check_dtype(source: str, where: str, node: Any, spec: TensorSpec, precision: str) -> None:
    wanted = _dtype(FLOATS[precision] if spec.dtype == "float" else WHOLE[spec.dtype])
    kind = node.type.WhichOneof("value")
    if kind != "tensor_type":
        found = f"no tensor but {(kind or 'nothing').removesuffix('_type')}"
    elif (found := _dtype(node.type.tensor_type.elem_type)) == wanted:
        return
    raise DtypeMismatch(f"{source}: {where} is {found}, but the signature says {wanted}")


def _check_dims(source: str, where: str, node: Any, spec: TensorSpec) -> None:
    check_dims(source, where, dims(node), spec.dims)


def dims(node: Any) -> tuple[str | int, ...]:
    """The dims of an input or output of a graph; one that is neither named nor fixed is `?`."""
    shape = node.type.tensor_type.shape
    return tuple(dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?") for dim in shape.dim)


def _dtype(number: int) -> str:
    known = TensorProto.DataType.values()
    return TensorProto.DataType.Name(number).lower() if number in known else f"type {number}"
