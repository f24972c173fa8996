"""ONNX: the exporter, the metadata and structure of its files, and casts to narrower precisions."""
