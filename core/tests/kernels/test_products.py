"""Large linear maps by convolution: the same results and gradients, and only where nobody asked for anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, backends
from torch.utils._python_dispatch import TorchDispatchMode

from peirce.kernels import linear_map, products, weight_gradient
from peirce.kernels.products import add_map


class Convolutions(TorchDispatchMode):
    """Counts the convolutions, forwards and backwards."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += "convolution" in func.name()
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def wider_vectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(products, "_wider_vectors", lambda: True)
    yield
    backends.mkldnn.enabled = True


def three(rows: tuple[int, ...] = (4, 64), inputs: int = 128, outputs: int = 160) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    sizes = (*rows, inputs), (outputs, inputs), (outputs,)
    return [torch.randn(each, generator=draw, requires_grad=True) for each in sizes]


def convolutions(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> int:
    with Convolutions() as counter:
        linear_map(values, weight, bias)
    return counter.count


def near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert float((found - expected).detach().abs().max() / expected.detach().abs().max()) < 2e-6


@pytest.mark.parametrize("rows", [(256,), (4, 64), (2, 16, 8)])
@pytest.mark.parametrize("biased", [True, False])
def test_results_and_gradients_are_those_of_torch(rows: tuple[int, ...], *, biased: bool) -> None:
    tensors = three(rows, 129, 140)
    tensors = tensors if biased else tensors[:2]
    assert convolutions(*tensors) == 1
    ours, theirs = linear_map(*tensors), F.linear(*tensors)
    near(ours, theirs)
    assert ours.is_contiguous()
    pairs = (torch.autograd.grad(each.sin().sum(), tensors, create_graph=True) for each in (ours, theirs))
    for own, other in zip(*pairs, strict=True):
        near(own, other)
    seconds = (
        torch.autograd.grad(
            sum(
                each.square().sum()
                for each in torch.autograd.grad(found.sin().sum(), tensors, create_graph=True)
            ),
            tensors,
        )
        for found in (linear_map(*tensors), F.linear(*tensors))
    )
    for own, other in zip(*seconds, strict=True):
        near(own, other)


@pytest.mark.parametrize(("rows", "counted"), [(256, 1), (8, 0)])
def test_the_gradient_of_a_weight_is_torchs(rows: int, counted: int) -> None:
    values, weight, _ = three((rows,))
    given = torch.randn(rows, 160, generator=torch.Generator().manual_seed(1))
    (expected,) = torch.autograd.grad(F.linear(values, weight), weight, given)
    with Convolutions() as counter:
        found = weight_gradient(values.detach(), given)
    assert counter.count == counted
    assert found.is_contiguous()
    near(found, expected)


@pytest.mark.parametrize("by_convolution", [True, False])
@pytest.mark.parametrize("cast", [True, False])
def test_a_map_is_added_either_way(*, by_convolution: bool, cast: bool) -> None:
    values, weight, _ = three((256,))
    total = torch.randn(256, 160, generator=torch.Generator().manual_seed(1), requires_grad=True)
    tensors = total, values, weight
    backends.mkldnn.enabled = by_convolution
    ways: list[Callable[..., Tensor]] = [add_map, lambda own, *both: own + F.linear(*both)]
    with torch.autocast("cpu", torch.bfloat16, enabled=cast):
        ours, theirs = (way(*tensors).float() for way in ways)
    pairs = (torch.autograd.grad(each.square().sum(), tensors) for each in (ours, theirs))
    for found, expected in ((ours, theirs), *zip(*pairs, strict=True)):
        error = (found - expected).detach().abs().max() / expected.detach().abs().max()
        assert error < (3e-2 if cast else 2e-6)
    assert torch.equal(
        torch.compile(add_map, backend="eager", fullgraph=True)(*tensors),
        torch.addmm(total, values, weight.t()),
    )


def test_functions_of_functions_are_those_of_torch() -> None:
    values, weight, bias = (each.detach() for each in three((2, 256)))

    def gradient(way: Callable[..., Tensor]) -> Tensor:
        found: Tensor = torch.func.grad(lambda w: way(values, w, bias).sin().sum())(weight)
        return found

    near(gradient(linear_map), gradient(F.linear))
    mapped = torch.vmap(linear_map, (0, None, None))(values, weight, bias)
    near(mapped, F.linear(values, weight, bias))


@pytest.mark.parametrize(
    "change",
    [
        lambda values, weight: (values[:, :60], weight),  # few rows, and not contiguous
        lambda values, weight: (values[:1], weight),
        lambda values, weight: (values, weight[:8]),  # few outputs
        lambda values, weight: (values[..., :8].contiguous(), weight[:, :8].contiguous()),
        lambda values, weight: (values, weight.t().contiguous().t()),
        lambda values, weight: (values.double(), weight.double()),
        lambda values, weight: (values.to("meta"), weight.to("meta")),
    ],
)
def test_other_maps_stay_with_torch(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    values, weight, _ = three()
    assert convolutions(*change(values, weight)) == 0


def test_who_sets_how_torch_multiplies_is_heard() -> None:
    tensors = three()
    assert convolutions(*tensors) == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert convolutions(*tensors) == 0
    before = backends.mkldnn.matmul.fp32_precision
    try:
        backends.mkldnn.matmul.fp32_precision = "bf16"
        assert convolutions(*tensors) == 0
    finally:
        backends.mkldnn.matmul.fp32_precision = before
    backends.mkldnn.enabled = False
    assert convolutions(*tensors) == 0


def test_exported_programs_have_products_and_any_batch() -> None:
    values, weight, bias = (each.detach() for each in three())

    class Map(torch.nn.Module):
        def forward(self, each: Tensor) -> Tensor:
            return linear_map(each, weight, bias)

    for strict in (True, False):
        sizes = {"each": {0: torch.export.Dim("batch", min=1)}}
        program = torch.export.export(Map(), (values,), dynamic_shapes=sizes, strict=strict)
        assert not any("conv" in str(node.target) for node in program.graph.nodes)
        assert program.module()(values[:1]).shape == (1, 64, 160)


@pytest.mark.parametrize(
    ("text", "wider"),
    [
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 26\n", True),
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\n", False),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 26\n", False),
        ("", False),
    ],
)
def test_the_processor_decides(
    text: str, *, wider: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    info = tmp_path / "cpuinfo"
    info.write_text(text, encoding="utf-8")
    monkeypatch.setattr(products, "Path", lambda _: info)
    monkeypatch.setattr(backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert products._wider_vectors.__wrapped__() is wider
    monkeypatch.setattr(backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not products._wider_vectors.__wrapped__()
