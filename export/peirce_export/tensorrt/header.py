"""The header beside an engine: `model.engine.json` describes `model.engine`, and has its digest.

Nothing here needs TensorRT or torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict, field, frozen

from peirce.errors import ModelFileError
from peirce.files import digest_of, read_json, write_json
from peirce_export.metadata import Metadata
from peirce_export.tensorrt.profiles import Profile, Range, shapes

FORMAT = 1
"""The version of this file; a newer one is refused."""


@frozen(kw_only=True)
class Header:
    """The description of an engine.

    Args:
        metadata: of the ONNX file that it was built from: signature, spec, provenance, precision.
        backend: `rtx` or `tensorrt`.
        tensorrt: the version that built it; an engine runs with that version alone, but for `version_compatible`.
        capabilities: the compute capabilities that it runs on; empty for the GPU's that built it.
        profiles: the sizes that it was built for.
        layers: of the parsed network.
        seconds: that the build took.
        size: of the engine, in bytes.
        sha256: of the engine.
        onnx: the sha256 of the ONNX file that it was built from, which holds the weights of a stripped engine.
        flags: of TensorRT's builder.
    """

    metadata: Metadata
    backend: str
    tensorrt: str
    capabilities: tuple[str, ...]
    profiles: tuple[Profile, ...]
    layers: int
    seconds: float
    size: int
    sha256: str
    onnx: str
    flags: Mapping[str, bool] = field(factory=dict)

    def write(self, engine: Path) -> None:
        """Write the header of an engine beside it."""
        content = asdict(self, recurse=False) | {
            "format": FORMAT,
            "metadata": self.metadata.to_properties(),
            "profiles": [
                {dim: [r.least, r.best, r.most] for dim, r in each.items()} for each in self.profiles
            ],
        }
        write_json(header_of(engine), content)

    @classmethod
    def read(cls, engine: Path) -> Header:
        """The header of an engine.

        Raises:
            ModelFileError: it is missing, damaged, or of a newer Peirce.
        """
        path = header_of(engine)
        try:
            content: dict[str, Any] = read_json(path)
            if content.pop("format") != FORMAT:
                raise ModelFileError(
                    f"{path} was written by a newer Peirce; upgrade peirce, or export the model again"
                )
            ranges = [{dim: Range(*sizes) for dim, sizes in each.items()} for each in content.pop("profiles")]
            metadata = Metadata.from_properties(content.pop("metadata"), str(path))
            capabilities = tuple(content.pop("capabilities"))
            header = cls(metadata=metadata, profiles=tuple(ranges), capabilities=capabilities, **content)
        except FileNotFoundError as error:
            raise ModelFileError(
                f"{engine} has no {path.name} beside it, which says what it is; copy both, or write it with "
                "`peirce export --to tensorrt`"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFileError(
                f"{path} is damaged ({type(error).__name__}: {error}); export the model again"
            ) from error
        return header

    def on_device(self, name: str) -> np.dtype[Any]:
        """What an input or output is on the device: of bfloat16, which numpy lacks, the upper halves of float32."""
        kind = self.metadata.dtype(name)
        return np.dtype("uint16" if kind == "bfloat16" else kind)

    def buffers(self) -> dict[str, int]:
        """The bytes that each input and output needs on the device: at its largest shape in any profile."""
        signature = self.metadata.signature
        return {
            spec.name: self.on_device(spec.name).itemsize
            * max(prod(shapes(spec, profile)[2]) for profile in self.profiles)
            for spec in (*signature.inputs, *signature.outputs)
        }

    def check(self, engine: Path) -> str:
        """Check an engine against this header; return its digest.

        Raises:
            ModelFileError: it is not the one that the header was written with.
        """
        size = engine.stat().st_size
        if size != self.size or digest_of(engine) != self.sha256:
            raise ModelFileError(
                f"{engine} is not the engine that {header_of(engine).name} describes ({size:,} bytes of {self.size:,}, "
                "or another sha256): it is damaged, or one of the two was replaced; export the model again"
            )
        return self.sha256

    def weights(self, engine: Path) -> Path | None:
        """The ONNX file beside a stripped engine, which has its weights; None for an engine that has them itself.

        Raises:
            ModelFileError: it is missing, or another one than the engine was built from.
        """
        if not self.flags.get("strip_plan"):
            return None
        path = engine.with_suffix(".onnx")
        if not path.is_file() or digest_of(path) != self.onnx:
            raise ModelFileError(
                f"{engine} was built without its weights, and the ONNX file {path.name} that has them "
                + ("is another one" if path.is_file() else "is not beside it")
                + "; copy it from where the engine was built, or export the model again"
            )
        return path


def header_of(engine: Path) -> Path:
    """Where the header of an engine lies."""
    return engine.with_name(f"{engine.name}.json")


def move_engines(files: Iterable[Path], folder: Path) -> None:
    """Move new engines, their headers and what belongs to them into a folder, in the place of older ones.

    Headers are moved last: an engine without its header is refused, so nothing half-moved runs.
    """
    for each in sorted(files, key=lambda file: file.suffix == ".json"):
        os.replace(each, folder / each.name)
