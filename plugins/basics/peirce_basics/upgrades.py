"""`peirce upgrade`: a saved model gains operators, relations and positions, and computes what it did."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import attrs
import typer
from attrs import evolve, frozen

from peirce.commands import Json, NewModel, Overwrite, print_new_model, refuse_existing
from peirce.compose import load, resolve, shorthand_operators, upgraded
from peirce.errors import PlanError
from peirce.files import read_bytes
from peirce.parts import BinaryPosition, Plan, PlannedOperator, PureOperator
from peirce.registry import Registry, default_registry
from peirce.spec import AugmenterSpec, LayerSpec, OperatorSpec, OperatorsSpec, PartSpec, Spec

ARCHITECTURES = {"transformer": "two_branch", "two_branch": "two_branch", "folnet": "folnet"}
"""What a model of an architecture becomes."""


@frozen(kw_only=True)
class Upgrade:
    """What a model gains.

    Args:
        operators: a shorthand such as `jm.atp`, or the names of operators.
        binary: width of the relations of a model that has none.
        positions: names of positions, or their tables, behind those that there are.
        augmenters: names of augmenters, or their tables; a gate that begins at zero scales what they change.
        layers: the layers that gain the operators, the first of which is 0; all if None.
        from_attention: whether what deduces reads the scores of attention as relations; not in a `folnet`.
    """

    operators: str | Sequence[str] = ()
    binary: int = 32
    positions: Sequence[str | PartSpec] = ()
    augmenters: Sequence[str | AugmenterSpec] = ()
    layers: Collection[int] | None = None
    from_attention: bool = False

    def spec(self, plan: Plan, registry: Registry) -> Spec:
        """The spec of a model with what it gains.

        The last layer that gains operators has none that write relations which nothing reads: they would never learn.

        Args:
            plan: of the model.
            registry: where operators are looked up.

        Raises:
            PlanError: it cannot be upgraded, or has no such layer; or the shorthand is none; or nothing would read what
                the operators write, or write what they read, or one has parameters of its own.
        """
        old, count = plan.spec, plan.dims.layers
        gated = [
            evolve(each, gate=True) if isinstance(each, AugmenterSpec) else AugmenterSpec(use=each, gate=True)
            for each in self.augmenters
        ]
        old = evolve(old, augmenters=[*old.augmenters, *gated])
        if not self.operators:
            if self.positions or self.from_attention or not gated:
                raise PlanError(
                    "no operators are given, which would read relations and what these begin with; name some, such as "
                    "--operators jm.atp"
                )
            return old
        if old.architecture not in ARCHITECTURES:
            raise PlanError(
                f"{old.name!r} is of the architecture {old.architecture!r}; {', '.join(ARCHITECTURES)} can be "
                "upgraded. A published model becomes a transformer by `peirce import transformers`"
            )
        chosen = sorted(range(count) if self.layers is None else self.layers)
        if not chosen or not 0 <= chosen[0] <= chosen[-1] < count:
            raise PlanError(
                f"the layers are 0 to {count - 1}; {chosen} were asked for; give --layers some of these"
            )
        try:
            given = self.operators
            new = shorthand_operators(given, registry) if isinstance(given, str) else [*given]
        except ValueError as error:
            raise PlanError(str(error)) from None
        for name in new:
            if not issubclass(part := registry.get("operators", name), PureOperator):
                raise PlanError(
                    f"the operator {name!r} has parameters of its own ({part.__name__}), so that no map of what it "
                    "writes can begin at zero; `peirce list operators` shows others, such as join"
                )
        begins = (
            each.use if isinstance(each, PartSpec) else each for each in (*old.positions, *self.positions)
        )
        begun = any(issubclass(registry.get("positions", name), BinaryPosition) for name in begins)
        dead = [name for name in new if "B" in registry.get("operators", name).typing.partition("<-")[2]]
        if dead and not (plan.dims.binary or begun or self.from_attention):
            raise PlanError(
                f"relations would begin at zero, and what {', '.join(dead)} read of them in layer {chosen[0]} would "
                "never learn; give --positions, such as distance, or --from-attention"
            )
        reads = any("binary" in head.part.needs for head in plan.heads)
        reads |= any(_reads_relations(plan, i) for i in range(chosen[-1] + 1, count))
        last = [name for name in new if reads or registry.get("operators", name).typing[0] == "U"]
        if not last and (not plan.dims.binary or len({*chosen}) == 1):
            raise PlanError(
                f"{', '.join(new)} write relations alone, and nothing would read those of layer {chosen[-1]}; add "
                "operators that write properties, such as join"
            )
        layers = []
        for i in range(count):
            its = plan.layer(i).layers[0]
            gained = last if i == chosen[-1] else new if i in chosen else []
            mixing = [*map(_table, its.mixing), *(OperatorSpec(use=name) for name in gained)]
            layers.append(LayerSpec(layer=mixing, state=[*map(_table, its.state)]))
        grouped = [evolve(layer, repeat=len([*alike])) for layer, alike in groupby(layers)]
        becomes = ARCHITECTURES[old.architecture]
        relations: dict[str, Any] = {} if plan.dims.binary else {"binary": self.binary}
        options = {"from_attention": True} if self.from_attention else {}
        return evolve(
            old,
            architecture=becomes,
            dims={**old.dims, **relations},
            options={**old.options, **options},
            operators=OperatorsSpec(layers=grouped),
            positions=[*old.positions, *self.positions],
        )


def _reads_relations(plan: Plan, layer: int) -> bool:
    """Whether a layer of a model that has relations reads them; two operators of a `two_branch` are its attention."""
    found = sum("B" in planned.branches for planned in plan.layer(layer).layers[0].mixing)
    return bool(plan.dims.binary) and found > (2 if plan.spec.architecture == "two_branch" else 0)


def _table(planned: PlannedOperator) -> OperatorSpec:
    """An operator of a plan as a spec has it."""
    options = attrs.asdict(planned.options, filter=lambda each, value: each.init and value != each.default)
    names = attrs.fields_dict(type(planned.options))
    given = {names[name].alias or name: value for name, value in options.items()}
    return OperatorSpec(use=planned.name, activation=planned.activation, options=given)


def upgrade(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A saved model.")],
    output: NewModel,
    operators: Annotated[
        str,
        typer.Option(
            metavar="OPERATORS", help="A shorthand such as jm.atp, or names with commas between them."
        ),
    ] = "",
    binary: Annotated[
        int, typer.Option(min=1, help="Width of the relations, where the model has none.")
    ] = 32,
    positions: Annotated[
        str, typer.Option(metavar="NAMES", help="Positions that relations begin with, such as distance.")
    ] = "",
    augmenters: Annotated[
        str, typer.Option(metavar="NAMES", help="Augmenters, such as logical,tpr, with gates at zero.")
    ] = "",
    layers: Annotated[
        str,
        typer.Option(
            metavar="LAYERS", help="The layers that gain operators, such as 4-6 or 0,2; all if left out."
        ),
    ] = "",
    from_attention: Annotated[
        bool, typer.Option("--from-attention", help="Read the scores of attention as relations, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="What the new parameters depend on.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Give a saved model operators and relations; it computes what it did, until it is trained."""
    refuse_existing(output, ("spec.toml",), overwrite)
    registry = default_registry()
    old = load(model, registry=registry)
    gained = Upgrade(
        operators=operators if re.fullmatch(r"\w*\.\w*", operators) else re.findall(r"[^,\s]+", operators),
        binary=binary,
        positions=re.findall(r"[^,\s]+", positions),
        augmenters=re.findall(r"[^,\s]+", augmenters),
        layers=_numbers(layers) if layers else None,
        from_attention=from_attention,
    )
    spec = evolve(gained.spec(old.plan, registry), name=output.resolve().name)
    resolve(spec, registry)  # what is wrong with the parts is said before anything is built
    new = upgraded(old, spec, seed=seed, registry=registry)
    folder = model / "assets"
    assets = {
        path.relative_to(folder).as_posix(): read_bytes(path) for path in folder.rglob("*") if path.is_file()
    }
    new.save(output, assets=assets)
    before = sum(each.numel() for each in old.parameters())
    print_new_model(json, new, output, before=before)


def _numbers(text: str) -> list[int]:
    """The numbers of `4-6` or `0,2`.

    Raises:
        PlanError: it is something else.
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise PlanError(f"--layers {text!r} has {part!r}; write numbers, such as 4-6 or 0,2")
        first, last = sorted((int(match[1]), int(match[2] or match[1])))
        found += range(first, last + 1)
    return found
