"""The kernels in Triton's language, core's norm with them, interpreted on a CPU: `tox -e kernels` brings triton.

Expected values are torch's own operations in float64, on the numbers that the kernel is given. The interpreter has
multiplied bfloat16 wrongly, so float32 and float16 stand for it; no test here says anything about a card.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import peirce
from peirce.algebra import Scope, standardise
from peirce.kernels import product_by_channel

pytest.importorskip("triton", reason="`tox -e kernels` has triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 interprets kernels on a CPU", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:triton", "ignore::DeprecationWarning:triton")

DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2}
SIZES = st.sampled_from([1, 3, 17, 34])


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEIRCE_KERNELS", "on")


def pairs_of(kind: str, batch: int, rows: int, columns: int) -> Tensor | None:
    """Masks as scopes have them; `empty` has rows that see nothing."""
    if kind == "none":
        return None
    if kind == "causal":
        return torch.ones(1, rows, columns, dtype=torch.bool).tril(columns - rows)
    pairs = torch.rand(batch, rows, columns) > 0.4
    if kind == "empty":
        pairs[:, ::2] = False
    return pairs


MASKS = st.sampled_from(["none", "causal", "relation", "empty"])


def compare(
    fused: Callable[..., Tensor], plain: Callable[..., Tensor], tensors: list[Tensor], tolerance: float
) -> None:
    """Hold values and gradients of a kernel, by a random cotangent and by a sum, against float64."""
    given = [each.detach().requires_grad_() for each in tensors]
    exact = [each.detach().double().requires_grad_() for each in tensors]
    result, expected = fused(*given), plain(*exact)
    assert result.dtype == tensors[0].dtype
    for cotangent in (torch.randn_like(expected), torch.ones_like(expected)):
        grads = torch.autograd.grad(result, given, cotangent.to(result.dtype), retain_graph=True)
        wanted = torch.autograd.grad(expected, exact, cotangent.to(result.dtype).double(), retain_graph=True)
        for one, other in zip((result.detach(), *grads), (expected.detach(), *wanted), strict=True):
            scale = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(one.double() / scale, other / scale, rtol=0, atol=tolerance)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(list(DTYPES)),
    st.integers(1, 2),
    SIZES,
    SIZES,
    SIZES,
    st.integers(1, 3),
    MASKS,
    st.booleans(),
)
def test_trans(
    dtype: torch.dtype, b: int, x: int, a: int, y: int, d: int, mask: str, tokens_last: bool
) -> None:
    from peirce_folnet.kernels.trans import trans

    torch.manual_seed(x + 100 * a)
    logits, values = torch.randn(d, b, x, a, dtype=dtype), torch.randn(d, b, a, y, dtype=dtype)
    tensors = [each.permute(1, 2, 3, 0) for each in (logits, values)]
    if not tokens_last:
        tensors = [each.contiguous() for each in tensors]
    pairs = pairs_of(mask, b, x, a)
    compare(
        lambda k, v: trans(k, v, pairs),
        lambda k, v: product_by_channel(Scope(pairs=pairs).softmax(k), v),
        tensors,
        DTYPES[dtype],
    )


def test_trans_drops_the_same_weights_forward_and_backward() -> None:
    from peirce_folnet.kernels.trans import trans

    k, v = torch.randn(2, 19, 21, 3, dtype=torch.float64), torch.randn(2, 21, 5, 3, dtype=torch.float64)
    torch.manual_seed(1)
    identity = torch.eye(21, dtype=torch.float64)[None, ..., None].expand(2, -1, -1, 3)
    kept = trans(k, identity, None, 0.3) / k.softmax(2)
    assert ((kept == 0) | ((kept - 1 / 0.7).abs() < 1e-6)).all()
    assert 0.6 < kept.bool().double().mean() < 0.8

    def fused(k: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(1)
        return trans(k, v, None, 0.3)

    compare(fused, lambda k, v: product_by_channel(k.softmax(2) * kept, v), [k, v], 1e-6)


def norm_in_scope(mask: Tensor | None, epsilon: float) -> Callable[..., Tensor]:
    """The norm that torch computes."""
    scope = Scope(pairs=mask)
    return lambda atoms, *affine: scope.zero_binary(standardise(atoms, *affine, epsilon=epsilon))


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(list(DTYPES)),
    st.integers(1, 2),
    SIZES,
    st.sampled_from([1, 3, 16, 65]),
    MASKS,
    st.booleans(),
    st.sampled_from([1e-12, 1e-5]),
)
def test_norm(dtype: torch.dtype, b: int, x: int, d: int, mask: str, affine: bool, epsilon: float) -> None:
    from peirce.kernels.triton_norm import norm

    torch.manual_seed(x + 100 * d)
    # The slope of one channel, or of channels that are all alike, is that of rounding errors.
    atoms = torch.randn(b, x, x + 1, d) + torch.arange(d) % 2
    epsilon = 1e-2 if d < 3 else epsilon
    weights = [torch.randn(d), torch.randn(d)] if affine else []
    pairs = pairs_of(mask, b, x, x + 1)
    compare(
        lambda atoms, *affine: norm(atoms, *(affine or (None, None)), pairs, epsilon),
        norm_in_scope(pairs, epsilon),
        [each.to(dtype) for each in (atoms, *weights)],
        DTYPES[dtype],
    )


def pair_network_of(
    pairs: Tensor | None, before: int | None, kept: Tensor | float = 1.0
) -> Callable[..., Tensor]:
    """The network on relations that torch computes."""
    scope = Scope(pairs=pairs, before=before)

    def compute(u: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, s: Tensor, b: Tensor) -> Tensor:
        normal = scope.zero_binary(standardise(u, epsilon=1e-5))
        converse = scope.converse(normal)
        hidden = F.gelu(F.linear(torch.cat([normal, converse], -1), w1, b1))
        return u + kept * (F.linear(hidden, w2, b2) + F.linear(converse, s, b))

    return compute


def network(d: int, h: int, dtype: torch.dtype) -> list[Tensor]:
    """Weights and biases of hidden layer, output and converse."""
    shapes = (h, 2 * d), (h,), (d, h), (d,), (d, d), (d,)
    return [(torch.randn(shape) / shape[-1] ** 0.5).to(dtype) for shape in shapes]


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(list(DTYPES)),
    st.integers(1, 2),
    st.sampled_from([1, 5]),
    st.sampled_from([0, 4]),
    st.sampled_from([3, 16, 18]),
    st.sampled_from([5, 33]),
    MASKS,
)
def test_pairs(dtype: torch.dtype, b: int, x: int, before: int, d: int, h: int, mask: str) -> None:
    from peirce_folnet.kernels.pairs import pair_network

    torch.manual_seed(x + 100 * d)
    atoms = torch.randn(b, x, x + before, d).to(dtype)
    pairs = pairs_of(mask, b, x, x + before)
    compare(
        lambda u, *w: pair_network(u, w[:2], w[2:4], w[4:], pairs, 1e-5),
        pair_network_of(pairs, before or None),
        [atoms, *network(d, h, dtype)],
        DTYPES[dtype],
    )


def test_pairs_drop_the_same_numbers_forward_and_backward() -> None:
    from peirce_folnet.kernels.pairs import pair_network

    atoms, weights = torch.randn(1, 6, 6, 5).double(), network(5, 7, torch.float64)

    def fused(u: Tensor, *w: Tensor) -> Tensor:
        torch.manual_seed(1)
        return pair_network(u, w[:2], w[2:4], w[4:], None, 1e-5, 0.3)

    kept = (fused(atoms, *weights) - atoms) / (pair_network_of(None, None)(atoms, *weights) - atoms)
    assert ((kept == 0) | ((kept - 1 / 0.7).abs() < 1e-6)).all()
    assert 0.5 < kept.bool().double().mean() < 0.9
    compare(fused, pair_network_of(None, None, kept), [atoms, *weights], 1e-6)


def test_operators_hold_what_torch_asks_of_them() -> None:
    from peirce.kernels import triton_norm
    from peirce_folnet.kernels import pairs as pair_kernels
    from peirce_folnet.kernels import trans as trans_kernels

    def check(operator: Any, *arguments: Any) -> None:
        torch.library.opcheck(operator, arguments)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, requires_grad=True)

    pairs = pairs_of("relation", 1, 5, 5)
    k, v = leaf(2, 1, 5, 5), leaf(2, 1, 5, 4)
    check(trans_kernels._trans, k, v, pairs, None, 0.0)
    u, norms = trans_kernels._trans(k.detach(), v.detach(), pairs, None, 0.0)
    saved = k.detach(), v.detach(), pairs, None, u, norms
    check(trans_kernels._trans_backward, *saved, torch.randn(2, 1, 5, 4), 0.0)
    atoms, weight, bias = leaf(1, 5, 5, 3), leaf(3), leaf(3)
    check(triton_norm._norm, atoms, weight, bias, pairs, 1e-5)
    check(triton_norm._norm_backward, torch.randn(1, 5, 5, 3), atoms.detach(), weight.detach(), pairs, 1e-5)
    weights = [each.requires_grad_() for each in network(3, 4, torch.float32)]
    check(pair_kernels._pairs, atoms, *weights, pairs, None, 1e-5, 0.0)
    w1, b1, w2, _, s, _ = (each.detach() for each in weights)
    saved = torch.randn(1, 5, 5, 3), atoms.detach(), w1, b1, w2, s, pairs, None
    check(pair_kernels._pairs_backward, *saved, 1e-5, 0.0)


TINY = {"layers": 2, "unary": 24, "binary": 6, "heads": 2, "head_size": 8}


@pytest.fixture(scope="module", params=["bidirectional", "causal"])
def model(request: pytest.FixtureRequest) -> peirce.Model:
    changes = {f"model.dims.{name}": size for name, size in TINY.items()} | {"model.heads": []}
    name = "folnet-base" if request.param == "bidirectional" else "folnet-causal"
    return peirce.build(peirce.load_spec(name, changes), seed=0).eval()


def run(model: peirce.Model, ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Outputs and gradients of a model."""
    model.zero_grad()
    outputs = dict(model(input_ids=ids, attention_mask=mask))
    generator = torch.Generator().manual_seed(1)
    torch.autograd.backward(
        [(each * torch.randn(each.shape, generator=generator)).sum() for each in outputs.values()]
    )
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    return {name: each.detach() for name, each in outputs.items()} | grads


def test_a_model_with_kernels_gives_what_it_gives_without(
    model: peirce.Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = torch.randint(5, 900, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 6:] = False
    with caplog.at_level(logging.DEBUG, "peirce"):
        found = run(model, ids, mask)
    for name in ("norm", "trans", "bool"):
        assert f"{name}: a kernel in Triton's language" in caplog.messages
    monkeypatch.setenv("PEIRCE_KERNELS", "off")
    expected = run(model, ids, mask)
    for name, each in expected.items():
        scale = max(1.0, float(each.abs().max()))
        torch.testing.assert_close(found[name] / scale, each / scale, rtol=0, atol=1e-4, msg=name)


def test_a_compiled_layer_has_the_kernels_without_a_break(model: peirce.Model) -> None:
    from peirce.algebra import Predicates

    layer: Any = model.network.layers[0]
    scope = Scope.padding(torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    atoms = torch.randn(2, 5, 24), torch.randn(2, 5, 5, 6)

    def compute(unary: Tensor, binary: Tensor) -> Predicates:
        return layer(Predicates(unary, binary), scope, ())[0]

    compiled = torch.compile(compute, backend="eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(compiled(*atoms), compute(*atoms))


def test_each_kernel_compiles_to_machine_code_for_three_cards() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "machine_code.py"
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-P", str(script), "--dtypes", "bf16"]
    variables["PYTHONPATH"] = str(script.parent)
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    rows = [line.split() for line in done.stdout.splitlines() if " sm_" in line]
    assert {row[2] for row in rows} == {"sm_80", "sm_90", "sm_120"}
    for row in rows:
        *_, registers, _, spilled, size = row
        assert 0 < int(registers) <= 255
        assert int(size) > 0
        assert spilled == "0" or row[2] != "sm_90", row
