"""Which part made a node that TensorRT refuses, as the ONNX exporter noted it in the node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from attrs import frozen

from peirce.errors import ExportError
from peirce.parts import PART
from peirce_export.metadata import SCOPE
from peirce_export.onnx.content import graphs_of

SHOWN = 5
"""The most nodes that an error names."""


@frozen(kw_only=True)
class Refusal:
    """A node that TensorRT does not take.

    Args:
        operator: its ONNX operator.
        node: its name.
        reason: in TensorRT's words.
        attributes: of the node, as text.
        scope: where in the model it belongs, such as `layers.0/mixing`.
        part: the part that it belongs to, such as `positions.logirpe`; empty where none is known.
    """

    operator: str
    node: str
    reason: str
    attributes: str
    scope: str
    part: str

    def __str__(self) -> str:
        who = self.part or "the model"
        detail = f" ({self.attributes})" if self.attributes else ""
        return f"{who}: {self.operator}{detail} in {self.scope or 'the graph'}: {self.reason}"


class NotTaken(ExportError):  # noqa: N818  the name says what TensorRT did
    """TensorRT does not take the graph of a model; it names parts, operators, attributes and nodes.

    Attributes:
        refusals: the nodes, each with its part.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        groups: dict[str, list[str]] = {}
        for each in refusals:
            groups.setdefault(str(each), []).append(each.node or "without a name")
        lines = [f"{text} (nodes {_shorten(nodes, ', ', '')})" for text, nodes in groups.items()]
        super().__init__(
            f"TensorRT does not take the model:\n{_shorten(lines, chr(10), ' kinds of node')}\nWrite that part with "
            "operators that TensorRT takes, or export to ONNX and run it with ONNX Runtime"
        )


def _shorten(texts: Sequence[str], between: str, what: str) -> str:
    more = [f"and {len(texts) - SHOWN} more{what}"] if len(texts) > SHOWN else []
    return between.join([*texts[:SHOWN], *more])


def refusals(parser: Any, graph: onnx.GraphProto) -> tuple[Refusal, ...]:
    """What a parser of TensorRT refused, with the parts behind it."""
    nodes = [node for each in graphs_of(graph) for node in each.node]
    return tuple(
        _refusal(error, node)
        for error in (parser.get_error(i) for i in range(parser.num_errors))
        for node in _matching_nodes(error, nodes) or [onnx.NodeProto()]
    )


def _refusal(error: Any, node: onnx.NodeProto) -> Refusal:
    notes = {entry.key: entry.value for entry in node.metadata_props}
    return Refusal(
        operator=node.op_type or error.node_operator() or "the graph",
        node=node.name,
        reason=" ".join(error.desc().split()),
        attributes=", ".join(_attribute(each) for each in node.attribute),
        scope=notes.get(SCOPE, ""),
        part=notes.get(PART, ""),
    )


def _matching_nodes(error: Any, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes that an error is about.

    Some errors name no node, only TensorRT's function that imports the operator. Then all nodes of that operator are
    meant, or those among them with an attribute that the error speaks of.
    """
    named = [node for node in nodes if node.name and node.name == error.node_name()]
    if named:
        return named
    operator = error.node_operator() or error.func().removeprefix("import")
    same = [node for node in nodes if node.op_type == operator]
    spoken = [node for node in same if any(each.name in error.desc().split() for each in node.attribute)]
    return spoken or same


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS, onnx.AttributeProto.TENSOR):
        return attribute.name
    value = onnx.helper.get_attribute_value(attribute)
    return f"{attribute.name}={value.decode() if isinstance(value, bytes) else value}"
