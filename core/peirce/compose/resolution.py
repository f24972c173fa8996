"""From a spec to a typed plan: every part found, its options read, and the parts checked against each other.

Nothing is allocated: what does not fit is refused before any tensor exists, with its place in the spec. `finding` looks
parts up, `layer_plans` plans the operators, and `fitting` says why a part does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import torch

from peirce.compose.finding import PartFinder
from peirce.compose.fitting import head_misfit, position_misfit
from peirce.compose.layer_plans import LayerPlanner
from peirce.parts import Architecture, Dims, Plan, Planned, PlannedAugmenter, PlannedHead
from peirce.spec import HeadSpec, Spec

if TYPE_CHECKING:
    from peirce.registry import Registry

_NO_HEADS = torch.nn.ModuleDict()
"""The container of a model's heads, empty: no head's prefix may be one of its attributes."""


def resolve(spec: Spec, registry: Registry, *, fuse: bool = True) -> Plan:
    """Find the parts that a spec names and check that they fit together.

    The spec may lack its vocabulary, which a task's data give; a model is built from a plan that has it.

    Args:
        spec: the spec.
        registry: where parts are looked up.
        fuse: whether stages use fused projections; the state dict is the same either way.

    Raises:
        SpecError: an unknown part or option, with the nearest valid name and the line.
        PlanError: parts that do not fit together: sizes, places, branches, scope.
    """
    cls: type[Architecture] = PartFinder(spec, registry).part_class(
        "architectures", spec.architecture, "model.architecture"
    )
    spec = cls.upgrade(spec)
    finder, scope = PartFinder(spec, registry), cls.scope or spec.scope.kind
    architecture = finder.plan_part(
        Planned, "architectures", spec.architecture, "model.architecture", spec.options, "model.options"
    )
    finder.check_owner(architecture.part.Dims, spec.dims, "model.dims", cls.name)
    label = f"dimension of architecture {cls.name!r}"
    model_dims: object = finder.read(architecture.part.Dims, spec.dims, "model.dims", label)
    finder.check(architecture, "model.dims", model_dims)
    if cls.scope is not None and spec.scope.kind != "bidirectional":
        message = f"architecture {cls.name!r} has the scope {cls.scope!r} and no other; leave `kind` out"
        raise finder.error("model.scope.kind", message)
    finder.refuse_if(cls.check_scope(architecture.options, scope), architecture, "model.scope.kind")
    dims = Dims(
        **(attrs.asdict(spec.input) | {"vocabulary": spec.input.vocabulary or 0}),
        dropout=spec.regularisation.dropout,
        architecture=cls.name,
        **cls.sizes(architecture.options, model_dims),
    )
    layers = LayerPlanner(finder, cls, dims, scope).layers()
    mixing = tuple({id(each): each for layer in layers for each in layer.mixing}.values())
    attends = frozenset({"attention"} if cls.own_attention else {e.part.pair for e in mixing if e.operator})
    gives = cls.gives(architecture.options) | ({"past"} if scope in ("causal", "prefix") else set())

    def plan_parts(kind: str) -> tuple[Any, ...]:
        """The planned positions, augmenters or heads of the spec."""
        found = []
        for i, entry in enumerate(getattr(spec, kind)):
            path = f"model.{kind}.{i}"
            planned = finder.plan_part(Planned, kind, entry.use, path, entry.options, path)
            if kind == "positions":
                finder.refuse_if(position_misfit(planned.part, cls, attends), planned, path)
            if kind == "heads":
                finder.refuse_if(head_misfit(planned.part, cls, gives), planned, path)
            finder.check(planned, path, dims, scope)
            if kind == "augmenters":
                planned = PlannedAugmenter(**attrs.asdict(planned, recurse=False), gate=entry.gate)
            found.append(planned)
        return tuple(found)

    return Plan(
        spec=spec,
        architecture=architecture,
        model_dims=model_dims,
        dims=dims,
        mixing=mixing,
        state=tuple({id(each): each for layer in layers for each in layer.state}.values()),
        layers=layers,
        positions=plan_parts("positions"),
        augmenters=plan_parts("augmenters"),
        heads=tuple(
            _with_prefix(finder, *pair) for pair in zip(spec.heads, plan_parts("heads"), strict=True)
        ),
        fuse=fuse,
    )


def _with_prefix(finder: PartFinder, head: HeadSpec, planned: Planned) -> PlannedHead:
    """A head with the prefix of its outputs, which no other head and no attribute of torch's modules may have."""
    first = next(i for i, other in enumerate(finder.spec.heads) if other.as_ == head.as_)
    why = f"model.heads.{first} has it" if planned.path != f"model.heads.{first}" else None
    why = f"torch's modules have an attribute {head.as_!r}" if hasattr(_NO_HEADS, head.as_) else why
    named = f"the output prefix {head.as_!r}"
    finder.refuse_if(why and f'{why}; give the head another name with as = "..."', named, planned.path)
    return PlannedHead(**attrs.asdict(planned, recurse=False), prefix=head.as_)
