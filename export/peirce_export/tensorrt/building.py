"""Parses a verified ONNX file with TensorRT and builds an engine from it, and the options that say how."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen, validators

from peirce.errors import ExportError
from peirce.files import write_whole
from peirce.parts import Signature
from peirce_export.casting import DTYPES
from peirce_export.onnx.exporter import DEFAULT_OPSET, OnnxOptions
from peirce_export.tensorrt.backends import Backend
from peirce_export.tensorrt.profiles import Profile, shapes

_MIB = 1 << 20

FLAGS = ("tf32", "refit", "strip_plan", "version_compatible")
"""TensorRT's builder flags, by the names that Peirce's options have."""


def _texts(given: str | float | Iterable[str | float]) -> tuple[str, ...]:
    """One or several; 8.9 is text as well as a number."""
    return tuple(map(str, (given,) if isinstance(given, str | float | int) else given))


@frozen(kw_only=True)
class TensorRTOptions:
    """Options of the TensorRT exporter; what TensorRT has a name for has that name.

    Args:
        backend: `rtx` builds ahead of time for named compute capabilities, without a GPU; `tensorrt` builds on and for
            the GPU of the machine. None takes what is installed, `tensorrt` first where there is a GPU.
        compute_capability: what `rtx` builds for, such as 8.9; may be given several times. Without any it is every one
            that it knows from 8.0 on; 7.5 takes float16 alone.
        profile: sizes to build for, `DIM=MIN:OPT:MAX`; may be given several times. A dim that is named again begins
            another profile.
        opset: of the ONNX file in between.
        precision: float32, float16 or bfloat16; None keeps the model's own. The network is strongly typed.
        generate: build the two engines of a model that generates: FILE and FILE with `.step` before its suffix.
        tf32: let float32 products compute in TF32 on GPUs that have it.
        workspace: the most MiB of scratch memory for a tactic.
        timing_cache: a file of measured tactics, read and written; `tensorrt` alone measures.
        refit: let the weights be exchanged later.
        strip_plan: leave the weights out; a session takes them from the ONNX file, which is kept beside the engine.
        version_compatible: let later versions of TensorRT run the engine.
        hardware_compatibility_level: `none`, `ampere_plus` or `same_compute_capability`.
        builder_optimization_level: 0 (fast build) to 5 (fast engine).
        keep_onnx: keep the ONNX file beside the engine.
        seed: of the random inputs that the ONNX file is verified with.
    """

    backend: Literal["rtx", "tensorrt"] | None = field(
        default=None, validator=validators.in_((None, "rtx", "tensorrt"))
    )
    compute_capability: tuple[str, ...] = field(default=(), converter=_texts)
    profile: tuple[str, ...] = field(default=(), converter=_texts)
    opset: int = DEFAULT_OPSET
    precision: str | None = field(default=None, validator=validators.in_((None, *DTYPES)))
    generate: bool = False
    tf32: bool = True
    workspace: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    timing_cache: str | None = None
    refit: bool = False
    strip_plan: bool = False
    version_compatible: bool = False
    hardware_compatibility_level: str = field(
        default="none", validator=validators.in_(("none", "ampere_plus", "same_compute_capability"))
    )
    builder_optimization_level: int | None = field(
        default=None, validator=validators.optional(validators.in_(range(6)))
    )
    keep_onnx: bool = False
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        self.onnx()

    def onnx(self) -> OnnxOptions:
        """The options of the ONNX export in between.

        Raises:
            ValueError: it does not take one of them.
        """
        return OnnxOptions(
            opset=self.opset,
            precision=self.precision,
            generate=self.generate,
            seed=self.seed,
        )


@frozen(kw_only=True)
class BuiltEngine:
    """An engine: its bytes, its number of layers, and the seconds that the build took."""

    plan: memoryview
    layers: int
    seconds: float


def build(
    file: Path,
    signature: Signature,
    profiles: Sequence[Profile],
    backend: Backend,
    options: TensorRTOptions,
    capabilities: Sequence[str],
) -> BuiltEngine:
    """Build an engine from an ONNX file.

    Raises:
        NotTaken: TensorRT does not take the graph; the error names parts and nodes.
        ExportError: TensorRT cannot build it.
    """
    logger = _Log(backend)
    builder = backend.module.Builder(logger.logger)
    network = parse(file, builder, logger, backend)
    config = _config(builder, signature, profiles, backend, options, capabilities)
    timing_cache = Path(options.timing_cache) if options.timing_cache else None
    if timing_cache is not None:
        _use_timing_cache(config, timing_cache)
    started = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise ExportError(
            f"TensorRT {backend.version} could not build {file.name}: {logger.messages() or 'it gives no reason'}; "
            "look at the sizes of --profile and at --workspace, or run the ONNX file with ONNX Runtime"
        )
    if timing_cache is not None:
        write_whole(timing_cache, bytes(config.get_timing_cache().serialize()))
    return BuiltEngine(
        plan=memoryview(plan), layers=network.num_layers, seconds=round(time.perf_counter() - started, 1)
    )


def parse(file: Path, builder: Any, logger: _Log, backend: Backend) -> Any:
    """The network of an ONNX file.

    Raises:
        NotTaken: TensorRT does not take it; the error names parts and nodes.
    """
    # TensorRT 10 types strongly where it is asked to; 11 and TensorRT for RTX always do, and take the flag as well.
    typed = backend.module.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    network = builder.create_network(1 << int(typed))
    parser = backend.module.OnnxParser(network, logger.logger)
    if not parser.parse_from_file(str(file)):
        import onnx

        from peirce_export.tensorrt.refusals import NotTaken, refusals

        raise NotTaken(refusals(parser, onnx.load(file, load_external_data=False).graph))
    return network


def _config(
    builder: Any,
    signature: Signature,
    profiles: Sequence[Profile],
    backend: Backend,
    options: TensorRTOptions,
    capabilities: Sequence[str],
) -> Any:
    trt, config = backend.module, builder.create_builder_config()
    for sizes in profiles:
        profile = builder.create_optimization_profile()
        for spec in signature.inputs:
            profile.set_shape(spec.name, *shapes(spec, sizes))
        config.add_optimization_profile(profile)
    for name in FLAGS:
        (config.set_flag if getattr(options, name) else config.clear_flag)(
            getattr(trt.BuilderFlag, name.upper())
        )
    level = options.hardware_compatibility_level.upper()
    config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, level)
    if options.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace * _MIB)
    if options.builder_optimization_level is not None:
        config.builder_optimization_level = options.builder_optimization_level
    if capabilities:
        config.num_compute_capabilities = len(capabilities)
        for i, each in enumerate(capabilities):
            value = getattr(trt.ComputeCapability, f"SM{each.replace('.', '')}")
            config.set_compute_capability(value, i)
    return config


def _use_timing_cache(config: Any, timing_cache: Path) -> None:
    cache = config.create_timing_cache(read_timing_cache(timing_cache))
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        raise ExportError(
            f"timing cache {timing_cache} is damaged, or of another TensorRT or GPU; name another file"
        )


def read_timing_cache(timing_cache: Path) -> bytes:
    """The content of a timing cache; empty if there is none yet.

    Raises:
        ExportError: it cannot be read, or its folder does not exist.
    """
    if not timing_cache.parent.is_dir():
        raise ExportError(
            f"timing cache {timing_cache}: folder {timing_cache.parent} does not exist; create it"
        )
    try:
        return timing_cache.read_bytes() if timing_cache.exists() else b""
    except OSError as error:
        raise ExportError(
            f"timing cache {timing_cache} cannot be read: {error}; name another file"
        ) from error


class _Log:
    """TensorRT's errors, kept for the message that ends the build."""

    def __init__(self, backend: Backend) -> None:
        errors = self._errors = list[str]()

        class Logger(backend.module.ILogger):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()

            def log(self, severity: Any, message: str) -> None:
                if severity in (backend.module.ILogger.ERROR, backend.module.ILogger.INTERNAL_ERROR):
                    errors.append(message)

        self.logger = Logger()

    def messages(self) -> str:
        """The last errors, on one line."""
        return " ".join("; ".join(self._errors[-3:]).split())[:2000]
