"""ONNX files as they lie on disk: read once by onnx's own reader, their weights beside them, and their digest.

The digest is the last property of a file, and is that of all bytes before that property. So no bit of the file can
change without notice; and a tool that writes the file anew, which ONNX allows, leaves a digest that cannot be checked.
The property before it lists the digests of the files of weights, and of the graph of a step.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from attrs import define
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import FunctionProto, GraphProto, TensorProto, helper

from peirce.errors import ModelFileError
from peirce.files import check_file, digest_of, parse_integer, parse_json, read_bytes
from peirce.model import SKIP
from peirce_export.metadata import PREFIX, Metadata, changed_error, step_of

DIGEST, OTHERS = f"{PREFIX}digest", f"{PREFIX}digests"
_NUMBERS = "biuf"
"""The kinds of numpy dtypes that weights beside a file may have."""
NARROW = TensorProto.BFLOAT16
Weights = dict[str, tuple[NDArray[Any], int]]
"""Values by name, each with its ONNX dtype; those of bfloat16, which numpy lacks, as uint16."""


class RewrittenError(ModelFileError):
    """A file that some tool has written again since its export, so that its digest cannot be checked."""


@define(slots=False)
class Content:
    """The content of an ONNX file.

    Args:
        path: the file.
        data: its bytes.
        proto: its graph, without the weights that lie beside it.
    """

    path: Path
    data: bytes
    proto: onnx.ModelProto

    @classmethod
    def read(cls, path: Path) -> Content:
        """Read a file.

        Raises:
            ModelFileError: it is missing, truncated or not an ONNX file; or its weights are not beside it.
        """
        try:
            data = read_bytes(path)
        except OSError as error:
            raise ModelFileError(
                f"{path} cannot be read: {_reason(error)}; `peirce export` writes such a file"
            ) from error
        return cls.parse(path, data)

    @classmethod
    def parse(cls, path: Path, data: bytes) -> Content:
        """The content of a file that has been read.

        Raises:
            ModelFileError: as `read`.
        """
        try:
            content = cls(path, data, onnx.ModelProto.FromString(data))
            if not content.proto.graph.output:
                raise ValueError("it has no graph with outputs")
            if any(isinstance(text, bytes) for entry in content.properties.items() for text in entry):
                raise ValueError("its properties are not UTF-8")
            content._check_weights()
        except (DecodeError, ValueError, TypeError) as error:
            raise ModelFileError(
                f"{path} is not an ONNX file, or is cut short, damaged or incomplete: {error}; "
                "`peirce export` writes it again"
            ) from error
        return content

    @cached_property
    def properties(self) -> dict[str, str]:
        """The texts of the file, by name."""
        return {entry.key: entry.value for entry in self.proto.metadata_props}

    @cached_property
    def metadata(self) -> Metadata:
        """What the file says about itself.

        Raises:
            ModelFileError: it was not exported by Peirce, or by a newer one.
        """
        return Metadata.from_properties(self.properties, str(self.path))

    @cached_property
    def external(self) -> dict[str, dict[str, str]]:
        """The places of weights in files beside this one, by their names: `location`, `offset` and `length`."""
        return {
            tensor.name: {entry.key: entry.value for entry in tensor.external_data}
            for tensor in self.proto.graph.initializer
            if tensor.data_location == TensorProto.EXTERNAL
        }

    def weights(self) -> Weights:
        """The weights that lie beside the file, read into memory.

        A runtime that mapped their file would follow what another program writes there, or break where it is cut.

        Raises:
            ModelFileError: their file is too short, or they are not numeric.
        """
        tensors = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        found: Weights = {}
        for name, where in self.external.items():
            kind, shape, file = (
                tensors[name].data_type,
                [*tensors[name].dims],
                self.path.parent / where["location"],
            )
            known = kind in TensorProto.DataType.values() and kind != TensorProto.UNDEFINED
            dtype = helper.tensor_dtype_to_np_dtype(kind) if known and kind != NARROW else np.dtype(np.uint16)
            start, size = parse_integer(where.get("offset", "0")), prod(shape)
            sound = known and dtype.kind in _NUMBERS and start is not None and min(shape, default=0) >= 0
            if not sound or (start or 0) + size * dtype.itemsize > file.stat().st_size:
                raise ModelFileError(
                    f"{self.path} keeps {name} in {file.name}, which does not hold it: it is damaged or incomplete; "
                    "copy or export both again"
                )
            values = np.fromfile(file, dtype, size, offset=start or 0)
            found[name] = values.reshape(shape), kind
        return found

    def _check_weights(self) -> None:
        """Check that the files of weights lie beside the file and can be read."""
        graph, elsewhere = self.proto.graph, list[TensorProto]()
        for inner in (each for whole in (graph, *self.proto.functions) for each in graphs_of(whole)):
            elsewhere += [
                tensor for node in inner.node for a in node.attribute for tensor in (a.t, *a.tensors)
            ]
            if isinstance(inner, GraphProto):
                elsewhere += inner.initializer if inner is not graph else ()
                elsewhere += [
                    each for sparse in inner.sparse_initializer for each in (sparse.values, sparse.indices)
                ]
        if any(tensor.data_location == TensorProto.EXTERNAL for tensor in elsewhere):
            raise ValueError("a node has values in another file")
        for name in dict.fromkeys(where.get("location", "") for where in self.external.values()):
            place = Path(name)
            if not place.parts or place.is_absolute() or ".." in place.parts or "\0" in name:
                raise ModelFileError(
                    f"{self.path} keeps weights in {name!r}, which does not lie beside it; export it again"
                )
            try:
                check_file(self.path.parent / name)
            except OSError as error:
                raise ModelFileError(
                    f"{self.path} keeps weights in {self.path.parent / name}, which cannot be read: {_reason(error)}; "
                    "copy or export it again"
                ) from error

    def check(self) -> str | None:
        """Check the file against the digest that it carries.

        Returns:
            The digest; None where the file carries none, as those of Peirce 0.1 and of others.

        Raises:
            RewrittenError: another tool has written it anew.
            ModelFileError: the file, or one that it belongs with, is not what was exported.
        """
        stated = self.properties.get(DIGEST)
        if not stated:
            if self.properties.get(f"{PREFIX}format") not in (None, "1"):
                raise ModelFileError(
                    f"{self.path} has lost its digest: it was cut short, or another tool wrote it. Copy or export it "
                    f"again; if a tool that you trust changed it, open it with {SKIP}"
                )
            return None
        last = _property(DIGEST, stated)
        if not self.data.endswith(last):
            raise RewrittenError(
                f"{self.path} was written again after its export: its digest is not its last property, and cannot be "
                f"checked. Export it again; if a tool that you trust changed it, open it with {SKIP}"
            )
        if hashlib.sha256(memoryview(self.data)[: -len(last)]).hexdigest() != stated:
            raise changed_error(self.path)
        for other, digest in self._others().items():
            if other.is_file() and digest_of(other) != digest:
                raise changed_error(other, self.path)
        return stated

    def _others(self) -> Mapping[Path, str]:
        """The digests of the files that belong with this one, wherever it has been moved with them."""
        weights = {where["location"] for where in self.external.values()}
        return {
            self.path.with_name(name) if name in weights else step_of(self.path): digest
            for name, digest in parse_json(self.properties[OTHERS]).items()
        }


def sign(path: Path, steps: Sequence[Path] = ()) -> Content:
    """Append the digests to a file; return its content."""
    content = Content.read(path)
    others = dict.fromkeys(path.with_name(where["location"]) for where in content.external.values())
    digests = {other.name: digest_of(other) for other in (*others, *steps)}
    listed = _property(OTHERS, json.dumps(digests))
    digest = hashlib.sha256(content.data)
    digest.update(listed)
    del content  # weights are large: a file is in memory once
    with path.open("ab") as file:
        file.write(listed + _property(DIGEST, digest.hexdigest()))
    return Content.read(path)


def _property(name: str, text: str) -> bytes:
    """The bytes of a property in the file of a model."""
    entry = onnx.StringStringEntryProto(key=name, value=text)
    return onnx.ModelProto(metadata_props=[entry]).SerializeToString()


def _reason(error: OSError) -> object:
    return "it is not there" if isinstance(error, FileNotFoundError) else error.strerror or error


def graphs_of(graph: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    """A graph, and those within its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from graphs_of(inner)
