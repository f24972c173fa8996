"""What a spec amounts to: its typed plan, its parameters, and the work of one forward pass, without weights.

The model is composed on torch's meta device, where tensors have shapes and no storage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from peirce.compose.building import build_afresh
from peirce.errors import InputError
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
class Summary:
    """What a spec amounts to.

    Args:
        layers: how many layers there are.
        operators: of each operator of a layer the layers that have it, such as `0-2, 4`, its index there, name, typing,
            channels such as `B: h=12`, scope and activation.
        inputs, outputs: the dtype and the dims of each.
        parameters: how many parameters there are; tied ones count once.
        groups: parameters by part.
        weights: those of two dims or more, biases left out, by part: what papers count.
        batch: the batch that flops and bytes are for.
        length: the tokens of each example.
        flops: floating-point operations of one forward pass; a multiplication and an addition are two.
        parameter_bytes: the parameters in float32.
        activation_bytes: everything that the operations of one forward pass write, in float32.
    """

    name: str
    architecture: str
    layers: int
    operators: tuple[Mapping[str, Any], ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    parameters: int
    groups: Mapping[str, int]
    weights: Mapping[str, int]
    batch: int
    length: int
    flops: int
    parameter_bytes: int
    activation_bytes: int


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
        InputError: batch or length is below 1 or above `MOST`, or the length exceeds the model's positions.
    """
    length = min(USUAL_LENGTH, spec.input.max_length) if length is None else length
    for name, size in (("batch", batch), ("length", length)):
        if not 1 <= size <= MOST:
            raise InputError(f"{name} must be from 1 to {MOST:,}, and is {size:,}")
    with torch.device("meta"):
        model = build_afresh(spec, seed=0, registry=registry)
    model.eval().requires_grad_(False)
    sizes = {"batch": batch, "length": length, model.network.rows: length}
    inputs = {}
    for tensor in model.signature.inputs:
        shape = [sizes.get(dim, OTHER_DIMS) if isinstance(dim, str) else dim for dim in tensor.dims]
        inputs[tensor.name] = torch.empty(shape, dtype=_DTYPES[tensor.dtype], device="meta")
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            model(**inputs)  # the first pass also joins the fused weights, and the second does not
        with _ByteCounter() as written:
            model(**inputs)
    parameters = list(model.named_parameters())
    recurrences = tuple(f"{at}." for at, part in model.named_modules() if isinstance(part, RecurrentOperator))
    groups, weights = Counter[str](), Counter[str]()
    for name, parameter in parameters:
        group, counted = _group(name, model.plan, recurrences), parameter.dim() > 1
        groups[group] += parameter.numel()
        weights[group] += parameter.numel() * (counted and not name.rpartition(".")[2].startswith("bias"))
    return Summary(
        name=spec.name,
        architecture=model.plan.architecture.name,
        layers=model.plan.dims.layers,
        operators=tuple(_operators(model.plan)),
        inputs=_tensors(model.signature.inputs),
        outputs=_tensors(model.signature.outputs),
        parameters=sum(groups.values()),
        groups=dict(groups.most_common()),
        weights={group: weights[group] for group, _ in groups.most_common()},
        batch=batch,
        length=length,
        flops=counter.get_total_flops(),
        parameter_bytes=sum(parameter.nbytes for _, parameter in parameters),
        activation_bytes=written.bytes,
    )


class _ByteCounter(TorchDispatchMode):
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


def _group(name: str, plan: Plan, recurrences: tuple[str, ...]) -> str:
    """The part that a parameter belongs to, from the places that a state dict keeps for parts."""
    if match := re.search(r"^(head)s\.([^.]+)|\.(operator)s\.\d+\.([^.]+)", name):
        return " ".join(filter(None, match.groups()))
    if name.startswith(recurrences):
        return f"operator {plan.mixing[0].name}"
    if match := re.search(r"\.(positions|augmenters)\.(\d+)", name):
        return f"{match[1].removesuffix('s')} {getattr(plan, match[1])[int(match[2])].name}"
    parts = name.split(".")
    aside = "input", "layers", "encoder", "transformer"
    modules = [part for part in parts[1:-1] if not part.isdecimal() and part not in aside]
    return modules[0] if modules else parts[0]


def _operators(plan: Plan) -> Iterator[dict[str, Any]]:
    """A row for each operator of each kind of layer, with the layers that are so."""
    layers = [plan.layers[i % len(plan.layers)] for i in range(plan.dims.layers)]
    for first, layer in enumerate(plan.layers):
        if first != plan.layers.index(layer):
            continue
        numbers = [i for i, other in enumerate(layers) if other == layer]
        named = ""
        for number in numbers:  # such as 0-2, 4
            if number - 1 not in numbers:
                named += f", {number}" if named else str(number)
            elif number + 1 not in numbers:
                named += f"-{number}"
        for index, planned in enumerate((*layer.mixing, *layer.state)):
            yield {"layers": named, **_operator(index, planned)}


def _operator(index: int, planned: PlannedOperator) -> dict[str, Any]:
    """A row; `activation` is that of what is read, and the one that the spec puts on the result."""
    read = dict.fromkeys(reader.activation for reader in planned.readings.values())
    given = [name for name in (*read, planned.activation) if name != "none"]
    return {
        "index": index,
        "name": planned.name,
        "typing": planned.part.typing,
        "reads": {name: _channels(reader) for name, reader in planned.readings.items()},
        "output": _channels(planned.output),
        "scope": planned.part.scope_rule,
        "activation": ", ".join(given) or "none",
    }


def _channels(channels: Reader | Writer | None) -> str:
    if channels is None:
        return ""
    return f"{channels.branch}: {' '.join(f'{name}={size}' for name, size in channels.shape.items())}"


def _tensors(specs: Sequence[TensorSpec]) -> dict[str, str]:
    return {spec.name: f"{spec.dtype} [{', '.join(map(str, spec.dims))}]" for spec in specs}
