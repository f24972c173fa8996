"""How a part survives: rows with nothing in scope, huge logits, narrow dtypes, other devices, the backward pass."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import torch
from attrs import evolve
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from peirce.parts import PureOperator, RecurrentOperator
from peirce_testing.check import NETWORK, check, on_examples
from peirce_testing.compare import (
    BrokenError,
    NotApplicableError,
    assert_all_equal,
    assert_finite,
    assert_zero,
)
from peirce_testing.examples import FLOATS, PADDED, Example, Tensors, View, plain_view
from peirce_testing.harness.architectures import ArchitectureHarness
from peirce_testing.harness.base import EXAMPLE, Harness, modules
from peirce_testing.harness.labels import WHOLE_GROUPS, losses
from peirce_testing.harness.sized import HeadHarness, LayerHarness
from peirce_testing.tiny_models import fit_scope, tiny_spec

COMPILED = (
    "infer", "read", "step", "fused", "unary", "binary", "pairs", "rotations", "scope", "index", "forward",
)  # fmt: skip
"""What parts compute by, whatever their kind."""


@check("operators", "heads", "architectures", but=RecurrentOperator)
def empty_rows(harness: Harness) -> None:
    """A row with nothing in scope gives zeros, never NaN, and finite gradients, in every dtype. Padding, and tokens
    that a relation lets see nothing; softmax logits of order one and of +-1e4.
    """

    def body(harness: Harness, example: Example) -> None:
        view = example.view
        for dtype in FLOATS:
            for scale in (1.0,) if harness.module else (1.0, 1e4):
                tensors = with_extreme_logits(harness.draw(view, example.generator(), dtype), scale).leaves()
                instance = harness.make(dtype=dtype)
                results = harness.raw(instance, tensors, view)
                what = f"in {dtype} with logits of order {scale:g}"
                if issubclass(harness.part, PureOperator) and harness.part.scope_rule == "reduce":
                    empty = ~view.allowed().any(2)
                    for slot, result in results:
                        assert_zero(result[empty], f"{slot.name} {what}, in the rows that see nothing")
                check_finite(instance, tensors, results, what)

    if "relation" in harness.kinds:
        on_examples(harness, body, kinds=("relation",), empty_rows=True, count=5)
    if "bidirectional" in harness.kinds:
        on_examples(harness, body, kinds=("bidirectional",), padded=True, count=5)
        # An example that is padding throughout; others have at least one real token.
        body(harness, Example(View("bidirectional", 2, 3, torch.tensor([[False] * 3, [True] * 3])), 0))


def with_extreme_logits(tensors: Tensors, scale: float = 1e4) -> Tensors:
    """The tensors with softmax logits of plus and minus `scale`, unless that is 1."""
    return tensors.map(lambda slot, t: t.sign() * scale if slot.logits and scale != 1 else t)


@check(*NETWORK)
def finite(harness: Harness) -> None:
    """Values and gradients are finite in float32, bfloat16 and float16, with logits of +-1e4. Softmax kernels that are
    all but one-hot, where something is in scope; inputs that are tiny or zero.
    """

    def body(harness: Harness, example: Example) -> None:
        for dtype in FLOATS[1:]:
            drawn, instance = (
                harness.draw(example.view, example.generator(), dtype),
                harness.make(dtype=dtype),
            )
            tried = {"": with_extreme_logits(drawn)}
            if not harness.module and dtype == torch.float32:
                tried[", where all inputs are of order 1e4"] = drawn.scale(1e4)
            if harness.module and drawn.floats():
                # The slope of a norm at 1e-6 is beyond float16.
                for size in (0.0,) if dtype == torch.float16 else (0.0, 1e-6):
                    tried[f", where all inputs are of order {size:g}"] = drawn.scale(size)
            for what, given in tried.items():
                tensors = given.leaves()
                check_finite(
                    instance, tensors, harness.run(instance, tensors, example.view), f"in {dtype}{what}"
                )

    # Rows of padding see nothing, which is what `empty_rows` is about.
    on_examples(harness, body, count=6, padded=False if isinstance(harness, LayerHarness) else None)


def check_finite(instance: object, tensors: Tensors, results: Tensors, what: str) -> None:
    """Assert that values are finite, and the gradients of every input and parameter."""
    parameters = [each for module in modules(instance) for each in module.named_parameters()]
    for module in modules(instance):
        module.zero_grad()  # a kept model may still hold the gradients of an example that failed
    for name, result in results.floats().items():
        assert_finite(result.detach(), f"{name} {what}")
    summed = [result.float().sum() for result in results.floats().values() if result.requires_grad]
    if summed:
        torch.autograd.backward(torch.stack(summed).sum())
    for name, tensor in (*tensors.floats().items(), *((f"the parameter {n}", p) for n, p in parameters)):
        if tensor.grad is not None:
            assert_finite(tensor.grad, f"the gradient of {name} {what}")


@check(*NETWORK, slow=True)
def compiled(harness: Harness) -> None:
    """Under `torch.compile` a part gives what it gives without. By the backend `eager`, which runs what was traced
    as it is; with its example options for any sizes. Of an architecture, two layers with these options.
    """
    view = plain_view(harness.kinds[0], 2, 4, PADDED)
    if network := isinstance(harness, ArchitectureHarness):
        if harness.label != EXAMPLE:
            raise NotApplicableError("tracing a whole network takes seconds")
        spec = tiny_spec(harness.part, harness.options, scope=view.kind)
        harness = evolve(harness, specs={view.kind: fit_scope(spec, harness.registry)})
    instance, tensors = harness.make(), harness.draw(view)
    expected = harness.run(instance, tensors, view).clone_all()
    torch.compiler.reset()  # what was traced of other instances of the class
    computes = instance[view.kind].network if network else instance
    for name in COMPILED:
        if callable(method := getattr(computes, name, None)):
            # Tracing for any sizes takes ten times as long; values are compared at those that it is traced with.
            dynamic = harness.label == EXAMPLE
            setattr(computes, name, torch.compile(method, backend="eager", dynamic=dynamic, fullgraph=True))
    try:
        results = harness.run(instance, tensors, view)
    except Exception as error:
        if type(error).__module__.startswith("torch._dynamo"):
            raise NotApplicableError(
                f"torch cannot compile it whole: {str(error).splitlines()[0]}"
            ) from error
        raise
    assert_all_equal(results, expected, "under torch.compile")


def _views(harness: Harness) -> list[View]:
    several = WHOLE_GROUPS // 2 if isinstance(harness, HeadHarness) else 1
    every = ((2 * several, None), (2 * several, PADDED.repeat(several, 1)))
    return [plain_view(kind, batch, 4, real) for kind in harness.kinds[:2] for batch, real in every]


@check(*NETWORK)
def precision(harness: Harness) -> None:
    """Nothing is rounded inside: float64 stays float64 all the way, and float32 never becomes a half. Every operation
    of a call in float64 and in float32, padded and not.
    """
    for dtype in (torch.float64, torch.float32):
        instance = harness.make(dtype=dtype)
        for view in _views(harness):
            tensors = harness.draw(view, 0, dtype)
            with torch.no_grad(), _PrecisionObserver(dtype) as watched:
                outputs = harness.run(instance, tensors, view)
                if isinstance(harness, HeadHarness):
                    predicted = {slot.name: tensor for slot, tensor in outputs}
                    losses(instance, predicted, torch.Generator().manual_seed(0))
            for line, narrow in watched.found.items():
                name, given = (str(each).removeprefix("torch.") for each in (narrow, dtype))
                raise BrokenError(f"it computes in {name}, though the part is in {given}\n  {line}")


class OperationObserver(TorchDispatchMode):
    """Watches torch's operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether to wrap it for torch.compile, which takes a second to import."""
        return False


class _PrecisionObserver(OperationObserver):
    """Notes the operations that round floats of a dtype to a narrower one, or widen them again, with their lines."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.found: dict[str, torch.dtype] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given, floats = _floats((args, kwargs or {})), _floats(result)
        # What was computed in a narrower dtype is as narrow when it is widened; a number is as exact as it is.
        for one, others in ((given, floats), (floats, [each for each in given if each.dim()])):
            if any(each.dtype == self.dtype for each in one):
                for each in others:
                    if each.dtype.itemsize < self.dtype.itemsize:
                        line = _line()
                        if one is given or not line.startswith(str(_OURS)):
                            self.found.setdefault(line, each.dtype)
        return result


_TORCH = Path(torch.__file__).parent
_OURS = Path(__file__).parents[1]
"""Where parts are made anew in the dtype of a check while it runs."""


def _floats(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values] if values.is_floating_point() else []
    if isinstance(values, dict):
        values = list(values.values())
    return [each for value in values for each in _floats(value)] if isinstance(values, list | tuple) else []


def _line() -> str:
    """The line of code that called torch."""
    for call in reversed(traceback.extract_stack()):
        file = Path(call.filename)
        if file != Path(__file__) and _TORCH not in file.parents:
            return f"{call.filename}:{call.lineno} in {call.name}: {call.line}"
    return "an unknown line"


@check(*NETWORK, slow=True)
def devices(harness: Harness) -> None:
    """A part computes where it is moved to: no table stays behind, and none is made elsewhere. On torch's device
    without storage, which refuses tensors of another one as a GPU does.
    """
    instance = harness.make(seed=11, random=False)
    for module in modules(instance):
        module.to("meta")
    try:
        for view in _views(harness):
            tensors, there = harness.draw(view).map(lambda _, t: t.to("meta")), view.on("meta")
            for slot, result in harness.raw(instance, tensors, there):
                if result.device.type != "meta":
                    raise BrokenError(
                        f"{slot.name} is on {result.device}, but the part and its inputs are not"
                    )
        if isinstance(harness, HeadHarness):
            here, view = harness.make(), plain_view(harness.kinds[0], WHOLE_GROUPS, 4)
            known = harness.predict(here, harness.draw(view), view)
            for _, labels, _ in losses(here, known, torch.Generator().manual_seed(0)):
                instance.loss({name: value.to("meta") for name, value in known.items()}, labels.to("meta"))
    except RuntimeError as error:
        message = str(error).splitlines()[0]
        if "cpu" not in message or "device" not in message:
            raise NotApplicableError(f"it needs values to compute: {message}") from error
        raise BrokenError(
            "a tensor stays on the CPU where the part is on another device; make it a buffer, or make it where the "
            f"inputs are: {message}"
        ) from error
    finally:
        harness.forget()
