"""Triton Inference Server: repositories of models, and what runs in its Python backend.

`config` makes the configurations from signatures, with Triton's own messages; `batching` tells whether rows can be
batched; `repository` adds versions, whole; `exporter` is what `--to triton` names. `backend` and `calls` run inside the
server, without torch: a model as a session, and a pipeline in front of served models.
"""
