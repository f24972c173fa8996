"""Triton's configuration of every registered part."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import pytest
from every_part import SEARCHES, SPECS

from peirce.compose import build
from peirce.parts import Signature
from peirce.registry import Registry
from peirce_export.metadata import Metadata
from peirce_export.triton.batching import has_rows
from peirce_export.triton.config import Kind, TritonOptions, config_text, mask_bytes, parse, tensor_config


@pytest.fixture(scope="module")
def signatures(registry: Registry) -> Mapping[str, Signature]:
    names = (name for name in SPECS if name not in SEARCHES)
    return {name: build(SPECS[name], registry=registry).signature for name in names}


@pytest.mark.skipif(find_spec("tritonclient") is None, reason="pip install 'peirce[triton]'")
@pytest.mark.parametrize("kind", ["onnxruntime", "tensorrt", "python"])
def test_the_configuration_of_every_part_is_its_signature(
    kind: Kind, signatures: Mapping[str, Signature]
) -> None:
    for name, signature in signatures.items():
        batched = has_rows(signature)
        options = TritonOptions(kind=kind, max_batch=8 * batched, delay=50, instances=2, versions=3)
        described = Metadata(
            signature=signature,
            spec="",
            provenance={},
            precision="float16",
            opset_requested=20,
            opset_actual=20,
        )
        config = tensor_config(name, described, options)
        assert parse(config_text(config), name) == config
        for specs, tensors in ((signature.inputs, config.input), (signature.outputs, config.output)):
            assert [spec.name for spec in specs] == [tensor.name for tensor in tensors]
            for spec, tensor in zip(specs, tensors, strict=True):
                dims = [dim if isinstance(dim, int) else -1 for dim in spec.dims[batched:]]
                assert [*tensor.dims] == (dims or [1])
                assert tensor.HasField("reshape") == (not dims)
                assert tensor.data_type == {"int64": 9, "bool": 1, "float": 10}[spec.dtype]
        optional = {spec.name for spec in signature.inputs if not spec.required and spec.default is not None}
        assert {each.name for each in config.input if each.optional} == (
            optional if kind == "python" else set()
        )
        assert config.backend == kind
        assert (config.instance_group[0].count, config.version_policy.latest.num_versions) == (2, 3)
        assert config.HasField("dynamic_batching") == batched
        assert [each.batch_size for each in config.model_warmup] == ([1, 8] if batched else [1])
        for each in config.model_warmup:
            assert sorted(each.inputs) == sorted(spec.name for spec in signature.inputs)
        assert bool(mask_bytes(signature)) == any(spec.masks for spec in signature.inputs)
