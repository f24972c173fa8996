"""TensorRT: engines from verified ONNX files, and the runtime of `.engine` files.

`profiles` knows sizes, `backends` the two distributions of TensorRT, `building` parses and builds, `refusals` finds the
part behind a node that TensorRT does not take, `header` is the file beside an engine, `exporter` and `runtime` are what
Peirce calls.
"""
