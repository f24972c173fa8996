"""A bfloat16 graph as a float32 one with the same (rounded) weights, for runtimes that lack bfloat16."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, numpy_helper

from peirce_export.onnx.content import NARROW, Content, Weights

_WIDE = TensorProto.FLOAT
_CASTS = {"to", "dtype", "output_dtype"}
"""Attributes that hold a dtype as a number."""


def widened(content: Content) -> tuple[Content, Weights]:
    """A file with every bfloat16 tensor and type turned into float32, and its weights; the values do not change."""
    proto = onnx.ModelProto.FromString(content.data)
    weights = {
        name: ((values.astype(np.uint32) << 16).view(np.float32), int(_WIDE))
        if kind == NARROW
        else (values, kind)
        for name, (values, kind) in content.weights().items()
    }
    for tensor in proto.graph.initializer:
        if tensor.data_type == NARROW:
            if tensor.name not in weights:  # together they may be more than a file in protobuf may hold
                weights[tensor.name] = numpy_helper.to_array(tensor).astype(np.float32), int(_WIDE)
            wide = TensorProto(
                name=tensor.name, dims=tensor.dims, data_type=_WIDE, data_location=TensorProto.EXTERNAL
            )
            wide.external_data.add(key="location", value="widened")
            tensor.CopyFrom(wide)
    _graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            _node(node)
        for value in function.value_info:
            _type(value.type)
    return Content(content.path, proto.SerializeToString(), proto), weights


def _graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _type(value.type)
    for node in graph.node:
        _node(node)


def _node(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.INT and attribute.name in _CASTS and attribute.i == NARROW:
            attribute.i = _WIDE
        for tensor in (*((attribute.t,) if attribute.HasField("t") else ()), *attribute.tensors):
            _tensor(tensor)
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            _graph(graph)


def _type(kind: TypeProto) -> None:
    if kind.tensor_type.elem_type == NARROW:
        kind.tensor_type.elem_type = _WIDE


def _tensor(tensor: TensorProto) -> None:
    if tensor.data_type == NARROW:
        wide = numpy_helper.to_array(tensor).astype("float32")
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
