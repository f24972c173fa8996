"""ONNX files that Peirce did not write, or that were changed since: made from a seed, opened and run.

As a program it writes a JSON line for each case: what refused it, or `ran`. A case may end the process, since a runtime
may break on what no exporter writes; so tests start it, and count.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from peirce.errors import PeirceError

TENSORS = [number for number in TensorProto.DataType.values() if number]
TEXTS = (
    "",
    "\0",
    "\x1b[2J",
    "ü" * 50,
    "x" * 100_000,
    "nan",
    "-1",
    "9" * 5000,
    "null",
    "true",
    "[]",
    "{}",
    "\ud800",
)


def served(types: tuple[onnx.TypeProto, onnx.TypeProto], properties: dict[str, str]) -> onnx.ModelProto:
    """A graph that gives its input again, with the properties of an exported file."""
    inputs, outputs = (helper.make_value_info(n, t) for n, t in zip(("x", "y"), types, strict=True))
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [inputs], [outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    helper.set_model_props(model, properties)
    return model


def endless(properties: dict[str, str]) -> onnx.ModelProto:
    """A graph with a loop that never ends; nothing of it can be seen before it runs."""
    real = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch"])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c2"]),
            helper.make_node("Sin", ["v"], ["v2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            condition,
            helper.make_value_info("v", real),
        ],
        [helper.make_tensor_value_info("c2", TensorProto.BOOL, []), helper.make_value_info("v2", real)],
    )
    nodes = [
        helper.make_node("Constant", [], ["t"], value=helper.make_tensor("t", TensorProto.BOOL, [], [True])),
        helper.make_node("Loop", ["", "t", "x"], ["y"], body=body),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_value_info("x", real)], [helper.make_value_info("y", real)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    helper.set_model_props(model, properties)
    return model


def kinds(draw: random.Random) -> onnx.TypeProto:
    """A type of a value, of any kind that ONNX has."""
    tensor = helper.make_tensor_type_proto(draw.choice(TENSORS), draw.choice([[], ["batch"], [2, 3], None]))
    return draw.choice(
        [
            lambda: tensor,
            lambda: tensor,
            lambda: helper.make_sequence_type_proto(tensor),
            lambda: helper.make_optional_type_proto(tensor),
            lambda: helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)),
            lambda: helper.make_map_type_proto(draw.choice([TensorProto.INT64, TensorProto.STRING]), tensor),
            lambda: helper.make_sparse_tensor_type_proto(draw.choice(TENSORS), [2]),
        ]
    )()


def properties(**changed: str) -> dict[str, str]:
    """The properties of a file with an input `x` and an output `y`, both of real numbers, by batch."""
    tensor = {"dtype": "float", "dims": ["batch"]}
    return {
        "peirce.format": "1",  # without a digest
        "peirce.spec": "format = 1\n[model]\nname = 'foreign'\n",
        "peirce.provenance": "{}",
        "peirce.signature": json.dumps(
            {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}]}
        ),
        "peirce.precision": "float32",
        "peirce.opset.requested": "21",
        "peirce.opset.actual": "21",
        **changed,
    }


def _foreign(draw: random.Random, whole: bytes) -> bytes:
    """A graph of other types."""
    del whole
    kind = kinds(draw)
    return served((kind, draw.choice([kind, kinds(draw)])), properties()).SerializeToString()


def _said(draw: random.Random, whole: bytes) -> bytes:
    """A file whose properties say something else."""
    model = onnx.ModelProto.FromString(whole)
    entry = draw.choice([e for e in model.metadata_props if e.key.startswith("peirce.")])
    if entry.key.endswith(("signature", "provenance")) and draw.random() < 0.7:
        entry.value = json.dumps(_changed(draw, json.loads(entry.value)))
    else:
        deep = 10 ** draw.randint(1, 5)
        texts = ["[" * deep, '{"a":' * deep, "a." * deep + "a = 1", "a = " + "[" * deep, *TEXTS[:-1]]
        entry.value = draw.choice([*texts, entry.value[: draw.randrange(len(entry.value) + 1)]])
    return model.SerializeToString()


def _changed(draw: random.Random, value: Any) -> Any:
    """A JSON value with another one somewhere inside."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        new = draw.choice(TEXTS[:4]) if draw.random() < 0.1 else key
        return {(new if k == key else k): (_changed(draw, v) if k == key else v) for k, v in value.items()}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        return [_changed(draw, v) if i == place else v for i, v in enumerate(value)]
    return draw.choice(
        [None, True, -1, 0, 10**30, 1e308, float("nan"), *TEXTS, [], {}, [[]], {"a": {}}, [value] * 3]
    )


def _flipped(draw: random.Random, whole: bytes) -> bytes:
    """A file with other bytes, cut short, or with a part twice."""
    data = bytearray(whole)
    for _ in range(draw.choice([1, 3, 30])):
        place = draw.randrange(len(data))
        how = draw.randrange(4)
        if how == 0:
            data[place] = draw.randrange(256)
        elif how == 1:
            data[place] ^= 1 << draw.randrange(8)
        elif how == 2:
            del data[place : place + draw.choice([1, 9, 99])]
        else:
            data[place:place] = data[place : place + draw.choice([1, 9, 99])]
        if not data:
            break
    return bytes(data)


def _rewired(draw: random.Random, whole: bytes) -> bytes:
    """A file whose graph is another one."""
    model = onnx.ModelProto.FromString(whole)
    graph, other = model.graph, draw.choice(list(model.graph.node))
    for _ in range(draw.choice([1, 1, 3])):
        node = draw.choice(list(graph.node))
        how = draw.randrange(7)
        if how == 0:
            node.op_type = draw.choice(
                [other.op_type, "Loop", "SequenceConstruct", "Optional", "Unheard", "Cast", ""]
            )
        elif how == 1 and node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice([*other.output, *other.input, "", "x"])
        elif how == 2 and node.attribute:
            attribute = draw.choice(list(node.attribute))
            attribute.i, attribute.f = draw.choice([-1, 0, 2**62, -(2**62)]), draw.choice([0.0, float("nan")])
        elif how == 3:
            value = draw.choice([*graph.input, *graph.output])
            value.type.CopyFrom(kinds(draw))
        elif how == 4 and graph.initializer:
            weights = draw.choice(list(graph.initializer))
            weights.dims[:] = draw.choice([[-1], [0], [2**40, 2**40], [3, 5], []])
        elif how == 5:
            del graph.node[draw.randrange(len(graph.node))]
        else:
            node.domain = draw.choice(["", "com.microsoft", "elsewhere", "ai.onnx.ml"])
    return model.SerializeToString()


CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (_foreign, _said, _flipped, _rewired)


def cases(seed: int, count: int, whole: bytes) -> Iterator[tuple[str, bytes]]:
    """So many files of each sort in turn, with what sort they are."""
    for number in range(count):
        change = CHANGES[number % len(CHANGES)]
        yield f"{change.__name__} {seed} {number}", change(random.Random(f"{seed} {number}"), whole)


def used(path: Path) -> str:
    """What becomes of a file: `ran`, or the error that refused it; a traceback of anything else."""
    from peirce_export.alone import check_alone
    from peirce_export.onnx.structure import OnnxGraph

    def structure() -> None:
        graph = OnnxGraph(path)
        graph.check(graph.metadata.signature)

    found = "ran"
    for use in (lambda: check_alone(path), structure):
        try:
            use()
        except PeirceError as error:
            found = f"{type(error).__name__}: {error}"
        except Exception:
            return traceback.format_exc()
    return found


def main(seed: int, first: int, count: int, whole: Path, folder: Path) -> None:
    """Use the cases of a seed from a number on; `folder` gets a file `results.jsonl`."""
    np.seterr(all="ignore")
    path = folder / "case.onnx"
    with (folder / "results.jsonl").open("a", encoding="utf-8", buffering=1) as results:
        for number, (name, content) in enumerate(cases(seed, count, whole.read_bytes())):
            if number >= first:
                path.write_bytes(content)
                print(json.dumps([number, name, ""]), file=results)
                print(json.dumps([number, name, used(path)]), file=results)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *map(Path, sys.argv[4:6]))
