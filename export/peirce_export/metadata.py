"""What an exported file says about itself, kept as text properties of the ONNX model.

The properties are text by name, so any format can hold them, in the file or beside it. This module knows neither
torch nor onnx, so that a session can read a file without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen
from peirce.errors import ModelFileError, printable
from peirce.model import Source
from peirce.parts import Signature

from peirce_export import schema

FORMAT = 2
"""The version of these properties; a file with a newer one is refused. Version 1 names no masks and no largest
sizes."""
PREFIX = "peirce."

MODEL, PREFILL, STEP, TOP = "model", "prefill", "step", "top-"
"""The roles of a file: a model's own graph, the two graphs of a model that generates, and, before a number, a graph
that gives so many of its best scores."""
NEXT = "next_"
"""Begins the names of a step's outputs that are the cached state for the next step."""

Precision = Literal["float32", "float16", "bfloat16"]
Quantisation = Literal["dynamic", "weights"]
DYNAMIC, WEIGHTS = "dynamic", "weights"
INT8 = "int8"
"""The precision of a file in float32 whose products have weights of 8 bits."""


def step_of(path: Path) -> Path:
    """Where the graph that adds a token lies: `model.step.onnx` beside `model.onnx`."""
    return path.with_name(f"{path.stem}.{STEP}{path.suffix}")


@frozen(kw_only=True)
class Metadata:
    """The properties of an exported file.

    Args:
        signature: the inputs and outputs, as the model declared them.
        spec: the model's spec, as TOML.
        provenance: where each part of the model came from.
        precision: the dtype that `float` stands for in the signature.
        opset_requested: the opset that the user or the default asked for.
        opset_actual: the opset that the file has.
        versions: of the packages that wrote the file, by name.
        role: `model`, or `prefill` or `step` for the two graphs of one that generates, or `top-10` for one that gives
            its ten best scores.
        quantisation: how the weights of products became 8-bit integers; None where they did not.
        weights: the digest of the model's weights, before any change of precision; None in a file that does not say.
    """

    signature: Signature
    spec: str
    provenance: Mapping[str, Any]
    precision: Precision
    opset_requested: int
    opset_actual: int
    versions: Mapping[str, str] = field(factory=dict)
    role: str = MODEL
    quantisation: Quantisation | None = None
    weights: str | None = None

    @property
    def source(self) -> Source:
        """The model that the file was exported from."""
        return Source(spec=self.spec, weights=self.weights)

    def to_properties(self) -> dict[str, str]:
        """The properties by name, each a text."""
        return {
            f"{PREFIX}format": str(FORMAT),
            f"{PREFIX}spec": self.spec,
            f"{PREFIX}provenance": json.dumps(self.provenance, sort_keys=True),
            f"{PREFIX}signature": json.dumps(self.signature.to_dict()),
            f"{PREFIX}precision": self.precision,
            f"{PREFIX}role": self.role,
            **({f"{PREFIX}quantisation": self.quantisation} if self.quantisation else {}),
            **({f"{PREFIX}weights": self.weights} if self.weights else {}),
            f"{PREFIX}opset.requested": str(self.opset_requested),
            f"{PREFIX}opset.actual": str(self.opset_actual),
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
        if not re.fullmatch(r"[0-9]{1,9}", stated) or int(stated) > FORMAT:
            raise ModelFileError(
                f"{source} has export format {printable(stated, 80)}, and this Peirce reads formats up to {FORMAT}; "
                "upgrade peirce, or export the model again with this version"
            )
        try:
            start = f"{PREFIX}version."
            versions = {k.removeprefix(start): v for k, v in properties.items() if k.startswith(start)}
            return cls(
                signature=schema.signature_of(properties[f"{PREFIX}signature"]),
                spec=schema.spec_of(properties[f"{PREFIX}spec"]),
                provenance=schema.provenance_of(properties[f"{PREFIX}provenance"]),
                precision=schema.precision_of(properties[f"{PREFIX}precision"]),
                opset_requested=schema.opset_of(properties[f"{PREFIX}opset.requested"]),
                opset_actual=schema.opset_of(properties[f"{PREFIX}opset.actual"]),
                role=schema.role_of(properties.get(f"{PREFIX}role", MODEL)),
                quantisation=schema.quantisation_of(properties.get(f"{PREFIX}quantisation")),
                weights=schema.digest_of(properties.get(f"{PREFIX}weights")),
                versions={name: schema.version_of(name, text) for name, text in versions.items()},
            )
        except (KeyError, ValueError) as error:
            reason = f"there is no {error}" if isinstance(error, KeyError) else error
            raise ModelFileError(
                f"{source} has damaged Peirce properties ({reason}); export the model again"
            ) from error
