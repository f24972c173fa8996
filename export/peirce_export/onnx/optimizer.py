"""The exported graph without what it computes in vain, in two steps.

`simplify` folds constants, joins what is computed twice and drops what nothing reads; no number changes. `rewrite` lays
a simplified graph out as CPUs read it: the same products and norms with fewer passes over large tensors. torch writes
a graph as a model computes, and what a runtime for CPUs then does costs passes that no operation needs: masks as a
`Where`, which reads and writes three times; one wide product that a `Split` copies apart; a softmax over an axis that
is not the last, and copies between layouts on both sides of it. Values change by rounding alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import common as passes
from onnxscript import optimizer, rewriter
from onnxscript.rewriter.rules import common as rules

from peirce.parts import PART
from peirce_export.metadata import SCOPE

_LOW = -1e30
"""Added to a score it leaves exp(score) = 0, and a row of nothing else finite."""
_FINITE = {"LayerNormalization", "MatMul", "Add", "Mul", "Split", "Gelu", "Tanh"}
"""What gives finite numbers of finite ones. A softmax does once its scores are masked with `_LOW`."""
_ROWS = (0, 1, 3, 2)
"""[b, x, y, c] with the channels before the tokens that are attended to: a product gives that without a copy."""


def _without_neutral(kind: str, number: float) -> rewriter.RewriteRule:
    """The rule that drops an operation with a number that leaves its other operand as it is, to the bit."""

    def operation(op: Any, x: Any, y: Any) -> Any:
        return getattr(op, kind)(x, y)

    def identity(op: Any, x: Any, **_: Any) -> Any:
        return op.Identity(x)

    def is_neutral(_: Any, y: ir.Value, **__: Any) -> bool:
        return y.const_value is not None and y.const_value.shape.rank() == 0 and _scalar(y) == number

    return rewriter.RewriteRule(operation, identity, is_neutral)


_EXACT = rewriter.RewriteRuleSet(
    [
        *_without_neutral("Mul", 1.0).commute(),
        _without_neutral("Div", 1.0),
        _without_neutral("Sub", 0.0),
        rules.no_op_cast_rule,
        rules.cast_cast_rule,
        rules.cast_constant_of_shape_rule,
        rules.cast_constant_of_shape_without_value_rule,
        rules.no_op_expand_rule,
        rules.squeeze_reshape_1d_rule,
        rules.reshape_reshape_rule,
        rules.materialize_reshape_shape_rule,
        rules.two_reshapes_matmul_reshape_rule,
        rules.one_reshape_matmul_reshape_rule,
        rules.no_op_transpose_rule,
        rules.transpose_transpose_rule,
        rules.unsqueeze_unsqueeze_rule,
        rules.collapse_slice_rule,
        rules.collapse_slice2_rule,
        rules.no_op_dynamic_scatter_nd_rule,
        rules.no_op_static_scatter_nd_rule,
    ]
)
"""Rules that change no number. onnxscript's own for numbers compare within a tolerance, and make `x` of `x + 1e-9`."""


def simplify(graph: ir.Model) -> None:
    """Simplify a graph as torch writes it, in place; each number of the model stays as it is."""
    passes.InlinePass()(graph)
    for _ in range(2):
        optimizer.fold_constants_ir(graph, onnx_shape_inference=True)
        rewriter.rewrite(graph, _EXACT)
    for each in (
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        passes.LiftSubgraphInitializersToMainGraphPass(),
        passes.DeduplicateInitializersPass(),
        passes.CommonSubexpressionEliminationPass(),
        passes.NameFixPass(),
    ):
        each(graph)
    part_outputs(graph)


def part_outputs(graph: ir.Model) -> None:
    """Give outputs nodes of their own: none is an input, and no two are one value."""
    passes.OutputFixPass()(graph)


def forget_weight_shapes(graph: ir.Model) -> None:
    """Leave out what a graph states of weights beside themselves: tools that turn them about do not change it."""
    for value in graph.graph.initializers.values():
        value.shape = value.type = None
        value.metadata_props.clear()


def rewrite(graph: ir.Model) -> None:
    """Rewrite a graph of float32 in place."""
    body = graph.graph
    for rule in (_mask, _split, _turn):
        for node in list(body):
            if node.graph is body:
                rule(node)
        _sweep(body)  # an unused node would count as a user of what it reads


def _mask(node: ir.Node) -> None:
    """A mask that is one for all channels multiplies, or adds to scores; `Where` would read and write all of them."""
    if node.op_type != "Where":
        return
    real, yes, no = node.inputs
    if real is None or yes is None or no is None or not _one_for_all(real, node.outputs[0]):
        return
    (fill, masked, keep_where) = (no, yes, True) if _scalar(no) is not None else (yes, no, False)
    value = _scalar(fill)
    if (
        value is None
        or masked.dtype != ir.DataType.FLOAT
        or masked.shape is None
        or masked.shape != node.outputs[0].shape
    ):
        return
    if value == 0.0 and _finite(masked):
        keep = real if keep_where else _new(node, "Not", [real], real)
        _replace(node.outputs[0], _new(node, "Mul", [masked, _cast(node, keep)], node.outputs[0]))
    elif value <= _LOW and all(user.op_type == "Softmax" for user, _ in node.outputs[0].uses()):
        low, zero = _const(node, np.float32(_LOW)), _const(node, np.float32(0.0))
        added = _new(
            node, "Where", [real, zero, low] if keep_where else [real, low, zero], real, masked.dtype
        )
        _replace(node.outputs[0], _new(node, "Add", [masked, added], node.outputs[0]))


def _finite(value: ir.Value) -> bool:
    """Whether a value is finite at masked places too, where a product with zero would not be zero."""
    maker = value.producer()
    if maker is None or maker.op_type != "Softmax":
        return maker is not None and maker.op_type in _FINITE
    scores = maker.inputs[0]
    adding = None if scores is None else scores.producer()
    mask = None if adding is None else adding.inputs[-1]
    maker = None if mask is None else mask.producer()
    if maker is None or maker.op_type != "Where":
        return False
    return float(np.float32(_LOW)) in [_scalar(each) for each in maker.inputs if each is not None]


def _split(node: ir.Node) -> None:
    """A product whose columns are split apart is a product for each part: nothing is copied."""
    if node.op_type != "Split" or len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        return
    sizes, whole = node.inputs[1].const_value, node.inputs[0]
    rank = None if whole.shape is None else len(whole.shape)
    if sizes is None or rank is None or node.attributes.get_int("axis", 0) % rank != rank - 1:
        return
    ends = [0, *np.cumsum(sizes.numpy()).tolist()]
    parts = [_push(node, whole, _Columns(low, high)) for low, high in pairwise(ends)]
    for output, part in zip(node.outputs, parts if None not in parts else (), strict=False):
        assert part is not None
        _replace(output, part)


def _turn(node: ir.Node) -> None:
    """Channels that a product writes last and that are read before tokens: the product writes them there."""
    source = node.inputs[0] if node.inputs else None
    if node.op_type != "Transpose" or source is None or source.shape is None or len(source.shape) != 4:
        return
    perm = tuple(node.attributes.get_ints("perm", ()))
    if (
        perm not in (_ROWS, (0, 3, 1, 2), (0, 3, 2, 1))
        or (found := _push(node, source, _SwappedAxes())) is None
    ):
        return
    if perm != _ROWS:
        found = _new(node, "Transpose", [found], found, perm=(0, 2, 1, 3))
    if perm == (0, 3, 2, 1):
        found = _new(node, "Transpose", [found], found, perm=_ROWS)
    _replace(node.outputs[0], found)


class _Columns:
    """Some columns of a value, computed by themselves."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def product(self, node: ir.Node, maker: ir.Node, value: ir.Value) -> ir.Value | None:
        return _copy(node, maker, [maker.inputs[0], self.constant(node, maker.inputs[1])], value)

    def axis(self, axis: int, rank: int) -> int | None:
        """The axis that a softmax then has; None over the columns themselves."""
        return None if axis % rank == rank - 1 else axis

    def constant(self, node: ir.Node, value: ir.Value | None) -> ir.Value:
        """The same columns of a constant; layers that share it share them."""
        assert value is not None
        assert value.const_value is not None
        name = f"{value.name}.{self.low}.{self.high}"
        graph = _graph(node)
        if name in graph.initializers:
            return graph.initializers[name]
        return _const(node, np.ascontiguousarray(value.const_value.numpy()[..., self.low : self.high]), name)

    def mask(self, node: ir.Node, value: ir.Value) -> ir.Value:
        return value


class _SwappedAxes:
    """A value [b, x, y, c] as [b, x, c, y]."""

    def product(self, node: ir.Node, maker: ir.Node, value: ir.Value) -> ir.Value | None:
        first, weight = maker.inputs[0], _weight(maker.inputs[1])
        if first is None or weight is None or first.shape is None or len(first.shape) != 4:
            return None
        across = _const(node, np.ascontiguousarray(weight.T))
        return _new(node, "MatMul", [across, self.mask(node, first)], value)

    def axis(self, axis: int, rank: int) -> int | None:
        return 3 if axis % rank == 2 else None

    def constant(self, node: ir.Node, value: ir.Value | None) -> ir.Value:
        assert value is not None
        assert value.const_value is not None
        return _const(node, value.const_value.numpy()[:, None])

    def mask(self, node: ir.Node, value: ir.Value) -> ir.Value:
        return _new(node, "Transpose", [value], value, perm=_ROWS)


def _push(node: ir.Node, value: ir.Value, layout: _Columns | _SwappedAxes) -> ir.Value | None:
    """A value in another layout, which its product then writes; None where that would copy or repeat work.

    So softmax(x W + b) becomes softmax(x W' + b') with the columns of W and b, or with the axes of both turned.
    """
    maker = value.producer()
    if maker is None or value.shape is None or len(value.uses()) != 1 or maker.inputs[0] is None:
        return None
    if maker.op_type == "MatMul":
        return None if _weight(maker.inputs[1]) is None else layout.product(node, maker, value)
    if maker.op_type == "Softmax":
        axis = layout.axis(maker.attributes.get_int("axis", -1), len(value.shape))
        part = None if axis is None else _push(node, maker.inputs[0], layout)
        return None if part is None else _copy(node, maker, [part], value, axis=axis)
    if maker.op_type not in ("Add", "Mul") or (second := maker.inputs[1]) is None:
        return None
    vector = _weight(second, rank=1) is not None
    if not vector and not _one_for_all(second, value):
        return None
    part = _push(node, maker.inputs[0], layout)
    if part is None:
        return None
    return _copy(
        node, maker, [part, layout.constant(node, second) if vector else layout.mask(node, second)], value
    )


def _one_for_all(mask: ir.Value, value: ir.Value) -> bool:
    """Whether a value of the same rank is one for all channels, of which there are several."""
    one, other = list(mask.shape or []), list(value.shape or [])
    return len(one) == len(other) > 0 and one[-1] == 1 and other[-1] != 1


def _scalar(value: ir.Value) -> float | None:
    """A constant of one number."""
    if value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(()))


def _weight(value: ir.Value | None, rank: int = 2) -> NDArray[Any] | None:
    """A constant matrix, or a constant vector."""
    if value is None or value.const_value is None or len(value.const_value.shape) != rank:
        return None
    return value.const_value.numpy()


def _const(node: ir.Node, array: NDArray[Any] | np.generic, name: str = "") -> ir.Value:
    """A constant of the graph."""
    graph = _graph(node)
    number = len(graph.initializers)
    while not name or name in graph.initializers:
        name, number = f"optimized_{number}", number + 1
    tensor = ir.tensor(np.asarray(array), name=name)
    value = ir.Value(
        name=name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def _cast(node: ir.Node, mask: ir.Value) -> ir.Value:
    """A mask as zeros and ones, made once."""
    for user, _ in mask.uses():
        if user.op_type == "Cast" and user.attributes.get_int("to") == ir.DataType.FLOAT:
            return user.outputs[0]
    return _new(node, "Cast", [mask], mask, ir.DataType.FLOAT, to=int(ir.DataType.FLOAT))


def _copy(
    node: ir.Node, maker: ir.Node, inputs: Sequence[ir.Value | None], value: ir.Value, **changed: Any
) -> ir.Value:
    """The output of a node of the same kind, attributes and part as another."""
    attributes = {name: attribute.value for name, attribute in maker.attributes.items()} | changed
    return _new(node, maker.op_type, inputs, value, part=maker, **attributes)


def _new(
    node: ir.Node,
    kind: str,
    inputs: Sequence[ir.Value | None],
    like: ir.Value,
    dtype: ir.DataType | None = None,
    part: ir.Node | None = None,
    **attributes: Any,
) -> ir.Value:
    """The output of a new node before another; its rank is that of `like`."""
    new, props = ir.node(kind, inputs, attributes=attributes), (part or node).metadata_props
    new.metadata_props.update({key: props[key] for key in (PART, SCOPE) if key in props})
    output = new.outputs[0]
    output.type = ir.TensorType(dtype) if dtype is not None else like.type
    output.shape = _shape(new, like)
    _graph(node).insert_before(node, new)
    return output


def _shape(new: ir.Node, like: ir.Value) -> ir.Shape | None:
    """The shape of a new node's output, as far as a rule asks for it: its rank, and which dims are 1."""
    first = new.inputs[0]
    assert first is not None
    if new.op_type == "Transpose" and first.shape is not None:
        return ir.Shape([first.shape[i] for i in new.attributes.get_ints("perm", ())])
    if new.op_type in ("Softmax", "Add", "Mul", "Cast", "Not", "Where"):
        return (like if new.op_type == "Where" else first).shape
    if new.op_type == "MatMul" and like.shape is not None:
        second = new.inputs[1]
        assert second is not None
        if first.const_value is not None and second.shape is not None:
            return ir.Shape([*second.shape[:-2], first.const_value.numpy().shape[0], second.shape[-1]])
        if second.const_value is not None:
            return ir.Shape([*like.shape[:-1], second.const_value.numpy().shape[-1]])
    return None


def _replace(output: ir.Value, value: ir.Value) -> None:
    """Let a value take the place and the name of a node's output."""
    node = output.producer()
    assert node is not None
    graph = _graph(node)
    for place, given in enumerate(graph.outputs):
        if given is output:
            value.shape, value.type = output.shape, output.type
            graph.outputs[place] = value
    name, output.name = output.name, None
    value.name = name
    ir.convenience.replace_all_uses_with(output, value)


def _graph(node: ir.Node) -> ir.Graph:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    return graph


def _sweep(graph: ir.Graph) -> None:
    """Drop what nothing reads any more."""
    outputs = set(graph.outputs)
    for node in reversed(list(graph)):
        if not any(output.uses() or output in outputs for output in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and value not in outputs:
            del graph.initializers[name]
