"""Configurations of Triton, made with its own messages: what a model takes and gives, how it is batched and run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, Literal

from attrs import field, frozen, validators

from peirce.errors import ExportError
from peirce.parts import Signature, TensorSpec
from peirce_export.metadata import Metadata
from peirce_export.onnx.exporter import DEFAULT_OPSET, OnnxOptions
from peirce_export.pipelines import Field, Pipeline

Kind = Literal["onnxruntime", "tensorrt", "python"]
DEVICES = ("auto", "cpu", "gpu")
FILES: Mapping[str, str] = {"onnxruntime": "model.onnx", "tensorrt": "model.plan", "python": "model.py"}
"""The file that a version of each kind is opened by."""
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


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@frozen(kw_only=True)
class TritonOptions:
    """Options of the Triton exporter.

    Args:
        kind: the backend that runs the model: `onnxruntime`, `tensorrt`, or `python`, which is a session of Peirce for
            servers without the other two.
        name: of the model at the server; the spec's name if None.
        questions: put a model in front that takes whole questions, where the model was saved with what that needs.
        generate: serve the two graphs of a model that generates, NAME and NAME_step.
        precision: float32, float16, bfloat16, or but for `tensorrt` int8; None keeps the model's own.
        max_batch: the most rows of a batch; 0 for no batching. Of a model whose rows depend on each other it is 0.
        delay: how many microseconds a request may wait for others to share its batch.
        instances: copies of each model on each device.
        device: `cpu`, `gpu`, or `auto` for a GPU where there is one.
        versions: how many versions are served, the newest.
        profile: of `tensorrt`, the sizes to build for, `DIM=MIN:OPT:MAX`; may be given several times.
        opset: of the ONNX file.
        seed: of the random inputs that the ONNX file is verified with.
    """

    kind: Kind = field(default="onnxruntime", validator=validators.in_(tuple(FILES)))
    name: str | None = None
    questions: bool = True
    generate: bool = False
    precision: str | None = None
    max_batch: int = field(default=32, validator=validators.ge(0))
    delay: int = field(default=0, validator=validators.ge(0))
    instances: int = field(default=1, validator=validators.ge(1))
    device: str = field(default="auto", validator=validators.in_(DEVICES))
    versions: int = field(default=1, validator=validators.ge(1))
    profile: tuple[str, ...] = field(default=(), converter=_texts)
    opset: int = DEFAULT_OPSET
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        self.onnx()

    def onnx(self) -> OnnxOptions:
        """The options of the ONNX export in between.

        Raises:
            ValueError: it does not take one of them.
        """
        return OnnxOptions(opset=self.opset, precision=self.precision, generate=self.generate, seed=self.seed)


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


def config_text(config: Any) -> str:
    """The text of a configuration, for `config.pbtxt`."""
    from google.protobuf import text_format

    return text_format.MessageToString(config)


def parse(text: str, where: str) -> Any:
    """A configuration from its text; an unknown field is an error.

    Raises:
        ExportError: the text is not a configuration.
    """
    from google.protobuf import text_format

    try:
        return text_format.Parse(text, messages().ModelConfig())
    except text_format.ParseError as error:
        raise ExportError(
            f"{where} is not a configuration of Triton: {error}; remove or restore it"
        ) from error


def tensor_config(
    name: str, metadata: Metadata, options: TritonOptions, labels: Collection[str] = (), profiles: int = 1
) -> Any:
    """The configuration of a model of tensors, some outputs of which have names for the places of their last dim."""
    proto, kind, batched = messages(), options.kind, options.max_batch > 0
    config = _config(name, kind, options)
    config.max_batch_size = options.max_batch
    for spec in metadata.signature.inputs:
        optional = kind == "python" and not spec.required and spec.default is not None
        config.input.append(proto.ModelInput(optional=optional, **_tensor(proto, spec, metadata, batched)))
    for spec in metadata.signature.outputs:
        label = labels_file(spec.name) if spec.name in labels else ""
        config.output.append(
            proto.ModelOutput(label_filename=label, **_tensor(proto, spec, metadata, batched))
        )
    if batched:
        config.dynamic_batching.max_queue_delay_microseconds = options.delay
    config.instance_group[0].kind = _device(proto, kind, options.device)
    if profiles > 1:
        config.instance_group[0].profile.extend(str(number) for number in range(profiles))
    for rows in dict.fromkeys((1, max(1, options.max_batch))):
        config.model_warmup.append(_warmup(proto, metadata, rows, batched))
    return config


def pipeline_config(name: str, pipeline: type[Pipeline], options: TritonOptions) -> Any:
    """The configuration of a pipeline: one question a request, a tensor for each of its fields."""
    proto = messages()
    config = _config(name, "python", options)
    for each in pipeline.question:
        config.input.append(proto.ModelInput(optional=not each.required, **_field(proto, each)))
    for each in pipeline.answer:
        config.output.append(proto.ModelOutput(**_field(proto, each)))
    config.model_transaction_policy.decoupled = pipeline.streams
    return config


def _config(name: str, kind: Kind, options: TritonOptions) -> Any:
    """What all configurations say, of a model that runs on the CPU."""
    proto = messages()
    config = proto.ModelConfig(name=name, backend=kind, default_model_filename=FILES[kind])
    config.instance_group.add(count=options.instances, kind=proto.ModelInstanceGroup.KIND_CPU)
    config.version_policy.latest.num_versions = options.versions
    return config


def labels_file(output: str) -> str:
    """The name of the file with the labels of an output's last dim."""
    return f"labels.{output}.txt"


def _warm_sizes(signature: Signature, rows: int) -> dict[str, int]:
    """A size for each symbolic dim of a warm-up, `rows` for the first dim of the first input."""
    sizes = {symbol: min(WARM, signature.largest.get(symbol, WARM)) for symbol in signature.symbols}
    first = signature.inputs[0].dims[0]
    return sizes | ({first: rows} if isinstance(first, str) else {})


def mask_bytes(signature: Signature) -> bytes:
    """As many true values as the longest mask of a warm-up with one row has."""
    sizes = _warm_sizes(signature, 1)
    counts = [prod(_shape(spec, sizes)) for spec in signature.inputs if spec.masks is not None]
    return b"\x01" * max(counts, default=0)


def conflict(old: Any, new: Any) -> str | None:
    """Why the configuration of a model does not suit a new version of it; None if it does."""
    if old.backend != new.backend:
        return f"it is of the kind {old.backend}, not {new.backend}"
    for kind in ("input", "output"):
        before, after = ({each.name: each for each in getattr(config, kind)} for config in (old, new))
        for name in (*before, *after):
            if name not in before or name not in after:
                return f"{'only the new one' if name in after else 'it'} has the {kind} {name!r}"
            one, other = before[name], after[name]
            if (one.data_type, [*one.dims]) != (other.data_type, [*other.dims]):
                return f"its {kind} {name!r} is {_describe(one)}, and the new one's is {_describe(other)}"
    if (old.max_batch_size > 0) != (new.max_batch_size > 0):
        return "one of the two is batched"
    return None


def _describe(tensor: Any) -> str:
    return f"{messages().DataType.Name(tensor.data_type)} {[*tensor.dims]}"


def _tensor(proto: Any, spec: TensorSpec, metadata: Metadata, batched: bool) -> dict[str, Any]:
    """What inputs and outputs have in common. Triton has no tensor of the batch alone: that is [batch, 1], reshaped."""
    dims = [dim if isinstance(dim, int) else -1 for dim in spec.dims[batched:]]
    kind = proto.DataType.Value(_TYPES[metadata.dtype(spec.name)])
    found = {"name": spec.name, "data_type": kind, "dims": dims or [1]}
    return found if dims else found | {"reshape": proto.ModelTensorReshape()}


def _field(proto: Any, each: Field) -> dict[str, Any]:
    kind = "float32" if each.kind == "float" else each.kind
    return {
        "name": each.name,
        "data_type": proto.DataType.Value(_TYPES[kind]),
        "dims": [-1 if each.many else 1],
    }


def _device(proto: Any, kind: Kind, device: str) -> int:
    group = proto.ModelInstanceGroup
    if kind == "tensorrt":
        return group.KIND_GPU
    if device == "auto":
        # The Python backend leaves the choice to the session.
        return group.KIND_CPU if kind == "python" else group.KIND_AUTO
    return group.KIND_CPU if device == "cpu" else group.KIND_GPU


def _warmup(proto: Any, metadata: Metadata, rows: int, batched: bool) -> Any:
    sizes = _warm_sizes(metadata.signature, rows)
    warmup = proto.ModelWarmup(
        name=f"{rows} rows" if rows > 1 else "one row", batch_size=rows if batched else 1
    )
    for spec in metadata.signature.inputs:
        dims = _shape(spec, sizes)[batched:]
        given = warmup.inputs[spec.name]
        given.data_type = proto.DataType.Value(_TYPES[metadata.dtype(spec.name)])
        given.dims.extend(dims or [1])
        # A mask of zeros marks all rows as empty, which the model takes, but one row does as requests do.
        if spec.masks is not None and rows == 1:
            given.input_data_file = MASK
        else:
            given.zero_data = True
    return warmup


def _shape(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    return [dim if isinstance(dim, int) else sizes[dim] for dim in spec.dims]
