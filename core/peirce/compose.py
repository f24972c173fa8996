"""From a spec to a typed plan, and from a plan's operators to one stage of a network.

`resolve` looks every name up, reads the options, and checks that the parts fit together, before any tensor exists.
`Mixing` wires the operators of a layer: it reads their kernels and premises from the branches, keeps their mask
contract, and writes what they infer. Its projections are fused; a third party's operator is fused like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor, nn

from peirce import pairs
from peirce.components import (
    Architecture,
    Augmenter,
    Branch,
    Dims,
    Head,
    Operator,
    Position,
    Reader,
    StateOperator,
    Writer,
)
from peirce.errors import PlanError, RegistryError, SpecError
from peirce.fusion import FusedLinear, folded
from peirce.pairs import PairBias
from peirce.predicates import Predicates
from peirce.scope import Scope
from peirce.spec import OperatorSpec, ScopeSpec, Spec, parse_shorthand, structure_options

if TYPE_CHECKING:
    from peirce.registry import Registry

__all__ = ["Mixing", "Plan", "Planned", "PlannedOperator", "Projections", "folded", "resolve"]

BRANCH_NAMES: Mapping[Branch, str] = {"U": "unary", "B": "binary"}


@frozen(kw_only=True)
class Planned:
    """A part of a plan: the class, its options as read, and where the spec asks for it."""

    kind: str
    name: str
    part: type[Any]
    options: Any
    path: str

    def build(self, dims: Dims) -> Any:
        """The part itself, `cls(options, dims)`."""
        return self.part(self.options, dims)


@frozen(kw_only=True)
class PlannedOperator(Planned):
    """An operator of a layer. `operator` and its readers and writer are None for a state operator."""

    activation: str = "none"
    operator: Operator | None = None
    kernel: Reader | None = None
    premise: Reader | None = None
    output: Writer | None = None


@frozen(kw_only=True)
class PlannedHead(Planned):
    """A head and the prefix of its outputs."""

    prefix: str


@frozen(kw_only=True)
class Plan:
    """A spec whose parts have been found and fit together. Every layer has the same operators.

    Args:
        mixing: the operators that mix tokens, in the order of the spec.
        state: the state operators that follow them.
        model_dims: `[model.dims]`, as the architecture's own class.
        dims: the sizes that parts see.
    """

    spec: Spec
    architecture: Planned
    model_dims: Any
    dims: Dims
    mixing: tuple[PlannedOperator, ...]
    state: tuple[PlannedOperator, ...]
    positions: tuple[Planned, ...]
    augmenters: tuple[Planned, ...]
    heads: tuple[PlannedHead, ...]
    fuse: bool = True

    @property
    def scope(self) -> ScopeSpec:
        """The kind of scope and whether padding is masked."""
        return self.spec.scope

    @property
    def parts(self) -> tuple[Planned, ...]:
        """Every part of the plan."""
        return (self.architecture, *self.mixing, *self.state, *self.positions, *self.augmenters, *self.heads)


def resolve(spec: Spec, registry: Registry, *, fuse: bool = True) -> Plan:
    """Find the parts that a spec names and check that they fit together.

    Args:
        spec: the spec.
        registry: where parts are looked up.
        fuse: whether the stages of the plan's network use fused projections; no part of the model's identity.

    Raises:
        SpecError: an unknown part or option, with the nearest valid name and the line.
        PlanError: parts that do not fit together: sizes, places, branches, scope.
    """
    finder = _Finder(spec, registry)
    architecture = finder.find("architectures", spec.architecture, spec.options, "model.architecture", "model.options")
    cls: type[Architecture] = architecture.part
    model_dims = structure_options(
        cls.Dims, spec.dims, spec=spec, path="model.dims", kind_label=f"dimension of architecture {cls.name!r}"
    )
    finder.refuse(cls.check(architecture.options, model_dims), f"architecture {cls.name!r}", "model.dims")
    dims = _dims(spec, cls, model_dims)
    mixing, state = _operators(finder, cls, dims)
    positions = _beside(finder, "positions", spec.positions, dims)
    augmenters = _beside(finder, "augmenters", spec.augmenters, dims)
    heads = tuple(
        PlannedHead(
            kind=planned.kind, name=planned.name, part=planned.part, options=planned.options, path=planned.path,
            prefix=head.as_,
        )
        for head, planned in zip(spec.heads, _beside(finder, "heads", spec.heads, dims), strict=True)
    )  # fmt: skip
    plan = Plan(
        spec=spec, architecture=architecture, model_dims=model_dims, dims=dims, mixing=mixing, state=state,
        positions=positions, augmenters=augmenters, heads=heads, fuse=fuse,
    )  # fmt: skip
    _check_places(finder, plan)
    return plan


@frozen
class _Finder:
    """Looks parts up and places errors in the spec."""

    spec: Spec
    registry: Registry

    def find(self, kind: str, name: str, options: Mapping[str, Any], path: str, options_path: str) -> Planned:
        try:
            part = self.registry.get(kind, name)
        except RegistryError as error:
            raise PlanError(f"{self.spec.at(path)}: {error}") from error
        label = f"option of {kind.removesuffix('s')} {part.name!r}"
        read = structure_options(part.Options, options, spec=self.spec, path=options_path, kind_label=label)
        return Planned(kind=kind, name=part.name, part=part, options=read, path=path)

    def refuse(self, reason: str | None, what: str, path: str) -> None:
        if reason is not None:
            raise PlanError(f"{self.spec.at(path)}: {what} cannot be used here: {reason}")


def _dims(spec: Spec, cls: type[Architecture], model_dims: Any) -> Dims:
    if spec.input.vocabulary is None:
        raise PlanError(
            f"{spec.at('model.input')}: model.input.vocabulary is missing: give the number of token ids, such as "
            "vocabulary = 32768, or train with a task that determines it"
        )
    return Dims(
        vocabulary=spec.input.vocabulary,
        token_types=spec.input.token_types,
        max_length=spec.input.max_length,
        pad_id=spec.input.pad_id,
        dropout=spec.regularisation.dropout,
        **cls.sizes(model_dims),
    )


def _operators(
    finder: _Finder, cls: type[Architecture], dims: Dims
) -> tuple[tuple[PlannedOperator, ...], tuple[PlannedOperator, ...]]:
    spec = finder.spec
    entries = _layer(finder, cls)
    named = {entry.use for entry, _ in entries}
    state_default = cls.state if not any(_is_state(finder, entry.use) for entry, _ in entries) else ()
    entries = [*entries, *((OperatorSpec(use=name), "model.operators.layer") for name in state_default)]
    for name in spec.operators.options:
        if name not in named and name not in state_default:
            raise PlanError(
                f"{spec.at(f'model.operators.options.{name}')}: options for operator {name!r}, which the layer does "
                f"not have; it has {', '.join(sorted({*named, *state_default}))}"
            )
    planned = [_operator(finder, cls, entry, path, dims) for entry, path in entries]
    if not any(p.operator for p in planned):
        raise PlanError(f"{spec.at('model.operators.layer')}: the layer has no operator that mixes tokens")
    return tuple(p for p in planned if p.operator), tuple(p for p in planned if not p.operator)


def _layer(finder: _Finder, cls: type[Architecture]) -> list[tuple[OperatorSpec, str]]:
    """The operators of a layer as tables, each with its path in the spec."""
    spec, path = finder.spec, "model.operators.layer"
    layer = spec.operators.layer
    if cls.fixed_layer and layer not in (None, cls.layer):
        raise PlanError(
            f"{spec.at(path)}: architecture {cls.name!r} has the fixed layer {cls.layer!r}; leave `layer` out, or "
            "choose an architecture whose layers are open, such as one with two branches"
        )
    if layer is None or isinstance(layer, str):
        letters = finder.registry.letters
        written = {name: finder.registry.get("operators", name).typing[0] for name in letters.values()}
        try:
            names = parse_shorthand(layer or cls.layer, letters, written)
        except SpecError as error:
            raise PlanError(f"{spec.at(path)}: {error}") from error
        return [(OperatorSpec(use=name), path) for name in names]
    return [(entry, f"{path}.{i}") for i, entry in enumerate(layer)]


def _is_state(finder: _Finder, name: str) -> bool:
    """Whether a name is a state operator's; an unknown name is reported where its operator is looked up."""
    try:
        return issubclass(finder.registry.get("operators", name), StateOperator)
    except RegistryError:
        return False


def _operator(
    finder: _Finder, cls: type[Architecture], entry: OperatorSpec, path: str, dims: Dims
) -> PlannedOperator:
    spec = finder.spec
    shared = spec.operators.options.get(entry.use, {})
    own = path if entry.options else f"model.operators.options.{entry.use}"
    found = finder.find("operators", entry.use, {**shared, **entry.options}, path, own)
    what = f"operator {found.name!r}"
    finder.refuse(found.part.check(found.options, dims, spec.scope.kind), what, own)
    common = {"kind": found.kind, "name": found.name, "part": found.part, "options": found.options, "path": path}
    if issubclass(found.part, StateOperator):
        if entry.activation != "none":
            finder.refuse("a state operator has no activation option", what, path)
        return PlannedOperator(**common)
    operator: Operator = found.build(dims)
    kernel, premise, output = operator.kernel(), operator.premise(), operator.output()
    finder.refuse(_misfit(operator, kernel, premise, output, dims), what, path)
    for branch in {kernel.branch, premise.branch, output.branch}:
        if branch not in cls.branches and not cls.fixed_layer:
            finder.refuse(
                f"it uses {BRANCH_NAMES[branch]} atoms, which architecture {cls.name!r} does not keep", what, path
            )
    return PlannedOperator(
        **common, activation=entry.activation, operator=operator, kernel=kernel, premise=premise, output=output
    )


def _misfit(operator: Operator, kernel: Reader, premise: Reader, output: Writer, dims: Dims) -> str | None:
    """Where an operator's typing, channels and equation disagree with each other; None when they agree."""
    typing = f"{output.branch} <- {kernel.branch} x {premise.branch}"
    if operator.typing != typing:
        return f"it declares the typing {operator.typing!r}, but its kernel, premise and output make {typing!r}"
    for role, channels in (("kernel", kernel), ("premise", premise), ("output", output)):
        for name, size in channels.shape.items():
            if size < 1:
                return f"its {role} has {size} channels {name!r} at these dims"
    batch, length = 2, 3
    shapes = {role: _shape(batch, length, c) for role, c in (("k", kernel), ("p", premise), ("o", output))}
    try:
        with torch.device("meta"):  # shapes without storage
            result = operator.infer(torch.empty(shapes["k"]), torch.empty(shapes["p"]), Scope())
    except Exception as error:
        return f"its infer fails on a kernel {list(shapes['k'])} and a premise {list(shapes['p'])}: {error}"
    if tuple(result.shape) != shapes["o"]:
        return (
            f"its infer gives shape {list(result.shape)} where its output declares {list(shapes['o'])} "
            f"(batch {batch}, length {length}), so it cannot be added to the other operators' outputs"
        )
    return None


def _shape(batch: int, length: int, channels: Reader | Writer) -> tuple[int, ...]:
    tokens = (length,) if channels.branch == "U" else (length, length)
    return (batch, *tokens, *channels.shape.values())


def _beside(finder: _Finder, kind: str, entries: Sequence[Any], dims: Dims) -> tuple[Planned, ...]:
    """Positions, augmenters and heads: found, their options read, and asked whether they work at these sizes."""
    planned = []
    for i, entry in enumerate(entries):
        path = f"model.{kind}.{i}"
        found = finder.find(kind, entry.use, entry.options, path, path)
        part: type[Position | Augmenter | Head] = found.part
        finder.refuse(part.check(found.options, dims), f"{kind.removesuffix('s')} {found.name!r}", path)
        planned.append(found)
    return tuple(planned)


def _check_places(finder: _Finder, plan: Plan) -> None:
    cls: type[Architecture] = plan.architecture.part
    pair_roles = {planned.part.pair for planned in plan.mixing} - {None}
    for position in plan.positions:
        served = position.part.places()
        offered = [place for place in served if place in cls.places]
        if not offered:
            finder.refuse(
                f"it acts at {' and '.join(served)}, and architecture {cls.name!r} has the places "
                f"{', '.join(sorted(cls.places))}",
                f"position {position.name!r}",
                position.path,
            )
        if offered == ["pair"] and not pair_roles:
            finder.refuse(
                "it biases attention, and the layer has no operator that scores or sums pairs (assoc, join)",
                f"position {position.name!r}",
                position.path,
            )
    for head in plan.heads:
        for need in sorted(head.part.needs - cls.gives(plan.architecture.options)):
            finder.refuse(
                f"it needs the {need} output, which architecture {cls.name!r} does not give with these options",
                f"head {head.name!r}",
                head.path,
            )


class Projections(nn.Module):
    """The projections of one operator, under the names that the state dict keeps: kernel, premise, output."""

    def __init__(
        self, dims: Dims, kernel: Reader | None = None, premise: Reader | None = None, output: Writer | None = None
    ) -> None:
        super().__init__()
        if kernel is not None:
            self.kernel = nn.Linear(_width(dims, kernel), _channels(kernel), bias=kernel.bias)
        if premise is not None:
            self.premise = nn.Linear(_width(dims, premise), _channels(premise), bias=premise.bias)
        if output is not None:
            self.output = nn.Linear(_channels(output), _width(dims, output), bias=output.bias)


@frozen(eq=False)
class _Read:
    """One channel group of a branch: whose it is, and which role it plays."""

    index: int
    role: str
    reader: Reader
    rule: str

    @property
    def order(self) -> int:
        """Groups that are treated alike stand side by side, so that one softmax and one mask serve them all."""
        if self.reader.branch == "U":
            return 0
        if self.reader.activation == "softmax":
            return 0 if self.reader.dropout else 1
        return 2 if self.zeroed else 3

    @property
    def width(self) -> int:
        return _channels(self.reader)

    @property
    def zeroed(self) -> bool:
        return self.reader.branch == "B" and self.reader.activation == "none" and self.rule == "reduce"


class Mixing(nn.Module):
    """The operators of one layer that mix tokens, in parallel: one increment for each branch.

    Args:
        plan: the plan; its `mixing` operators are wired.
        operators: the projections of each operator, owned by the layer under their canonical names.
    """

    def __init__(self, plan: Plan, operators: Sequence[Projections]) -> None:
        super().__init__()
        self.plans = plan.mixing
        self.dropout = plan.dims.dropout
        self.fuse = plan.fuse
        self.reads: dict[Branch, list[_Read]] = {"U": [], "B": []}
        self.writes: dict[Branch, list[int]] = {"U": [], "B": []}
        for i, planned in enumerate(self.plans):
            assert planned.kernel is not None and planned.premise is not None and planned.output is not None
            rule = planned.part.scope_rule
            for role, reader in (("kernel", planned.kernel), ("premise", planned.premise)):
                self.reads[reader.branch].append(_Read(i, role, reader, rule))
            self.writes[planned.output.branch].append(i)
        readers, writers = {}, {}
        for branch, reads in self.reads.items():
            reads.sort(key=lambda read: read.order)
            if reads:
                maps = [(getattr(operators[r.index], r.role), r.reader.scale) for r in reads]
                readers[branch] = FusedLinear(maps, "outputs", fuse=plan.fuse)
            if self.writes[branch]:
                maps = [(operators[i].output, 1.0) for i in self.writes[branch]]
                writers[branch] = FusedLinear(maps, "inputs", fuse=plan.fuse)
        self.readers = nn.ModuleDict(readers)
        self.writers = nn.ModuleDict(writers)

    def forward(self, state: Predicates, scope: Scope, biases: Sequence[PairBias] = ()) -> Predicates:
        """The increments of both branches.

        Args:
            state: normalised atoms, zero outside the scope; unary [b, x, d1], binary [b, x, y, d2].
            scope: who may look at whom.
            biases: pair biases to add beside the operators that score pairs and sum values.

        Returns:
            Increments; a branch that no operator writes has none (a zero of no shape for unary, None for binary).
        """
        channels: dict[tuple[int, str], Tensor] = {}
        for branch, atoms in (("U", state.unary), ("B", state.binary)):
            if self.reads[branch]:
                assert atoms is not None
                self._read(branch, atoms, scope, channels)
        results = [self._infer(i, channels, scope, biases) for i in range(len(self.plans))]
        increments = []
        for branch in ("U", "B"):
            writes = self.writes[branch]
            flat = [results[i].flatten(2 if branch == "U" else 3) for i in writes]
            increments.append(self.writers[branch].write(flat) if flat else None)
        unary = increments[0] if increments[0] is not None else torch.zeros_like(state.unary)
        return Predicates(unary, increments[1])

    def _read(self, branch: Branch, atoms: Tensor, scope: Scope, channels: dict[tuple[int, str], Tensor]) -> None:
        """Read every channel group of one branch, and keep the mask contract of each."""
        reads = self.reads[branch]
        if self.fuse:
            pieces = self._together(self.readers[branch].read(atoms), reads, scope)
        else:
            apart = zip(self.readers[branch].read_each(atoms), reads, strict=True)
            pieces = [piece for each, read in apart for piece in self._together(each, [read], scope)]
        for read, piece in zip(reads, pieces, strict=True):
            channels[read.index, read.role] = piece.unflatten(-1, tuple(read.reader.shape.values()))

    def _together(self, read: Tensor, reads: Sequence[_Read], scope: Scope) -> list[Tensor]:
        """The channel groups of one product: one softmax serves all kernels that have one, one mask all premises."""
        pieces: list[Tensor] = []
        groups = [[r.width for r in reads if r.order == order] for order in range(4)]
        kernels = sum(groups[0]) + sum(groups[1])
        if reads[0].reader.branch == "U":
            return list(read.split(groups[0], -1))
        if kernels:
            dropped, plain = scope.softmax(read[..., :kernels]).split([sum(groups[0]), sum(groups[1])], -1)
            pieces += F.dropout(dropped, self.dropout, self.training).split(groups[0], -1) if groups[0] else ()
            pieces += plain.split(groups[1], -1) if groups[1] else ()
        if groups[2]:
            zeroed = scope.zero_binary(read[..., kernels : kernels + sum(groups[2])])
            pieces += zeroed.split(groups[2], -1)
        if groups[3]:
            pieces += read[..., kernels + sum(groups[2]) :].split(groups[3], -1)
        return pieces

    def _infer(
        self, i: int, channels: Mapping[tuple[int, str], Tensor], scope: Scope, biases: Sequence[PairBias]
    ) -> Tensor:
        planned = self.plans[i]
        assert planned.operator is not None and planned.kernel is not None and planned.premise is not None
        kernel, premise = channels[i, "kernel"], channels[i, "premise"]
        drops = planned.kernel.branch == "U" and planned.kernel.dropout and self.training
        result = planned.operator.infer(kernel, premise, scope.dropping(self.dropout) if drops else scope)
        result = add_pairs(planned, result, kernel, biases)
        return activate(planned.activation, result)


def add_pairs(planned: PlannedOperator, result: Tensor, kernel: Tensor, biases: Sequence[PairBias]) -> Tensor:
    """A static key term beside an operator that scores pairs, a static value term beside one that sums values.

    FOLNet, Appendix E: the key term is prod, and the value term mu, with premises that depend on the positions alone.
    """
    role = planned.part.pair
    for bias in biases:
        if role == "score" and (bias.key is not None or bias.score is not None):
            assert planned.premise is not None
            result = result + pairs.scores(kernel * planned.premise.scale, bias)
        elif role == "value" and bias.value is not None:
            result = result + pairs.mix(kernel, bias)
    return result


def activate(name: str, logits: Tensor) -> Tensor:
    """The implication's activation on inferred logits: eq. 9 and 27-29 of FOLNet, ln(1 + 2 exp z), or its ReLU bound."""
    if name == "none":
        return logits
    shifted = logits + math.log(2.0)
    return F.softplus(shifted) if name == "modus_ponens" else F.relu(shifted)


def _width(dims: Dims, channels: Reader | Writer) -> int:
    return dims.unary if channels.branch == "U" else dims.binary


def _channels(channels: Reader | Writer) -> int:
    return math.prod(channels.shape.values())

