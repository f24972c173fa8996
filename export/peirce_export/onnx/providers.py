"""Execution providers of ONNX Runtime: which there are, their options, and the engines that they keep beside a file.

Nothing here, nor anything that it imports, may import torch: a serving machine need not have it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import onnxruntime as ort

from peirce.errors import InputError, ModelFileError, check_known, unknown
from peirce_export.onnx.content import DIGEST, Content, Weights
from peirce_export.onnx.plugin_providers import TENSORRT_RTX, plugin_devices, plugin_providers

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
FIX_BOTH = "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu"
_FATAL = 4

ProviderOptions = Mapping[str, Mapping[str, Any]]
"""Options in ONNX Runtime's own words, by the name of the provider."""


class BothRuntimesWarning(RuntimeWarning):
    """Both distributions of ONNX Runtime are installed; the one written last decides on CUDA."""


def both_runtimes() -> str | None:
    """A sentence with the fix if both distributions of ONNX Runtime are installed; else None."""
    found = []
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    if len(found) < 2:
        return None
    return (
        f"{' and '.join(found)} are both installed into one package folder, so CUDA may be lost unseen; keep one: "
        f"{FIX_BOTH}"
    )


def choose(providers: Sequence[str] | None, options: ProviderOptions | None) -> list[str]:
    """The providers to start, by preference; None takes CUDA where it is installed, then the CPU.

    Raises:
        InputError: this installation has no such provider, or options are given for one that is not used.
    """
    known = list(dict.fromkeys((*ort.get_available_providers(), *plugin_providers())))
    if providers is None:
        if problem := both_runtimes():
            warnings.warn(problem, BothRuntimesWarning, stacklevel=5)
        names = [name for name in (CUDA, CPU) if name in known]
    else:
        names = list(providers)
    if not names:
        raise InputError(f"no provider is named; available: {', '.join(known)}")
    for name in names:
        if name not in known:
            problem = both_runtimes()
            raise InputError(_unknown_provider(name, known) + (f". {problem}" if problem else ""))
    for name in options or ():
        check_known("provider to give options", name, names)
    return names


def _unknown_provider(name: str, known: Sequence[str]) -> str:
    """The sentence for a provider that is not here, which ONNX Runtime may have in another build."""
    names = {name.lower(), f"{name}ExecutionProvider".lower()}
    whole = next((each for each in ort.get_all_providers() if each.lower() in names), None)
    if whole is None or whole in known:
        return unknown("provider", name, known)
    return (
        f"the installed ONNX Runtime has no {whole}, only {', '.join(known)}; leave the provider out, or install a "
        "build that has it, such as onnxruntime-gpu for CUDA and TensorRT"
    )


def caches(names: Sequence[str], path: Path, digest: str | None) -> dict[str, dict[str, str]]:
    """Options by which TensorRT keeps its engines in `FILE.engines/DIGEST`, so that the next session starts at once.

    A file of other content has a folder of its own: TensorRT would take an old engine for its own.
    """
    if digest is None or not {TENSORRT, TENSORRT_RTX} & set(names):
        return {}
    folder = path.with_name(f"{path.name}.engines") / digest[-16:]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return {}  # where nothing can be kept, each session builds its engines
    place = str(folder)
    trt = {f"trt_{kind}_cache_enable": "1" for kind in ("engine", "timing")}
    trt |= {f"trt_{kind}_cache_path": place for kind in ("engine", "timing")}
    cache_options = {TENSORRT: trt, TENSORRT_RTX: {"nv_runtime_cache_path": place}}
    return {name: each for name, each in cache_options.items() if name in names}


def start(
    content: Content,
    weights: Weights,
    providers: Sequence[str] | None,
    provider_options: ProviderOptions | None,
    threads: int | None,
) -> Any:
    """Start ONNX Runtime's session of a file.

    Raises:
        InputError: a provider is not there, does not start, or refuses the options.
        ModelFileError: the file cannot be loaded.
    """
    given, names = as_texts(provider_options), choose(providers, provider_options)
    cache_options = caches(names, content.path, content.properties.get(DIGEST))
    options = {name: {**cache_options.get(name, {}), **given.get(name, {})} for name in names}
    session_options = ort.SessionOptions()
    # What it would log is in the error that it raises.
    session_options.log_severity_level = _FATAL
    if threads is not None:
        session_options.intra_op_num_threads = threads
    plugins = [name for name in names if name in plugin_providers()]
    for name in plugins:
        session_options.add_provider_for_devices(plugin_devices(name), options[name])
    others = [name for name in names if name not in plugins]
    try:
        to_value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
        values = [to_value(array, kind) for array, kind in weights.values()]
        session_options.add_external_initializers([*weights], values)
        if plugins:
            for name in others:
                if name != CPU:  # which is always there, after all others
                    session_options.add_provider(name, options[name])
            return ort.InferenceSession(content.data, session_options)
        # The fallback is to the CPU, and prints that to standard output.
        return ort.InferenceSession(
            content.data,
            session_options,
            providers=others,
            provider_options=[options[name] for name in others],
            enable_fallback=int(others != [CPU]),
        )
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        text = " ".join(str(error).split())
        if given and "option" in text.lower():
            raise InputError(f"{', '.join(names)} refuse the options {options}: {text}") from error
        hint = "the file or its external data is damaged or incomplete; `peirce export` writes it again"
        if "NOT_IMPLEMENTED" in text and content.metadata.precision == "bfloat16":
            hint = (
                "ONNX Runtime's CPU provider does not run bfloat16; "
                "run it with CUDA or TensorRT, or export with --precision float32"
            )
        raise ModelFileError(
            f"{content.path} cannot be loaded with {', '.join(names)}: {text}; {hint}"
        ) from error


def as_texts(options: ProviderOptions | None) -> dict[str, dict[str, str]]:
    """Options as ONNX Runtime takes them.

    Raises:
        InputError: they are not options by the names of providers.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(each, Mapping) for each in options.values()):
        raise InputError(
            f"provider_options is {options!r}; give a dict of options by provider, such as "
            f"{{{CUDA!r}: {{'device_id': 0}}}}"
        )
    return {name: {str(key): str(value) for key, value in each.items()} for name, each in options.items()}
