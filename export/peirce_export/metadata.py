"""What an exported file says about itself, kept as text properties of the ONNX model.

The properties are text by name, so any format can hold them, in the file or beside it. This module knows neither
torch nor onnx, so that a session can read a file without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from attrs import field, frozen
from attrs.validators import in_, matches_re, optional

from peirce.errors import ModelFileError, printable
from peirce.files import parse_json, parse_toml
from peirce.model import MODEL, SKIP, STEP
from peirce.parts import Signature, TensorSpec
from peirce.spec import structure_value
from peirce_export.runtimes import Source

FORMAT = 2
"""The version of these properties; a file with a newer one is refused. Version 1 names no masks and no largest
sizes."""
PREFIX = "peirce."
SCOPE = "namespace"
"""The property of a node that says where in the model it belongs, such as `layers.0/operators.join`."""

ATTENTION = "attention"
"""The role of a file that also gives weights of attention."""
TOP = "top-"
"""Before a number, the role of a file that gives so many of a model's best scores."""

Precision = Literal["float32", "float16", "bfloat16"]
Quantisation = Literal["dynamic", "weights", "weights4"]
DYNAMIC, WEIGHTS, WEIGHTS4 = get_args(Quantisation)
INT8, INT4 = "int8", "int4"
"""The precisions of a file in float32 whose products have weights of 8 or 4 bits."""
BITS: Mapping[str, str] = {DYNAMIC: INT8, WEIGHTS: INT8, WEIGHTS4: INT4}
"""The precision of a file by how it was quantised."""


def step_of(path: Path) -> Path:
    """Where the graph that adds a token lies: `model.step.onnx` beside `model.onnx`."""
    return path.with_name(f"{path.stem}.{STEP}{path.suffix}")


def changed_error(path: Path, beside: Path | None = None) -> ModelFileError:
    """The error for a file that does not match its own digest, or the digest in its companion `beside`."""
    if beside is None:
        message = (
            f"{path} is not what was exported: its content does not match its digest. Copy or export it again"
        )
    else:
        message = (
            f"{path} is not what was exported with {beside}: its digest is another. Copy or export both again"
        )
    return ModelFileError(f"{message}; if it was changed on purpose, open it with {SKIP}")


@frozen(kw_only=True)
class Metadata:
    """The properties of an exported file.

    Args:
        signature: the inputs and outputs, as the model declared them.
        spec: the model's spec, as TOML.
        provenance: where each part of the model came from.
        precision: the dtype that `float` stands for in the signature.
        opset_requested: the opset that the user or the default asked for; None if the file is not ONNX.
        opset_actual: the opset that the file has.
        versions: of the packages that wrote the file, by name.
        role: `model`, or `prefill` or `step` for the two graphs of one that generates, or `top-10` for one that gives
            its ten best scores, or `attention` for one that gives weights of attention too.
        quantisation: how the weights of products became integers of 8 bits, or of 4; None where they did not.
        weights: the digest of the model's weights, before any change of precision; None in a file that does not say.
    """

    signature: Signature
    spec: str
    provenance: Mapping[str, Any]
    precision: Precision = field(validator=in_(get_args(Precision)))
    opset_requested: int | None = None
    opset_actual: int | None = None
    versions: Mapping[str, str] = field(factory=dict)
    role: str = field(default=MODEL, validator=matches_re(r"model|prefill|step|attention|top-[1-9]\d{0,8}"))
    quantisation: Quantisation | None = field(default=None, validator=optional(in_(get_args(Quantisation))))
    weights: str | None = field(default=None, validator=optional(matches_re("[0-9a-f]{64}")))

    @property
    def source(self) -> Source:
        """The model that the file was exported from."""
        return Source(spec=self.spec, weights=self.weights)

    def dtype(self, name: str) -> str:
        """What an input or output is in the file, such as `int64` or `bfloat16`."""
        specs = (*self.signature.inputs, *self.signature.outputs)
        kind = next(spec.dtype for spec in specs if spec.name == name)
        return self.precision if kind == "float" else kind

    def array_dtype(self, name: str) -> np.dtype[Any]:
        """What an input or output is to callers: bfloat16, which numpy lacks, is float32."""
        kind = self.dtype(name)
        return np.dtype("float32" if kind == "bfloat16" else kind)

    def to_properties(self) -> dict[str, str]:
        """The properties by name, each a text."""
        opsets = {"requested": self.opset_requested, "actual": self.opset_actual}
        return {
            f"{PREFIX}format": str(FORMAT),
            f"{PREFIX}spec": self.spec,
            f"{PREFIX}provenance": json.dumps(self.provenance, sort_keys=True),
            f"{PREFIX}signature": json.dumps(self.signature.to_dict()),
            f"{PREFIX}precision": self.precision,
            f"{PREFIX}role": self.role,
            **({f"{PREFIX}quantisation": self.quantisation} if self.quantisation else {}),
            **({f"{PREFIX}weights": self.weights} if self.weights else {}),
            **{f"{PREFIX}opset.{name}": str(opset) for name, opset in opsets.items() if opset is not None},
            **{f"{PREFIX}version.{name}": version for name, version in sorted(self.versions.items())},
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source: str) -> Metadata:
        """The inverse of `to_properties`.

        Args:
            properties: the properties of an ONNX model.
            source: the file's name, for errors.

        Raises:
            ModelFileError: the file was exported by something else or by a newer Peirce, or is damaged.
        """
        stated = properties.get(f"{PREFIX}format")
        if stated is None:
            raise ModelFileError(
                f"{source} was not exported by Peirce: it has no property '{PREFIX}format'; "
                "write it with `peirce export`"
            )
        if not stated.isdecimal() or len(stated) > 9 or int(stated) > FORMAT:
            raise ModelFileError(
                f"{source} has export format {printable(stated, 80)}, and this Peirce reads formats up to {FORMAT}; "
                "upgrade peirce, or export the model again with this version"
            )
        start = f"{PREFIX}version."
        try:
            if "extend" in parse_toml(properties[f"{PREFIX}spec"]):
                raise ValueError("its spec extends another, where it must be whole")
            if not isinstance(provenance := parse_json(properties[f"{PREFIX}provenance"]), dict):
                raise ValueError("its provenance is not a table")
            return cls(
                signature=_signature(properties[f"{PREFIX}signature"]),
                spec=properties[f"{PREFIX}spec"],
                provenance=provenance,
                precision=properties[f"{PREFIX}precision"],  # type: ignore[arg-type]  # its validator tells
                opset_requested=_opset(properties.get(f"{PREFIX}opset.requested")),
                opset_actual=_opset(properties.get(f"{PREFIX}opset.actual")),
                role=properties.get(f"{PREFIX}role", MODEL),
                quantisation=properties.get(f"{PREFIX}quantisation"),  # type: ignore[arg-type]
                weights=properties.get(f"{PREFIX}weights"),
                versions={k.removeprefix(start): v for k, v in properties.items() if k.startswith(start)},
            )
        except (KeyError, ValueError, TypeError) as error:
            reason = (
                f"there is no {error}" if isinstance(error, KeyError) else printable(str(error.args[0]), 300)
            )
            raise ModelFileError(
                f"{source} has damaged Peirce properties ({reason}); export the model again"
            ) from error


def _opset(text: str | None) -> int | None:
    return None if text is None else int(text)


@frozen
class _SignatureTable:
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def _signature(text: str) -> Signature:
    """A signature from its JSON, checked for the types that readers rely on.

    Raises:
        ValueError: the text is not a signature.
    """
    data = parse_json(text)
    stated = structure_value(_SignatureTable, data)
    if not stated.inputs or not stated.outputs:
        raise ValueError("its signature has no inputs, or no outputs")
    for spec in (*stated.inputs, *stated.outputs):
        if any(isinstance(dim, int) and dim < 1 for dim in spec.dims) or (spec.high or 1) < 1:
            raise ValueError(f"its signature gives {spec.name!r} sizes below 1")
    return Signature.from_dict(data)
