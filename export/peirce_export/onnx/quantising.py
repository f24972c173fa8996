"""Weights as integers of 8 or 4 bits, by ONNX Runtime's own tools: of matrix products alone.

Norms, softmaxes, embeddings and position tables stay as they are, and so does a product of which no factor is constant.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx_ir as ir

from peirce.errors import ExportError
from peirce.parts import PART
from peirce_export.metadata import BITS, DYNAMIC, INT4, PREFIX
from peirce_export.onnx.optimizer import forget_weight_shapes

_PRODUCTS = ("MatMul", "Gemm")
_BLOCK = 32
"""Weights that share a scale where weights alone are rounded."""


def quantise(graph: ir.Model, how: str) -> ir.Model:
    """A graph in float32 with the weights of its products in 8 bits, or in 4.

    Args:
        graph: the graph, its weights in memory.
        how: `dynamic` also rounds what the weights are multiplied with, by its range in each run, and multiplies
            integers; `weights` rounds the weights alone, in blocks, and multiplies real numbers; `weights4` does so in
            4 bits.

    Raises:
        ExportError: no product of the graph outside of its loops has a constant weight.
    """
    forget_weight_shapes(graph)
    proto = ir.to_proto(graph)
    parts = {
        node.name: {p.key: p.value for p in node.metadata_props}.get(PART, "") for node in proto.graph.node
    }
    excluded = [name for name, part in parts.items() if part.startswith("positions.")]
    found = (
        _dynamic(proto, excluded)
        if how == DYNAMIC
        else _weights(proto, excluded, 4 if BITS[how] == INT4 else 8)
    )
    narrow = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}
    if not any(tensor.data_type in narrow and tensor.dims for tensor in found.graph.initializer):
        raise ExportError(
            "no product of the graph outside of its loops has a constant weight, so "
            f"{BITS[how]} changes nothing; leave it out"
        )
    result = ir.from_proto(found)
    result.metadata_props.update(graph.metadata_props)
    result.metadata_props[f"{PREFIX}quantisation"] = how
    return result


def _dynamic(proto: onnx.ModelProto, excluded: list[str]) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder, _quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        _unshare_weights(proto)
        path = Path(folder) / "int8.onnx"
        quantize_dynamic(
            proto,
            path,
            op_types_to_quantize=list(_PRODUCTS),
            nodes_to_exclude=excluded,
            per_channel=True,
            # CPUs without VNNI add two products in 16 bits: with 8-bit weights the sum would saturate there.
            reduce_range=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=True,
            extra_options={"MatMulConstBOnly": True},
        )
        return onnx.load(str(path))


def _unshare_weights(proto: onnx.ModelProto) -> None:
    """Give each Gemm weights of its own: the tool turns them about in place, under an embedding that shares them."""
    readers = Counter(name for node in proto.graph.node for name in {*node.input})
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Gemm" and readers[node.input[1]] > 1 and node.input[1] in weights:
            proto.graph.initializer.append(weights[node.input[1]])
            node.input[1] = proto.graph.initializer[-1].name = f"{node.output[0]}.weights"


def _weights(proto: onnx.ModelProto, excluded: list[str], bits: int) -> onnx.ModelProto:
    with _quiet():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer as Tool

        tool = Tool(proto, bits=bits, block_size=_BLOCK, is_symmetric=True, nodes_to_exclude=excluded)
        tool.process()
        return tool.model.model


@contextmanager
def _quiet() -> Iterator[None]:
    """ONNX Runtime's tools configure the logging of the whole process when they are imported, and advise."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
