"""Pair biases agree with a direct gather, in values and gradients, and never hold a vector for every pair."""

from __future__ import annotations

import importlib
import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from shared_folder import ROOT
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from peirce.kernels import PairBias, pair_products, sizes
from peirce.kernels import pair_scores as scores
from peirce.kernels import pair_values as mix

HEADS, SIZE = 4, 6
EXPORT_WARNINGS = (
    # torch 2.13, onnx exporter: of every input after the first with the same dim; of its own use of pytrees.
    "ignore:# The axis name. .* will not be used:UserWarning",
    "ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning",
)


def _benchmark(name: str) -> ModuleType:
    """A module of benchmarks/, whose modules import each other by name."""
    folder = ROOT / "benchmarks"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        return importlib.import_module(name)


peer = _benchmark("direct_gather")


def _bias(
    kinds: int = 1,
    groups: int = 1,
    buckets: int = 5,
    batch: int = 2,
    length: int = 7,
    *,
    shared_ids: bool = False,
    shared_rows: bool = False,
    dtype: torch.dtype = torch.float64,
) -> PairBias:
    torch.manual_seed(0)
    table = (kinds, buckets, groups, SIZE)
    return PairBias(
        ids=torch.randint(buckets, (1 if shared_ids else batch, length, length)),
        rows=torch.randint(kinds, (1 if shared_rows else batch, length)) if kinds > 1 else None,
        key=torch.randn(table, dtype=dtype, requires_grad=True),
        value=torch.randn(table, dtype=dtype, requires_grad=True),
        score=torch.randn(kinds, buckets, HEADS, dtype=dtype, requires_grad=True),
    )


def _run(score: Any, mixed: Any, bias: PairBias, query: Tensor) -> list[Tensor]:
    """Scores, weighted values, and the gradients of everything that has one."""
    logits = score(query, bias)
    summed = mixed(logits.softmax(2), bias)
    leaves = [t for t in (query, bias.key, bias.value, bias.score) if t is not None]
    loss = summed.float().square().sum() + logits.float().sin().sum()
    return [logits, summed, *torch.autograd.grad(loss, leaves)]


@pytest.fixture(params=["chosen", "bucket", "blocked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "chosen":
        monkeypatch.setattr(pair_products, "by_bucket", lambda *sizes: request.param == "bucket")
    return request.param


@pytest.mark.parametrize(("kinds", "groups"), [(1, 1), (1, HEADS), (3, 1), (3, HEADS)])
@pytest.mark.parametrize("shared", list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("cpu", [True, False])
def test_agrees_with_the_direct_gather(
    kinds: int, groups: int, shared: tuple[bool, bool], cpu: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_products, "on_cpu", lambda table: cpu)  # elsewhere no kinds are counted
    monkeypatch.setitem(sizes.PAIR_BLOCK, "cpu", 100)  # several blocks, of unequal sizes
    bias = _bias(kinds, groups, shared_ids=shared[0], shared_rows=shared[1])
    query = torch.randn(2, 7, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    ours = _run(scores, mix, bias, query)
    direct = _run(peer.direct_scores, peer.direct_mix, bias, query)
    torch.testing.assert_close(ours, direct, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kinds", "groups"), [(1, 1), (3, HEADS)])
def test_gradients_of_both_orders(kinds: int, groups: int, way: str) -> None:
    bias = _bias(kinds, groups, buckets=3, batch=1, length=3)
    query = torch.randn(1, 3, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(1, 3, 3, HEADS, dtype=torch.float64, requires_grad=True)

    def score(query: Tensor, key: Tensor, number: Tensor) -> Tensor:
        return scores(query, PairBias(bias.ids, bias.rows, key=key, score=number))

    def value(weights: Tensor, vectors: Tensor) -> Tensor:
        return mix(weights, PairBias(bias.ids, bias.rows, value=vectors))

    assert torch.autograd.gradcheck(score, (query, bias.key, bias.score))
    assert torch.autograd.gradcheck(value, (weights, bias.value))
    assert torch.autograd.gradgradcheck(value, (weights, bias.value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("groups", [1, HEADS])
def test_low_precision_is_as_good_as_its_inputs(dtype: torch.dtype, groups: int, way: str) -> None:
    bias = _bias(3, groups, batch=3, length=33, dtype=dtype)
    query = torch.randn(3, 33, HEADS, SIZE, dtype=dtype, requires_grad=True)
    weights = torch.rand(3, 33, 33, HEADS, dtype=dtype, requires_grad=True)
    ahead = torch.randn(3, 33, 33, HEADS, dtype=dtype), torch.randn(3, 33, HEADS, SIZE, dtype=dtype)

    def run(score: Any, mixed: Any, exact: bool) -> list[Tensor]:
        leaves = [query, weights, bias.key, bias.value, bias.score]
        if exact:
            leaves = [leaf.detach().double().requires_grad_() for leaf in leaves]
        own = PairBias(bias.ids, bias.rows, *leaves[2:])
        results = [score(leaves[0], own), mixed(leaves[1], own)]
        grads = [grad.double() if exact else grad for grad in ahead]
        return [*results, *torch.autograd.grad(results, leaves, grads)]

    ours = run(scores, mix, exact=False)
    wanted = run(peer.direct_scores, peer.direct_mix, exact=True)
    for got, true in zip(ours, wanted, strict=True):
        assert got.dtype == dtype
        # A few roundings of numbers as large as the largest, whatever the number of terms.
        error = (got.double() - true).abs().max() / true.abs().max()
        assert error < 8 * torch.finfo(dtype).eps


def test_terms_that_are_absent_add_nothing() -> None:
    bias = _bias()
    query = torch.randn(2, 7, HEADS, SIZE, dtype=torch.float64)
    key = scores(query, bias._replace(score=None))
    number = scores(query, bias._replace(key=None))
    torch.testing.assert_close(key + number, scores(query, bias))
    assert scores(query, bias._replace(key=None, score=None)).eq(0).all()


@pytest.mark.parametrize("groups", [1, HEADS])
@pytest.mark.parametrize("shared_ids", [False, True])
def test_a_query_term_is_the_key_term_of_the_converse(groups: int, shared_ids: bool, way: str) -> None:
    bias = _bias(groups=groups, shared_ids=shared_ids)
    query = torch.randn(2, 7, HEADS, SIZE, dtype=torch.float64)
    key = torch.randn(2, 7, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    assert bias.key is not None
    vectors = bias.key[0][bias.ids].expand(2, 7, 7, HEADS, SIZE)  # [b, x, y, h, s]
    wanted = (key.unsqueeze(1) * vectors).sum(4)
    term = scores(query, PairBias(bias.ids, query=bias.key), key)
    torch.testing.assert_close(term, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(term.sin().sum(), [key, bias.key], retain_graph=True),
        torch.autograd.grad(wanted.sin().sum(), [key, bias.key]),
    )
    both = scores(query, bias._replace(query=bias.key), key)
    torch.testing.assert_close(both, scores(query, bias) + term)


class WholePairs(TorchDispatchMode):
    """Collects every tensor with as many vectors of the head's size as there are pairs, whatever its axes."""

    def __init__(self, pair_count: int, size: int) -> None:
        super().__init__()
        self.numbers = pair_count * size
        self.size = size
        self.calls = 0
        self.found: list[tuple[str, tuple[int, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls += 1
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor) and self.size in tensor.shape and tensor.numel() >= self.numbers:
                self.found.append((str(func), tuple(tensor.shape)))
        return result


@pytest.mark.parametrize(("groups", "kinds"), [(1, 1), (HEADS, 1), (1, 3), (HEADS, 3)])
@pytest.mark.parametrize("buckets", [5, 90])
def test_no_vector_for_every_pair_is_held_forward_or_backward(groups: int, kinds: int, buckets: int) -> None:
    batch, length = 2, 40
    bias = _bias(kinds, groups, buckets, batch, length)
    query = torch.randn(batch, length, HEADS, SIZE, dtype=torch.float64, requires_grad=True)
    converse = PairBias(bias.ids, query=None if bias.key is None else bias.key[:1])
    with WholePairs(batch * length * length, SIZE) as watch:
        _run(scores, mix, bias, query)
        torch.autograd.grad(scores(query, converse, query).sum(), [query, bias.key])
    assert watch.calls > 20
    assert watch.found == []


class Biased(nn.Module):
    """Scores and sums with a pair bias, between named tensors, as an exporter sees it."""

    def __init__(self, bias: PairBias) -> None:
        super().__init__()
        self.kinds = 1 if bias.rows is None else 2
        for name in ("key", "value", "score"):
            self.register_parameter(name, nn.Parameter(getattr(bias, name).detach().float()))

    def forward(self, query: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
        kinds = rows if self.kinds > 1 else None
        bias = PairBias(ids, kinds, self.key, self.value, self.score)
        return mix(scores(query, bias).softmax(2), bias)


def _inputs(bias: PairBias, batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    assert bias.key is not None
    kinds, buckets = bias.key.shape[:2]
    return (
        torch.randn(batch, length, HEADS, SIZE),
        torch.randint(buckets, (batch, length, length)),
        torch.randint(kinds, (batch, length)),
    )


def export_to_onnx(module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """An ONNX model with dynamic batch and length."""
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    shapes = ({0: batch, 1: length}, {0: batch, 1: length, 2: length}, {0: batch, 1: length})
    program = torch.onnx.export(
        module.eval(),
        inputs,
        dynamo=True,
        verbose=False,
        dynamic_shapes=shapes,
        input_names=["query", "ids", "rows"],
        output_names=["mixed"],
    )
    return program.model_proto


def vectors_of_all_pairs_in_onnx(model: Any, bias: PairBias, batch: int = 2, length: int = 37) -> list[str]:
    """The tensors of an exported graph that hold vectors of several heads for every pair of tokens, as they are run."""
    import onnx
    import onnxruntime

    written = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in written if name != "mixed")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    inputs = dict(zip(("query", "ids", "rows"), _inputs(bias, batch, length), strict=True))
    feeds = {value.name: inputs[value.name].numpy() for value in session.get_inputs()}
    shapes = {
        output.name: value.shape
        for output, value in zip(session.get_outputs(), session.run(None, feeds), strict=True)
    }
    assert len(shapes) == len(written)
    pairs = batch * length * length
    return [name for name, dims in shapes.items() if SIZE in dims and np.prod(dims) > pairs * SIZE]


@pytest.mark.filterwarnings(*EXPORT_WARNINGS)
def test_the_onnx_graph_holds_vectors_of_one_head_at_a_time() -> None:
    import onnx
    import onnxruntime

    bias = _bias(3, HEADS, buckets=11)
    module = Biased(bias)
    model = export_to_onnx(module, _inputs(bias, 2, 5))
    assert vectors_of_all_pairs_in_onnx(onnx.ModelProto.FromString(model.SerializeToString()), bias) == []
    assert {node.op_type for node in model.graph.node}.isdisjoint({"ScatterElements", "ScatterND"})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    for batch, length in ((1, 1), (3, 9), (2, 16)):
        inputs = _inputs(bias, batch, length)
        feeds = dict(zip(("query", "ids", "rows"), (t.numpy() for t in inputs), strict=True))
        [got] = session.run(None, {name: feeds[name] for name in names})
        np.testing.assert_allclose(got, module(*inputs).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kinds", "groups"), [(1, 1), (3, HEADS)])
def test_compiles_as_one_graph_for_every_length(kinds: int, groups: int) -> None:
    bias = _bias(kinds, groups, buckets=11)
    module = Biased(bias)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for batch, length in ((2, 5), (3, 8)):
        inputs = _inputs(bias, batch, length)
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-5, atol=1e-6)
    got = torch.autograd.grad(compiled(*inputs).square().sum(), list(module.parameters()))
    wanted = torch.autograd.grad(module(*inputs).square().sum(), list(module.parameters()))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
