"""Parses a verified ONNX file with TensorRT and builds an engine from it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen
from peirce.errors import ExportError
from peirce.parts import Signature

from peirce_export.tensorrt.backends import Backend
from peirce_export.tensorrt.profiles import Profile, shapes

FLAGS = {
    "tf32": "TF32",
    "refit": "REFIT",
    "strip_plan": "STRIP_PLAN",
    "version_compatible": "VERSION_COMPATIBLE",
}
"""TensorRT's builder flags, by the names that Peirce's options have."""


@frozen(kw_only=True)
class Settings:
    """How TensorRT builds; the names are TensorRT's own.

    Args:
        capabilities: compute capabilities to build for, such as `8.9`; `rtx` alone takes any.
        flags: which of `FLAGS` are on.
        workspace: the most bytes of scratch memory that a tactic may use; None leaves it to TensorRT.
        hardware_compatibility_level: `none`, `ampere_plus` or `same_compute_capability`.
        builder_optimization_level: 0 to 5; None leaves it to TensorRT.
        timing_cache: a file of measured tactics, read if it is there and written after the build.
    """

    capabilities: Sequence[str] = ()
    flags: Mapping[str, bool] = field(factory=dict)
    workspace: int | None = None
    hardware_compatibility_level: str = "none"
    builder_optimization_level: int | None = None
    timing_cache: Path | None = None


@frozen(kw_only=True)
class Built:
    """An engine.

    Args:
        plan: its bytes.
        layers: of the network that the parser made.
        seconds: that the build took.
    """

    plan: memoryview
    layers: int
    seconds: float


def build(
    file: Path,
    signature: Signature,
    profiles: Sequence[Profile],
    backend: Backend,
    settings: Settings,
) -> Built:
    """An engine of an ONNX file.

    Args:
        file: as Peirce's ONNX exporter wrote it.
        signature: of the file.
        profiles: the sizes to build for.
        backend: the distribution of TensorRT.
        settings: how to build.

    Raises:
        NotTaken: TensorRT does not take the graph; the error names parts and nodes.
        ExportError: TensorRT cannot build it.
    """
    logger = _Log(backend)
    builder = backend.module.Builder(logger.logger)
    network = parsed(file, builder, logger, backend)
    config = _config(builder, signature, profiles, backend, settings)
    cache = _timing_cache(config, settings)
    started = time.perf_counter()
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise ExportError(
            f"TensorRT {backend.version} could not build {file.name}: {logger.said() or 'it gives no reason'}; look at "
            "the sizes of --profile and at --workspace, or run the ONNX file with ONNX Runtime"
        )
    if cache is not None and settings.timing_cache is not None:
        from peirce.files import write_whole

        write_whole(settings.timing_cache, bytes(config.get_timing_cache().serialize()))
    return Built(
        plan=memoryview(plan), layers=network.num_layers, seconds=round(time.perf_counter() - started, 1)
    )


def parsed(file: Path, builder: Any, logger: _Log, backend: Backend) -> Any:
    """The network of an ONNX file.

    Raises:
        NotTaken: TensorRT does not take it; the error names parts and nodes.
    """
    flags = getattr(backend.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if flags is None else 1 << int(flags))
    parser = backend.module.OnnxParser(network, logger.logger)
    if not parser.parse_from_file(str(file)):
        import onnx

        from peirce_export.tensorrt.refusals import not_taken, refusals

        raise not_taken(refusals(parser, onnx.load(file, load_external_data=False).graph))
    return network


def _config(
    builder: Any, signature: Signature, profiles: Sequence[Profile], backend: Backend, settings: Settings
) -> Any:
    trt, config = backend.module, builder.create_builder_config()
    for sizes in profiles:
        profile = builder.create_optimization_profile()
        for spec in signature.inputs:
            profile.set_shape(spec.name, *shapes(spec, sizes))
        config.add_optimization_profile(profile)
    for name, on in settings.flags.items():
        flag = getattr(trt.BuilderFlag, FLAGS[name])
        (config.set_flag if on else config.clear_flag)(flag)
    level = settings.hardware_compatibility_level.upper()
    config.hardware_compatibility_level = getattr(trt.HardwareCompatibilityLevel, level)
    if settings.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, settings.workspace)
    if settings.builder_optimization_level is not None:
        config.builder_optimization_level = settings.builder_optimization_level
    if settings.capabilities:
        config.num_compute_capabilities = len(settings.capabilities)
        for i, each in enumerate(settings.capabilities):
            config.set_compute_capability(backend.capability(each), i)
    return config


def _timing_cache(config: Any, settings: Settings) -> Any:
    if settings.timing_cache is None:
        return None
    content = read_timing_cache(settings.timing_cache)
    cache = config.create_timing_cache(content)
    if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
        raise ExportError(
            f"timing cache {settings.timing_cache} is not of this TensorRT and GPU, or damaged; name another file"
        )
    return cache


def read_timing_cache(timing_cache: Path) -> bytes:
    """What a timing cache holds; nothing yet where there is none.

    Raises:
        ExportError: it cannot be read, or not be written later.
    """
    if not timing_cache.parent.is_dir():
        raise ExportError(f"timing cache {timing_cache}: there is no folder {timing_cache.parent}; create it")
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

    def said(self) -> str:
        """The last errors, on one line."""
        return " ".join("; ".join(self._errors[-3:]).split())[:2000]
