"""ONNX: the exporter, and what its files are to verification and to ONNX Runtime."""
