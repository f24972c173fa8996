"""A bfloat16 graph as a float32 one with the same (rounded) weights, for runtimes that lack bfloat16."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, numpy_helper

NARROW, WIDE = TensorProto.BFLOAT16, TensorProto.FLOAT
CASTS = {"to", "dtype", "output_dtype"}
"""Attributes that hold a dtype as a number."""


def widen(source: Path, target: Path) -> None:
    """Write `source` with every bfloat16 tensor and type turned into float32; the values do not change.

    Args:
        source: an ONNX file, its external data beside it.
        target: where to write; the weights go into a second file beside it.
    """
    proto = onnx.load(str(source))
    _graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            _node(node)
        for value in function.value_info:
            _type(value.type)
    onnx.save(
        proto, str(target), save_as_external_data=True, location=target.name + ".data", size_threshold=1024
    )


def _graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _type(value.type)
    for node in graph.node:
        _node(node)


def _node(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.INT and attribute.name in CASTS and attribute.i == NARROW:
            attribute.i = WIDE
        if attribute.HasField("t"):
            _tensor(attribute.t)
        for tensor in attribute.tensors:
            _tensor(tensor)
        if attribute.HasField("g"):
            _graph(attribute.g)
        for graph in attribute.graphs:
            _graph(graph)


def _type(kind: TypeProto) -> None:
    if kind.tensor_type.elem_type == NARROW:
        kind.tensor_type.elem_type = WIDE


def _tensor(tensor: TensorProto) -> None:
    if tensor.data_type == NARROW:
        wide = numpy_helper.to_array(tensor).astype("float32")
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
