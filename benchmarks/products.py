"""One large matrix product in each library that is here: what `the limit` of other benchmarks is, and could be.

torch's float32 products are those of its BLAS, which is MKL in the wheels for x86. Its other library, oneDNN, has them
too, as an operation of torch's own and as convolutions, and ONNX Runtime brings its own.

python benchmarks/products.py [--repeats N] [--size N]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import torch
from measuring import beside, parsed, record, spread, turns
from onnx import TensorProto, helper, numpy_helper

PEER = "torch.mm"


def main() -> None:
    options = parsed(__doc__, 7, ("--size", {"type": int, "default": 2048}))
    size = options.size
    one, other = torch.randn(size, size), torch.randn(size, size)
    pixels, kernel = one.view(1, size, 1, size).permute(0, 3, 1, 2), other[:, :, None, None]
    narrow = one.bfloat16(), other.bfloat16()
    session = product(other.numpy(), options.threads)
    ways: dict[str, Callable[[], object]] = {
        PEER: lambda: torch.mm(one, other),
        "oneDNN in torch": lambda: torch.ops.mkldnn._linear_pointwise(one, other, None, "none", [], ""),
        "oneDNN, as a convolution": lambda: torch.conv2d(pixels, kernel, dilation=2),
        "ONNX Runtime": lambda: session.run(None, {"x": one.numpy()}),
        "torch.mm, bfloat16": lambda: torch.mm(*narrow),
    }
    with torch.no_grad():
        times = turns(ways, options.repeats)
    record(
        "products",
        [
            {
                "way": name,
                "size": size,
                **spread("GFLOP/s", [2e-9 * size**3 / each for each in times[name]]),
                **beside("time / torch.mm", times[name], times[PEER]),
            }
            for name in ways
        ],
    )


def product(weight: np.ndarray, threads: int) -> onnxruntime.InferenceSession:
    """A graph of one product with a constant."""
    sizes = [*weight.shape]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    how = onnxruntime.SessionOptions()
    how.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), how, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
