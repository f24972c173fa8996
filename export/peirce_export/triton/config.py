"""Configurations of Triton, made with its own messages: what a model takes and gives, how it is batched and run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from attrs import field, frozen
from peirce.errors import ExportError
from peirce.model import Field, Pipeline
from peirce.parts import Signature, TensorSpec

Kind = Literal["onnxruntime", "tensorrt", "python"]
DEVICES = ("auto", "cpu", "gpu")
FILES: Mapping[str, str] = {"onnxruntime": "model.onnx", "tensorrt": "model.plan", "python": "model.py"}
"""What a version of each kind is opened by."""
CONFIG = "config.pbtxt"
MASK = "mask"
"""The file of a warm-up that marks all tokens as real, in the folder that Triton reads such files from."""
WARMUP = "warmup"
WARM = 16
"""The size of a symbolic dim in a warm-up, where the model takes so many."""
_TYPES = {
    "int64": "TYPE_INT64",
    "bool": "TYPE_BOOL",
    "float32": "TYPE_FP32",
    "float16": "TYPE_FP16",
    "bfloat16": "TYPE_BF16",
    "text": "TYPE_STRING",
}


@frozen(kw_only=True)
class Serving:
    """How models are served.

    Args:
        max_batch: the most rows of a batch; 0 for none, where the model cannot be batched or must not.
        delay: how many microseconds a request may wait for others.
        instances: copies of a model on each device.
        device: where it runs.
        versions: how many versions are served, the newest.
    """

    max_batch: int
    delay: int = 0
    instances: int = 1
    device: str = "auto"
    versions: int = 1


@frozen(kw_only=True)
class Served:
    """A model of tensors as it is served.

    Args:
        name: its name at the server.
        kind: which backend runs it.
        signature: its inputs and outputs.
        precision: what `float` stands for.
        labels: the outputs whose last dim has names.
        profiles: how many optimisation profiles its engine has.
    """

    name: str
    kind: Kind
    signature: Signature
    precision: str
    labels: Collection[str] = field(default=())
    profiles: int = 1


def messages() -> Any:
    """The module of Triton's messages.

    Raises:
        ExportError: `tritonclient` is not installed.
    """
    try:
        from tritonclient.grpc import model_config_pb2
    except (ImportError, RuntimeError) as error:  # it raises a RuntimeError where grpcio is missing
        raise ExportError(
            "a Triton repository is written with Triton's own messages; run `pip install 'peirce[triton]'`"
        ) from (error if isinstance(error, ImportError) else error.__cause__ or error)
    return model_config_pb2


def text_of(config: Any) -> str:
    """A configuration as `config.pbtxt` holds it."""
    from google.protobuf import text_format

    return text_format.MessageToString(config)


def parsed(text: str, where: str) -> Any:
    """A configuration from its text; an unknown field is an error.

    Raises:
        ExportError: it is none.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, messages().ModelConfig())
    except text_format.ParseError as error:
        raise ExportError(f"{where} is no configuration of Triton: {error}; remove or restore it") from error


def of_tensors(model: Served, serving: Serving) -> Any:
    """The configuration of a model of tensors."""
    made = messages()
    config = made.ModelConfig(
        name=model.name,
        backend=model.kind,
        default_model_filename=FILES[model.kind],
        max_batch_size=serving.max_batch,
    )
    batched = serving.max_batch > 0
    for spec in model.signature.inputs:
        optional = model.kind == "python" and not spec.required and spec.default is not None
        config.input.append(made.ModelInput(optional=optional, **_tensor(made, spec, model, batched)))
    for spec in model.signature.outputs:
        label = labels_of(spec.name) if spec.name in model.labels else ""
        config.output.append(made.ModelOutput(label_filename=label, **_tensor(made, spec, model, batched)))
    if batched:
        config.dynamic_batching.max_queue_delay_microseconds = serving.delay
    group = config.instance_group.add(count=serving.instances, kind=_device(made, model.kind, serving.device))
    if model.profiles > 1:
        group.profile.extend(str(number) for number in range(model.profiles))
    config.version_policy.latest.num_versions = serving.versions
    for rows in dict.fromkeys((1, max(1, serving.max_batch))):
        config.model_warmup.append(_warmup(made, model, rows, batched))
    return config


def of_pipeline(name: str, pipeline: type[Pipeline], serving: Serving) -> Any:
    """The configuration of a pipeline: one question a request, a tensor for each of its fields."""
    made = messages()
    config = made.ModelConfig(name=name, backend="python", default_model_filename=FILES["python"])
    for each in pipeline.question:
        config.input.append(made.ModelInput(optional=not each.required, **_field(made, each)))
    for each in pipeline.answer:
        config.output.append(made.ModelOutput(**_field(made, each)))
    config.model_transaction_policy.decoupled = pipeline.streams
    config.instance_group.add(count=serving.instances, kind=made.ModelInstanceGroup.KIND_CPU)
    config.version_policy.latest.num_versions = serving.versions
    return config


def labels_of(output: str) -> str:
    """The file of the names of an output's last dim."""
    return f"labels.{output}.txt"


def shape(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    """The shape of an input with sizes for its symbolic dims."""
    return [dim if isinstance(dim, int) else sizes[dim] for dim in spec.dims]


def warm_sizes(signature: Signature, rows: int) -> dict[str, int]:
    """A size for each symbolic dim of a warm-up, `rows` for the first dim of the first input."""
    sizes = {symbol: min(WARM, signature.largest.get(symbol, WARM)) for symbol in signature.symbols}
    first = signature.inputs[0].dims[0]
    return sizes | ({first: rows} if isinstance(first, str) else {})


def mask_bytes(signature: Signature) -> bytes:
    """As many true values as the longest mask of a warm-up with one row has."""
    sizes = warm_sizes(signature, 1)
    counts = [_product(shape(spec, sizes)) for spec in signature.inputs if spec.masks is not None]
    return b"\x01" * max(counts, default=0)


def different(old: Any, new: Any) -> str | None:
    """What of two configurations one version of a model cannot share with another."""
    if old.backend != new.backend:
        return f"it is of the kind {old.backend}, not {new.backend}"
    for kind in ("input", "output"):
        before, after = ({each.name: each for each in getattr(config, kind)} for config in (old, new))
        for name in (*before, *after):
            if name not in before or name not in after:
                return f"{'only the new one' if name in after else 'it'} has the {kind} {name!r}"
            one, other = before[name], after[name]
            if (one.data_type, [*one.dims]) != (other.data_type, [*other.dims]):
                return f"its {kind} {name!r} is {_said(one)}, and the new one's is {_said(other)}"
    if (old.max_batch_size > 0) != (new.max_batch_size > 0):
        return "one of the two is batched"
    return None


def _said(tensor: Any) -> str:
    return f"{messages().DataType.Name(tensor.data_type)} {[*tensor.dims]}"


def _tensor(made: Any, spec: TensorSpec, model: Served, batched: bool) -> dict[str, Any]:
    """What inputs and outputs have in common. Triton has no tensor of the batch alone: that is [batch, 1], reshaped."""
    dims = [dim if isinstance(dim, int) else -1 for dim in (spec.dims[1:] if batched else spec.dims)]
    found = {"name": spec.name, "data_type": _type(made, spec, model), "dims": dims or [1]}
    return found if dims else found | {"reshape": made.ModelTensorReshape()}


def _type(made: Any, spec: TensorSpec, model: Served) -> int:
    return made.DataType.Value(_TYPES[model.precision if spec.dtype == "float" else spec.dtype])


def _field(made: Any, each: Field) -> dict[str, Any]:
    kind = "float32" if each.kind == "float" else each.kind
    return {
        "name": each.name,
        "data_type": made.DataType.Value(_TYPES[kind]),
        "dims": [-1 if each.many else 1],
    }


def _device(made: Any, kind: Kind, device: str) -> int:
    group = made.ModelInstanceGroup
    if kind == "tensorrt":
        return group.KIND_GPU
    if device == "auto":
        # The Python backend leaves the choice to the session.
        return group.KIND_CPU if kind == "python" else group.KIND_AUTO
    return group.KIND_CPU if device == "cpu" else group.KIND_GPU


def _warmup(made: Any, model: Served, rows: int, batched: bool) -> Any:
    sizes = warm_sizes(model.signature, rows)
    warmup = made.ModelWarmup(
        name=f"{rows} rows" if rows > 1 else "one row", batch_size=rows if batched else 1
    )
    for spec in model.signature.inputs:
        dims = shape(spec, sizes)[1:] if batched else shape(spec, sizes)
        given = warmup.inputs[spec.name]
        given.data_type = _type(made, spec, model)
        given.dims.extend(dims or [1])
        # A mask of zeros marks all rows as empty, which the model takes, but one row does as requests do.
        if spec.masks is not None and rows == 1:
            given.input_data_file = MASK
        else:
            given.zero_data = True
    return warmup


def _product(sizes: Iterable[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
