"""An ONNX file as verification sees it; one in bfloat16 is run as a float32 one with the same (rounded) weights."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path

import numpy as np
import onnx
from attrs import evolve
from onnx import AttributeProto, GraphProto, TensorProto, numpy_helper

from peirce.errors import ExportError
from peirce.parts import Signature
from peirce_export.failures import DtypeMismatch
from peirce_export.onnx.content import NARROW, Content, Weights, graphs_of
from peirce_export.onnx.providers import CPU
from peirce_export.onnx.session import OnnxFile
from peirce_export.onnx.structure import check, dims
from peirce_export.verification import Verifiable

NARROW_NOTE = (
    "bfloat16 does not run on ONNX Runtime's CPU provider: names, dims and dtypes were checked on the file "
    "itself, values on a copy of it cast to float32."
)
_WIDE = TensorProto.FLOAT
_CASTS = {"to", "dtype", "output_dtype"}
"""Attributes that hold a dtype as a number."""


class OnnxGraph(Verifiable):
    """An ONNX file, to verify.

    Raises:
        ModelFileError: the file was not exported by Peirce.
    """

    def __init__(self, content: Content) -> None:
        self.path, self.metadata, self._content = content.path, content.metadata, content
        self._narrow = self.metadata.precision == "bfloat16"
        self.notes = (NARROW_NOTE,) if self._narrow else ()

    def check(self, signature: Signature) -> None:
        """Names, dtypes and dims, then the rules of ONNX."""
        check(self._content.proto, signature, self.metadata.precision, str(self.path))
        check_graph(self.path)

    def shape(self, output: str) -> tuple[str | int, ...]:
        """The dims of an output."""
        return next(dims(node) for node in self._content.proto.graph.output if node.name == output)

    def open_file(self, providers: Sequence[str] | None) -> AbstractContextManager[OnnxFile]:
        """The file in ONNX Runtime, by default on the CPU."""
        return closing(open_widened(self._content, (CPU,) if providers is None else providers))


def open_widened(content: Content, providers: Sequence[str] = (CPU,)) -> OnnxFile:
    """A file, or a wider copy of one in bfloat16, in ONNX Runtime."""
    content, weights = widen(content) if content.metadata.precision == "bfloat16" else (content, None)
    return OnnxFile(content, providers, weights=weights)


def check_graph(path: Path) -> None:
    """The rules of ONNX itself, types of the inner nodes included.

    Raises:
        DtypeMismatch: a node gets or gives another type than its operator or its declaration says.
        ExportError: any other rule is broken.
    """
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # onnx has two exceptions, and its bindings have others for malformed graphs
        text = " ".join(str(error).split())
        typed = isinstance(error, onnx.shape_inference.InferenceError) and "type" in text.lower()
        fault = DtypeMismatch if typed else ExportError
        raise fault(f"{path} breaks the rules of ONNX: {text}") from error


def widen(content: Content) -> tuple[Content, Weights]:
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
            if tensor.name not in weights:  # all weights together may exceed the limit of protobuf
                weights[tensor.name] = numpy_helper.to_array(tensor).astype(np.float32), int(_WIDE)
            wide = TensorProto(
                name=tensor.name, dims=tensor.dims, data_type=_WIDE, data_location=TensorProto.EXTERNAL
            )
            wide.external_data.add(key="location", value="widened")
            tensor.CopyFrom(wide)
    for graph in (each for whole in (proto.graph, *proto.functions) for each in graphs_of(whole)):
        values, tensors = [*graph.value_info], list[TensorProto]()
        if isinstance(graph, GraphProto):
            values += [*graph.input, *graph.output]
            tensors += graph.initializer
        for attribute in (each for node in graph.node for each in node.attribute):
            if attribute.type == AttributeProto.INT and attribute.name in _CASTS and attribute.i == NARROW:
                attribute.i = _WIDE
            tensors += [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]
        for tensor in tensors:
            if tensor.data_type == NARROW:
                tensor.CopyFrom(
                    numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name)
                )
        for value in values:
            if value.type.tensor_type.elem_type == NARROW:
                value.type.tensor_type.elem_type = _WIDE
    found = Content(content.path, proto.SerializeToString(), proto)
    found.metadata = evolve(content.metadata, precision="float32")
    return found, weights
