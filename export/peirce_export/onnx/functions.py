"""One ONNX function for each part of a graph, such as `peirce.folnet::trans`: layers call it with their own weights.

Viewers then show a model as calls of its parts, and runtimes, which inline functions when they load a file, time and
blame by them. What the composer does between parts (projections, masks, residuals) stays in the graph itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

from peirce_export.metadata import SCOPE

_OF_PART = re.compile(r"(?:.*/)?(?:operators|positions|augmenters|heads)\.\w+")
"""A scope up to the part that it is in, whose dotted name is the last of it."""


def call_parts(graph: ir.Model, plugins: Mapping[str, str]) -> None:
    """Turn the nodes of each part into calls of one function.

    Args:
        graph: the graph, whose nodes have scopes.
        plugins: the name of each part's plug-in, by the part's dotted name.
    """
    written: dict[bytes, ir.Function] = {}
    numbers = Counter[tuple[str, str]]()
    calls = Counter[str]()
    for dotted, nodes in _groups(graph.graph):
        inputs, outputs = _boundary(nodes, graph.graph.outputs)
        domain, name = plugins.get(dotted, "parts"), dotted.partition(".")[2]
        function = _function(domain, name, nodes, inputs, outputs, graph.opset_imports)
        body = _canonical(function)
        if body not in written:
            numbers[domain, name] += 1
            function.name = name if numbers[domain, name] == 1 else f"{name}_{numbers[domain, name]}"
            written[body] = graph.functions[function.identifier()] = function
            graph.opset_imports[domain] = 1
        _call(graph.graph, written[body], nodes, inputs, outputs, calls)
    graph.graph.sort()
    for name, value in list(graph.graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.graph.initializers[name]


def _groups(graph: ir.Graph) -> Iterable[tuple[str, list[ir.Node]]]:
    """The parts of a graph with their nodes, in an order in which each depends on earlier ones alone.

    The nodes of one scope are one group, unless something outside of them lies on a path between two of them: then the
    later one begins a group of its own, since a call has all its inputs before it runs. A node that is in no part, or
    has a graph inside, is a group by itself, and is not given.
    """
    groups: list[tuple[str, list[ir.Node]]] = []
    needs: list[set[int]] = []  # of each group, all groups that it depends on
    group_of: dict[ir.Node, int] = {}
    latest: dict[str, int] = {}
    for node in graph:
        scope = _part_scope(node)
        producers = {group_of[p] for value in node.inputs if value is not None and (p := value.producer())}
        group = latest.get(scope)
        if group is None or any(group in needs[p] for p in producers):
            group = len(groups)
            groups.append((re.sub(".*/", "", scope), []))
            needs.append(set())
            if scope:
                latest[scope] = group
        groups[group][1].append(node)
        group_of[node] = group
        needed = producers.union(*(needs[p] for p in producers)) - {group}
        for i, each in enumerate(needs):
            if i == group or group in each:
                each |= needed
    order = sorted(range(len(groups)), key=lambda i: len(needs[i]))
    return [groups[i] for i in order if groups[i][0]]


def _part_scope(node: ir.Node) -> str:
    """The scope of a node up to the part that it is in; empty where it is in none, or has a graph inside."""
    nested = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}
    found = _OF_PART.match(node.metadata_props.get(SCOPE, ""))
    return found[0] if found and nested.isdisjoint(each.type for each in node.attributes.values()) else ""


def _boundary(nodes: Sequence[ir.Node], given: Iterable[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The values that the nodes read from others, integer constants aside, and those that others read from them."""
    inside, final = set(nodes), set(given)
    read = (value for node in nodes for value in node.inputs if value is not None)
    inputs = dict.fromkeys(value for value in read if value.producer() not in inside and not _small(value))
    outputs = (value for node in nodes for value in node.outputs)
    return list(inputs), [v for v in outputs if v in final or any(use.node not in inside for use in v.uses())]


def _small(value: ir.Value) -> bool:
    """Whether a value is a constant of the formula, such as an axis, and no weight."""
    tensor = value.const_value
    return tensor is not None and (tensor.shape.rank() == 0 or not tensor.dtype.is_floating_point())


def _function(
    domain: str, name: str, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value],
    opsets: Mapping[str, int],
) -> ir.Function:  # fmt: skip
    """A function whose body is a copy of the nodes; its values have names of their own."""
    copies = {value: ir.Value(name=f"input_{i}", type=value.type) for i, value in enumerate(inputs)}
    body = []
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in copies:
                assert value.const_value is not None
                plain = ir.tensor(value.const_value.numpy())  # without the name, which differs between layers
                constant = ir.node("Constant", [], {"value": plain}, name=f"constant_{len(copies)}")
                constant.outputs[0].name = f"value_{len(copies)}"
                body.append(constant)
                copies[value] = constant.outputs[0]
        copy = ir.Node(
            node.domain, node.op_type, [None if value is None else copies[value] for value in node.inputs],
            node.attributes.values(),
            overload=node.overload, num_outputs=len(node.outputs), name=f"{node.op_type}_{len(body)}",
        )  # fmt: skip
        for theirs, ours in zip(node.outputs, copy.outputs, strict=True):
            ours.name = f"value_{len(copies)}"
            copies[theirs] = ours
        body.append(copy)
    used = {node.domain for node in nodes}
    graph = ir.Graph(
        [copies[value] for value in inputs], [copies[value] for value in outputs], nodes=body,
        opset_imports={domain: version for domain, version in opsets.items() if domain in used | {""}},
    )  # fmt: skip
    return ir.Function(domain, name, graph=graph, attributes=())


def _canonical(function: ir.Function) -> bytes:
    """The bytes of a function, which are equal where two bodies are."""
    return ir.to_proto(function).SerializeToString(deterministic=True)


def _call(
    graph: ir.Graph, function: ir.Function, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    calls: Counter[str],
) -> None:  # fmt: skip
    """Put a call in the place of the nodes. A scope that is called again, as of a shared layer, is numbered."""
    scope = _part_scope(nodes[0])
    calls[scope] += 1
    name = scope if calls[scope] == 1 else f"{scope}_{calls[scope]}"
    call = ir.Node(function.domain, function.name, inputs, num_outputs=len(outputs), name=name)
    call.metadata_props.update(nodes[0].metadata_props, **{SCOPE: scope})
    replace_nodes_and_values(graph, nodes[-1], nodes, [call], outputs, call.outputs)
