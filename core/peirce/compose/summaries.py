"""What a spec amounts to: its typed plan, its parameters, and the work of one forward pass, without weights.

The model is composed on torch's meta device, where tensors have shapes and no storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import asdict, frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from peirce.compose.building import build
from peirce.errors import InputError
from peirce.model import Model
from peirce.parts import Plan, PlannedOperator, Reader, RecurrentOperator, TensorSpec, Writer
from peirce.spec import Spec

if TYPE_CHECKING:
    from peirce.registry import Registry

USUAL_LENGTH = 128
"""The tokens of an example where nobody says how many."""

OTHER_DIMS = 2
"""The size of symbolic dims other than batch and length."""

MOST = 1_000_000
"""The largest batch and length: beyond them torch's counts of elements overflow, even without storage."""

_DTYPES = {"int64": torch.int64, "bool": torch.bool, "float": torch.float32}


@frozen(kw_only=True)
class OperatorSummary:
    """One operator of every layer; shapes are channels such as `B: h=12`, empty for a state operator."""

    index: int
    name: str
    typing: str
    kernel: str
    premise: str
    output: str
    scope: str
    activation: str


@frozen(kw_only=True)
class Summary:
    """What a spec amounts to.

    Args:
        name: the spec's name.
        architecture: the architecture's name.
        layers: how many layers there are; every one has the same operators.
        operators: the operators of a layer, in order.
        inputs: each input's dtype and dims.
        outputs: each output's dtype and dims.
        parameters: how many parameters there are; tied ones count once.
        groups: parameters by part.
        batch: the batch that flops and bytes are for.
        length: the tokens of each example.
        flops: floating-point operations of one forward pass; a multiplication and an addition are two.
        parameter_bytes: the parameters in float32.
        activation_bytes: everything that the operations of one forward pass write, in float32.
    """

    name: str
    architecture: str
    layers: int
    operators: tuple[OperatorSummary, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    parameters: int
    groups: Mapping[str, int]
    batch: int
    length: int
    flops: int
    parameter_bytes: int
    activation_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def summarise(
    spec: Spec, *, batch: int = 1, length: int | None = None, registry: Registry | None = None
) -> Summary:
    """Compose a spec without weights and measure one forward pass.

    Args:
        spec: the spec.
        batch: how many examples.
        length: how many tokens each has; 128 if None, or as many as the spec allows.
        registry: where parts are looked up; the default registry if None.

    Raises:
        SpecError: the spec cannot be composed.
        InputError: batch or length is below 1 or beyond all use, or longer than the model's positions.
    """
    length = min(USUAL_LENGTH, spec.input.max_length) if length is None else length
    for name, size in (("batch", batch), ("length", length)):
        if size < 1:
            raise InputError(f"{name} must be at least 1, and is {size}")
        if size > MOST:
            raise InputError(f"{name} must be at most {MOST:,}, and is {size:,}")
    with torch.device("meta"):
        model = build(spec, registry=registry)
    model.eval().requires_grad_(False)
    flops, written = _measure(model, _inputs(model, batch, length))
    parameters = list(model.named_parameters())
    recurrences = tuple(f"{at}." for at, part in model.named_modules() if isinstance(part, RecurrentOperator))
    groups: Counter[str] = Counter()
    for name, parameter in parameters:
        groups[_group(name, model.plan, recurrences)] += parameter.numel()
    return Summary(
        name=spec.name,
        architecture=model.plan.architecture.name,
        layers=model.plan.dims.layers,
        operators=_operators(model.plan),
        inputs=_tensors(model.signature.inputs),
        outputs=_tensors(model.signature.outputs),
        parameters=sum(groups.values()),
        groups=dict(groups.most_common()),
        batch=batch,
        length=length,
        flops=flops,
        parameter_bytes=sum(parameter.nbytes for _, parameter in parameters),
        activation_bytes=written,
    )


class _Written(TorchDispatchMode):
    """Adds up the bytes that operations write; views write nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func is not torch.ops.aten._unsafe_view.default:
            self.bytes += sum(leaf.nbytes for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def _measure(model: Model, inputs: Mapping[str, Tensor]) -> tuple[int, int]:
    """The operations of one forward pass, and the bytes that it writes."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad():
        with counter:
            model(**inputs)  # this first pass also joins the fused weights, which is no work of the second
        with _Written() as written:
            model(**inputs)
    return counter.get_total_flops(), written.bytes


def _inputs(model: Model, batch: int, length: int) -> dict[str, Tensor]:
    sizes = {"batch": batch, "length": length, model.network.rows: length}
    inputs = {}
    for spec in model.signature.inputs:
        shape = [sizes.get(dim, OTHER_DIMS) if isinstance(dim, str) else dim for dim in spec.dims]
        inputs[spec.name] = torch.empty(shape, dtype=_DTYPES[spec.dtype], device="meta")
    return inputs


def _group(name: str, plan: Plan, recurrences: tuple[str, ...]) -> str:
    """The part that a parameter belongs to, from the places that a state dict keeps for parts."""
    if name.startswith(recurrences):
        return f"operator {plan.mixing[0].name}"
    parts = name.split(".")
    if parts[0] == "heads":
        return f"head {parts[1]}"
    if "operators" in parts:
        return f"operator {parts[parts.index('operators') + 2]}"
    named: Mapping[str, Callable[[int], str]] = {
        "positions": lambda index: f"position {plan.positions[index].name}",
        "augmenters": lambda index: f"augmenter {plan.augmenters[index].name}",
    }
    for kind, label in named.items():
        if kind in parts:
            return label(int(parts[parts.index(kind) + 1]))
    modules = [
        part for part in parts[1:-1] if not part.isdecimal() and part not in ("input", "layers", "encoder")
    ]
    return modules[0] if modules else parts[0]


def _operators(plan: Plan) -> tuple[OperatorSummary, ...]:
    return tuple(
        OperatorSummary(
            index=index,
            name=planned.name,
            typing=planned.part.typing,
            kernel=_channels(planned.kernel),
            premise=_channels(planned.premise),
            output=_channels(planned.output),
            scope=planned.part.scope_rule,
            activation=_activation(planned),
        )
        for index, planned in enumerate((*plan.mixing, *plan.state))
    )


def _channels(channels: Reader | Writer | None) -> str:
    if channels is None:
        return ""
    return f"{channels.branch}: {' '.join(f'{name}={size}' for name, size in channels.shape.items())}"


def _activation(planned: PlannedOperator) -> str:
    """The kernel's activation and the one that the spec puts on the result."""
    kernel = planned.kernel.activation if planned.kernel is not None else "none"
    given = [name for name in (kernel, planned.activation) if name != "none"]
    return ", ".join(given) or "none"


def _tensors(specs: Sequence[TensorSpec]) -> dict[str, str]:
    return {spec.name: f"{spec.dtype} [{', '.join(map(str, spec.dims))}]" for spec in specs}
