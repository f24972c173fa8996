"""What a spec says of layers that differ: options of their own, and mistakes that have their place."""

from __future__ import annotations

from typing import Any

import pytest
from small_specs import ENCODER_DECODER, FOLNET, TRANSFORMER

from peirce.compose import build, resolve
from peirce.errors import SpecError
from peirce.parts import Architecture
from peirce.registry import Registry, hookimpl
from peirce.spec import Spec
from peirce_basics.architectures.transformer import Transformer

REGLU = {"bool": {"activation": "reglu"}}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an operator of another layer": (
        {"layers": [{"layer": "lstm"}, {"layer": "j.a", "options": {"lstm": {}}}]},
        "options for operator 'lstm', which the layer does not have; it has assoc, bool, join",
    ),
    "an option": (
        {"layers": [{"layer": "lstm"}, {"layer": "j.a", "options": {"bool": {"activatio": ""}}}]},
        "unknown option 'activatio' of operator 'bool'. Did you mean 'activation'",
    ),
    "no name": ({"state": ""}, r"model.operators.state must not contain an empty name"),
    "no name in a list": ({"state": ["bool", ""]}, r"empty name; write \[\] for no operators"),
    "more layers than there could be": ({"layers": [{"repeat": 10**12}]}, "repeat must be <= 1000000"),
    "no layers": ({"layers": [{"repeat": 0}]}, "repeat must be >= 1"),
}


def test_a_layer_has_options_of_its_own_before_those_of_all(registry: Registry) -> None:
    layers = [{"layer": "j.a"}, {"layer": "jc.a", "options": {"bool": {"activation": "gelu"}}}]
    options = {**REGLU, "cjoin": {"premise": "paper"}}
    spec = FOLNET.replace({"model.operators": {"layers": layers, "options": options}})
    assert Spec.from_toml(spec.to_toml()) == spec
    first, second = resolve(spec, registry).layers
    assert [each.state[0].options.activation for each in (first, second)] == ["reglu", "gelu"]
    assert second.mixing[1].options.premise == "paper"
    table = [{"use": "bool", "activation": "reglu"}]
    spec = spec.replace({"model.operators.layers.1.state": table})
    assert resolve(spec, registry).layers[1].state[0].options.activation == "reglu"


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_has_its_place(name: str, registry: Registry) -> None:
    operators, said = WRONG[name]
    with pytest.raises(SpecError, match=said):
        resolve(FOLNET.replace({"model.operators": operators}), registry)


def test_a_line_of_a_layer_is_named(registry: Registry) -> None:
    text = FOLNET.replace({"model.operators": {}}).to_toml()
    layers = '[[model.operators.layers]]\nlayer = "j.a"\n\n[[model.operators.layers]]\nlayer = "jx.a"\n'
    spec = Spec.from_toml(f"{text}\n{layers}", "mixed.toml")
    line = f"{text}\n{layers}".splitlines().index('layer = "jx.a"') + 1
    with pytest.raises(SpecError, match=rf"^mixed\.toml:{line}: unknown letter 'x'"):
        resolve(spec, registry)


def test_an_architecture_whose_layers_are_fixed_has_no_state_to_name(registry: Registry) -> None:
    class Fixed(Transformer):
        """A stranger's, whose layers nobody may change."""

        name, fixed_layer, example = "fixed", True, {}

    class Plugin:
        @staticmethod
        @hookimpl
        def register_architectures() -> list[type[Architecture]]:
            return [Fixed]

    spec = TRANSFORMER.replace({"model.architecture": "fixed", "model.operators": {"state": "bool"}})
    with pytest.raises(SpecError, match="the layers of architecture 'fixed' are fixed; leave `state` out"):
        resolve(spec, registry.completed(Plugin))


def test_a_decoder_must_read_its_source(registry: Registry) -> None:
    spec = ENCODER_DECODER.replace({"model.operators": {"layer": "lstm"}})
    with pytest.raises(SpecError, match="the source would have no effect"):
        build(spec, registry=registry)
