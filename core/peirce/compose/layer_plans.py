"""Plans for the operators of each layer of a spec: from a shorthand, from tables, or the architecture's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import attrs
import torch

from peirce.compose.finding import PartFinder
from peirce.compose.fitting import declaration_mismatch, operator_misfit
from peirce.errors import unknown
from peirce.networks import recur
from peirce.parts import (
    Architecture,
    Dims,
    Planned,
    PlannedLayer,
    PlannedOperator,
    PureOperator,
    RecurrentOperator,
    StateOperator,
)
from peirce.spec import Activation, LayerSpec, OperatorSpec

if TYPE_CHECKING:
    from peirce.registry import Registry


class LayerPlanner:
    """Plans the layers of one spec.

    Args:
        finder: of the spec's parts.
        architecture: whose layers they are.
        dims: the sizes that operators see.
        scope: the kind of scope.
    """

    def __init__(self, finder: PartFinder, architecture: type[Architecture], dims: Dims, scope: str) -> None:
        self.finder, self.architecture, self.dims, self.scope = finder, architecture, dims, scope
        self.owner = f"architecture {architecture.name!r}"

    def layers(self) -> tuple[PlannedLayer, ...]:
        """The layers that differ in the spec; they repeat from the first after the last."""
        finder, given, path = self.finder, self.finder.spec.operators, "model.operators.layers"
        if not given.layers:
            planned = [self._layer(LayerSpec(layer=given.layer, state=given.state), "model.operators")]
        else:
            if given.layer is not None or given.state is not None:
                raise finder.error(
                    path,
                    "`layer` or `state` is given beside `layers`; give them in each entry of `layers` instead",
                )
            if not self.architecture.heterogeneous:
                entries = finder.registry.entries("architectures")
                known = ", ".join(entry.name for entry in entries if entry.part.heterogeneous)
                raise finder.error(path, f"the layers of {self.owner} cannot differ; those of {known} can")
            if self.dims.layers % (cycle := sum(one.repeat for one in given.layers)):
                raise finder.error(
                    path,
                    f"its entries are {cycle} layers, repeats counted, and model.dims.layers is "
                    f"{self.dims.layers}, which is not a multiple of that; change `repeat` or model.dims.layers",
                )
            planned = [
                layer
                for i, entry in enumerate(given.layers)
                for layer in [self._layer(entry, f"{path}.{i}")] * entry.repeat
            ]
        self._reject_unused(given.options, "model.operators", planned)
        return tuple(planned)

    def _reject_unused(self, options: Mapping[str, Any], path: str, layers: list[PlannedLayer]) -> None:
        """Refuse options of an operator that none of the layers has."""
        names = {operator.name for layer in layers for operator in (*layer.mixing, *layer.state)}
        for name in options:
            if name not in names:
                raise self.finder.error(
                    f"{path}.options.{name}",
                    f"options for operator {name!r}, which the layer does not have; it has "
                    f"{', '.join(sorted(names))}. Leave them out; --set '{path}={{layer=\"NAME\"}}' replaces operators "
                    "and options at once",
                )

    def _layer(self, given: LayerSpec, path: str) -> PlannedLayer:
        """The operators of a layer, and those that follow them by default."""
        finder, architecture, at = self.finder, self.architecture, f"{path}.layer"
        if architecture.fixed_layer and given.state not in (None, architecture.state):
            raise finder.error(f"{path}.state", f"the layers of {self.owner} are fixed; leave `state` out")

        def operator(entry: OperatorSpec, place: str) -> PlannedOperator:
            return self._operator(entry, place, given.options, path)

        operators = [operator(entry, place) for entry, place in self._mixing_entries(given, at)]
        has_state = any(issubclass(each.part, StateOperator) for each in operators)
        if given.state is not None:
            if has_state:
                message = "`layer` has state operators as well; name them in one of the two"
                raise finder.error(f"{path}.state", message)
            entries: dict[str, Any] = {f"{path}.state": given.state}
            if not isinstance(given.state, str):
                entries = {f"{path}.state.{i}": each for i, each in enumerate(given.state)}
            for place, entry in entries.items():
                state = operator(OperatorSpec(use=entry) if isinstance(entry, str) else entry, place)
                if not issubclass(state.part, StateOperator):
                    finder.refuse_if("it mixes tokens, so it belongs to `layer`", state, place)
                operators.append(state)
        elif not has_state:
            operators += [operator(OperatorSpec(use=name), at) for name in architecture.state]
        mixing = tuple(each for each in operators if not issubclass(each.part, StateOperator))
        if architecture.layer and not mixing and not any(e.part.scope_rule == "reduce" for e in operators):
            raise finder.error(at, "the layer has no operator that mixes tokens")
        rivals = operators if architecture.recurrent else mixing
        if len(rivals) > 1 and any(issubclass(each.part, RecurrentOperator) for each in mixing):
            names = ", ".join(each.name for each in rivals)
            raise finder.error(
                at,
                f"a layer with a recurrent operator has no other that mixes tokens: keep one of {names}",
            )
        if (misfit := architecture.check_layer(operators)) is not None:
            finder.refuse_if(misfit[1], misfit[0], misfit[0].path)
        layer = PlannedLayer(mixing=mixing, state=tuple(each for each in operators if each not in mixing))
        self._reject_unused(given.options, path, [layer])
        return layer

    def _mixing_entries(self, given: LayerSpec, path: str) -> list[tuple[OperatorSpec, str]]:
        """What `layer` says, as tables, each with its path in the spec."""
        architecture, layer = self.architecture, given.layer
        if architecture.fixed_layer and layer not in (None, architecture.layer):
            has = f"the fixed layer {architecture.layer!r}" if architecture.layer else "no operators"
            raise self.finder.error(
                path,
                f"{self.owner} has {has}; leave `layer` out, or choose an architecture whose layers are "
                "open, such as one with two branches",
            )
        if not architecture.layer:
            return []
        if isinstance(layer, tuple):
            return [(entry, f"{path}.{i}") for i, entry in enumerate(layer)]
        text, registry = architecture.layer if layer is None else layer, self.finder.registry
        names = [text]
        if not architecture.recurrent and text not in {e.name for e in registry.entries("operators")}:
            try:
                names = shorthand_operators(text, registry)
            except ValueError as error:
                raise self.finder.error(path, str(error)) from None
        return [(OperatorSpec(use=name), path) for name in names]

    def _operator(
        self, entry: OperatorSpec, path: str, options: Mapping[str, Mapping[str, Any]], layer: str
    ) -> PlannedOperator:
        """An operator whose own options go before those of its layer, and these before those of every layer."""
        finder, activation, name = self.finder, entry.activation, entry.use
        part, of_layer = finder.part_class("operators", name, path), options.get(name, {})
        merged: dict[str, Any] = {}
        for table in (finder.spec.operators.options.get(name, {}), of_layer, entry.options):
            finder.check_owner(part.Options, table, path, part.name)
            merged |= table
        if not issubclass(part, PureOperator) and activation != "none":
            merged["activation"] = activation
        options_path = path
        if not entry.options:
            options_path = f"{layer if of_layer else 'model.operators'}.options.{name}"
        found = finder.plan_part(PlannedOperator, "operators", name, path, merged, options_path)
        finder.refuse_if(operator_misfit(part, self.architecture, self.scope, finder), found, path)
        finder.check(found, options_path, self.dims, self.scope)
        if issubclass(part, RecurrentOperator):
            finder.refuse_if(self._loop_mismatch(found), found, path)
        if not issubclass(part, PureOperator):
            return found
        if activation not in get_args(Activation):
            finder.refuse_if(unknown("activation", activation, get_args(Activation)), found, path)

        def declare() -> PlannedOperator:
            operator = part(found.options, self.dims)
            return attrs.evolve(
                found,
                activation=activation,
                operator=operator,
                readings=dict(operator.readings()),
                weights=dict(operator.weights()),
                output=operator.output(),
            )

        declared = finder.attempt(found, "declare its readings, its weights and its output", declare)
        finder.refuse_if(declaration_mismatch(declared, finder), found, path)
        return declared

    def _loop_mismatch(self, found: Planned) -> str | None:
        """What is wrong with the loop of a recurrent operator; it is run once on shapes without storage."""
        shape, width = [2, 3, self.dims.unary], self.dims.recurrent

        def run() -> list[int]:
            with torch.device("meta"):
                return list(recur(found.part(found.options, self.dims), torch.empty(shape))[0].shape)

        if (result := self.finder.attempt(found, f"run it on atoms {shape}", run)) != [2, 3, width]:
            return f"its step returns {result[2:]} numbers for a token, not {width}"
        return None


def shorthand_operators(text: str, registry: Registry) -> list[str]:
    """The operators of `jmc.atp`: those left of the dot write unary atoms, those right of it binary ones.

    Raises:
        ValueError: a letter is unknown, on the wrong side or given twice; or there are no letters.
    """
    letters, names = registry.letters, list[str]()
    known = [f"{letter} ({letters[letter]})" for letter in sorted(letters)]
    unary, dot, binary = text.partition(".")
    for letter, branch in [*((each, "U") for each in unary), *((each, "B") for each in binary)]:
        if letter not in letters:
            message = unknown(f"letter of the shorthand {text!r}", letter, known)
            raise ValueError("\n".join(filter(None, [message, registry.why_no_letter(letter)])))
        name = letters[letter]
        shown, place = f"{letter!r} ({name}) stands", f"in the shorthand {text!r}"
        if registry.get("operators", name).typing[0] != branch:
            kind, side = ("binary", "right") if branch == "U" else ("unary", "left")
            hint = "" if dot else "; the shorthand has no dot, as in 'jmc.atp'"
            why = f"it writes {kind} atoms, so it belongs to the {side}{hint}"
            raise ValueError(f"{shown} on the wrong side of the dot {place}: {why}")
        if name in names:
            raise ValueError(f"{shown} twice {place}; list the operators as tables to use one twice")
        names.append(name)
    if not names:
        raise ValueError(f"the shorthand {text!r} names no operator. Known: {', '.join(known)}")
    return names
