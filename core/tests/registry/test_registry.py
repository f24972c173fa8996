"""Registries made of plug-ins that are written here: what loads, what is quarantined, who owns a name."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
from shared_folder import ROOT

from peirce import hookimpl
from peirce.compose import resolve
from peirce.errors import PlanError, RegistryError
from peirce.parts import Architecture, Head, NoOptions, Operator, Position, Reader, Writer
from peirce.registry import KINDS, Registry, RegistryFile, load_spec
from peirce.registry.registry import RECIPE_SECTIONS


def operator(name: object, letter: object = None, **more: Any) -> type[Operator]:
    """A correct operator, but for what `more` changes."""

    def reader(self: Operator) -> Reader:
        return Reader(branch="B", shape={"h": self.dims.heads})

    body = {
        "name": name,
        "letter": letter,
        "typing": "B <- B x B",
        "scope_rule": "pairwise",
        "kernel": reader,
        "premise": reader,
        "output": lambda self: Writer(branch="B", shape={"h": self.dims.heads}),
        "infer": lambda self, kernel, premise, scope: kernel * premise,
        "reference": lambda self, kernel, premise, scope: [],
    }
    return type("Made", (Operator,), body | more)


def plugin(name: str, parts: object = (), hook: str = "register_operators", **marks: Any) -> ModuleType:
    """A plug-in module with one hook."""

    def register() -> object:
        return parts

    register.__name__ = hook
    module = ModuleType(name)
    setattr(module, hook, hookimpl(**marks)(register))
    return module


def cause(*plugins: object) -> str:
    """Why the last plug-in was quarantined; the others must have been loaded, and it must have left nothing."""
    registry = Registry.of(*plugins)
    assert len(registry.quarantined) == 1
    broken = registry.quarantined[0]
    assert all(entry.plugin != broken.plugin for kind in KINDS for entry in registry.entries(kind))
    assert len(registry.plugins) == len(plugins) - 1
    return broken.cause


def test_a_part_is_found_with_its_provenance() -> None:
    part = operator("least", "l")
    registry = Registry.of(plugin("lab", [part]))
    assert registry.get("operators", "least") is part
    assert registry.names("operators") == ("least",)
    assert dict(registry.letters) == {"l": "least"}
    entry = registry.entry("operators", "least")
    assert (entry.plugin, entry.distribution, entry.version) == ("module:lab", None, None)


def test_a_built_in_module_keeps_its_distribution() -> None:
    registry = Registry.of("peirce_folnet.plugin")
    entry = registry.entry("operators", "join")
    assert (entry.plugin, entry.distribution) == ("peirce-folnet:folnet", "peirce-folnet")
    assert entry.version is not None
    assert registry.entries("heads") == ()


def test_the_same_module_counts_once() -> None:
    import peirce_folnet.plugin

    registry = Registry.of("peirce-folnet:folnet", "peirce_folnet.plugin", peirce_folnet.plugin)
    assert len(registry.plugins) == 1
    assert registry.conflicts == ()


def test_a_name_that_recipes_say_leads_to_them() -> None:
    page = (ROOT / "docs/guide/write-a-plugin/recipes.md").read_text(encoding="utf-8")
    headings = {
        line.strip("# .").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("#")
    }
    assert set(RECIPE_SECTIONS.values()) <= headings
    with pytest.raises(RegistryError, match="moe: see the guide's page of recipes, 'i want'"):
        Registry.of().get("operators", "moe")


def test_an_unknown_name_lists_the_nearest() -> None:
    registry = Registry.of(plugin("lab", [operator("least"), operator("most")]))
    with pytest.raises(RegistryError, match=r"unknown operator 'leest'. Did you mean 'least'\? Known: le"):
        registry.get("operators", "leest")
    with pytest.raises(RegistryError, match=r"unknown part kind 'operator'. Did you mean 'operators'"):
        registry.get("operator", "least")


def options(name: str = "depth", alias: str | None = None, **made: bool) -> type:
    """Options with one field, correct but for what is said."""
    fields = {name: attrs.field(default=1, alias=alias)}
    return attrs.make_class("Options", fields, **{"frozen": True, "kw_only": True} | made)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (operator("Least"), "has the name 'Least'; names match"),
        (operator(None), "has the name None"),
        (operator("least", api=99), "was written for api 99; this Peirce supports 1 to 1"),
        (operator("least", "ll"), "has the letter 'll'; a letter is one of a to z"),
        (operator("least", typing="B = B * B"), "has the typing 'B = B \\* B'"),
        (operator("least", typing="B <- "), "has the typing 'B <- '"),
        (
            operator("least", pair="score"),
            "has pair = 'score', which is for B <- U x U, and the typing 'B <- B x B'",
        ),
        (operator("least", pair="value"), "has pair = 'value', which is for U <- B, and the typing"),
        (
            operator("least", pair="attention", typing="U <- U x U x U"),
            "'attention' is for an AttentionOperator",
        ),
        (operator("least", scope_rule="sometimes"), "must declare its mask contract"),
        (operator("least", source=lambda self: "a paper"), r"declares source = .*; Part.source is str"),
        (operator("least", infer="kernel"), r"declares infer = .*, which hides the method Operator.infer"),
        (operator("least", Options=dict), "are not an attrs class"),
        (operator("least", Options=options(frozen=False)), "are not frozen"),
        (operator("least", Options=options(slots=False, frozen=False)), "are not frozen"),
        (operator("least", Options=options(kw_only=False)), "take 'depth' by position"),
        (operator("least", Options=options("use")), "have a field 'use'"),
        (operator("least", Options=options(alias="use")), "have a field 'use'"),
        (
            type("Bare", (Operator,), {"name": "bare"}),
            "operator 'bare' does not define infer, kernel, output",
        ),
        (Operator, "operator Operator has the name None"),
        (int, "is not a subclass of Operator or PureOperator or StateOperator"),
        (operator("least")(None, None), "is not a subclass"),
    ],
)
def test_what_is_no_part_quarantines_its_plugin(part: object, said: str) -> None:
    with_a_good_one = plugin("broken", [operator("good"), part])
    assert re.search(said, cause(plugin("lab", [operator("most")]), with_a_good_one))


class Sizes(Architecture):
    """A network that is never built: its class alone is read."""

    name = "sizes"
    Dims = NoOptions
    places = frozenset({"unary"})
    branches = "U"
    layer = ""
    inputs = outputs = lambda self: ()

    @classmethod
    def sizes(cls, options: Any, dims: Any) -> dict[str, int]:
        return {}

    def __init__(self, options: Any, plan: Any) -> None:
        super().__init__(options, plan)

    def forward(self, inputs: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scope": True}, "declares scope = True; Architecture.scope is str | None"),
        ({"places": "unary"}, "declares places = 'unary'; Architecture.places is frozenset[Place]"),
        ({"places": frozenset({"left"})}, "declares places = frozenset({'left'})"),
        ({"branches": "BU"}, "declares branches = 'BU'; Architecture.branches is Literal['U', 'UB']"),
        ({"layer": None}, "declares layer = None; Architecture.layer is str"),
        ({"state": "bool"}, "declares state = 'bool'; Architecture.state is tuple[str, ...]"),
        ({"rows": 3}, "declares rows = 3; Architecture.rows is str"),
        ({"fixed_layer": "no"}, "declares fixed_layer = 'no'; Architecture.fixed_layer is bool"),
        ({"Dims": {"unary": 3}}, "declares Dims = {'unary': 3}; Architecture.Dims is type"),
        ({"sizes": lambda cls, dims: {}}, "'sizes' without @classmethod, as Architecture.sizes is one"),
        ({"gives": frozenset()}, "declares gives = frozenset(), which hides the method Architecture.gives"),
    ],
)
def test_a_name_of_the_contract_stands_for_what_the_contract_says(wrong: dict[str, Any], said: str) -> None:
    assert Registry.of(plugin("lab", [Sizes], "register_architectures")).names("architectures") == ("sizes",)
    assert said in cause(plugin("broken", [type("Wrong", (Sizes,), wrong)], "register_architectures"))


def test_a_class_attribute_without_a_default_must_be_declared() -> None:
    body = {k: v for k, v in vars(Sizes).items() if k not in ("places", "__dict__", "__weakref__")}
    undeclared = type("Undeclared", (Architecture,), body)
    said = cause(plugin("broken", [undeclared], "register_architectures"))
    assert said == "architecture 'sizes' does not declare 'places': Architecture.places is frozenset[Place]"


@pytest.mark.parametrize(
    ("kind", "base", "body", "said"),
    [
        ("heads", Operator, {"name": "least"}, "not a subclass of Head"),
        ("heads", Head, {}, "has the name None"),
        ("positions", Position, {"name": "a", "__init__": lambda self, *given: None}, "serves no place"),
        ("positions", "absolute", {"places": ("unary",)}, "hides the method Position.places"),
        ("heads", "mlm", {"needs": ("pooled",)}, "declares needs = ('pooled',); Head.needs is frozenset["),
        ("heads", "mlm", {"needs": "pooled"}, "declares needs = 'pooled'"),
        ("heads", "mlm", {"labels": None}, "declares labels = None; Head.labels is str"),
    ],
)
def test_parts_of_other_kinds_are_held_too(
    kind: str, base: type | str, body: dict[str, Any], said: str, registry: Registry
) -> None:
    part = registry.get(kind, base) if isinstance(base, str) else base
    assert said in cause(plugin("broken", [type("Wrong", (part,), body)], f"register_{kind}"))


def broken(hook: object, name: str = "register_heads") -> ModuleType:
    """A plug-in with a good hook and another one."""
    module = plugin("broken", [operator("good")])
    setattr(module, name, hook)
    return module


@hookimpl
def failing() -> list[type[Head]]:
    raise LookupError("no\nlicence")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            broken(hookimpl(lambda: None), "register_operator"),
            "hook 'register_operator'. Did you mean 'register_op",
        ),
        (broken(lambda: None), "register_heads is not marked `@peirce.hookimpl`"),
        (broken(failing), "LookupError: no licence"),
        (broken(hookimpl(lambda dims: [])), "Argument(s) {'dims'} are declared in the hookimpl"),
        (broken(hookimpl(lambda: None), "register_layers"), "unknown hook 'register_layers'"),
        (plugin("broken", [operator("least"), operator("least")]), "registers operators.least twice"),
        (plugin("broken", None), "must return a list of classes"),
        (plugin("broken", operator("least")), "must return a list of classes"),
        ("no_such_lab.parts", "there is no module 'no_such_lab'"),
        (ModuleType("bare"), "it has no function marked `@peirce.hookimpl`, and so registers nothing"),
    ],
)
def test_a_broken_plugin_is_quarantined_whole(made: object, said: str) -> None:
    assert said in cause(plugin("lab", [operator("most")]), made)


def test_a_hook_of_a_distribution_that_is_not_installed_is_passed_over_where_it_is_optional() -> None:
    made = broken(hookimpl(optionalhook=True)(lambda: None), "register_layers")
    assert [entry.name for entry in Registry.of(made).entries("operators")] == ["good"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import no_such_dependency", "it needs the module 'no_such_dependency', which is not installed"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = = 3", "SyntaxError: invalid syntax (needy_lab.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_quarantined(
    text: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_lab.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    broken = Registry.of("needy_lab").quarantined[0]
    assert broken.cause == cause
    assert any('needy_lab.py", line 1' in line for line in broken.detail.splitlines()[:2])
    assert "needy_lab" not in sys.modules


def test_asking_for_a_quarantined_part_says_so() -> None:
    registry = Registry.of(plugin("broken", [operator("least"), operator("Bad")]))
    with pytest.raises(RegistryError, match=r"'least' belongs to a plug-in that is quarantined. module:bro"):
        registry.get("operators", "least")
    with pytest.raises(RegistryError, match="may belong to a plug-in that is quarantined: module:no_s"):
        Registry.of("no_such_lab").get("operators", "least")


def test_two_owners_are_an_error_that_settles_it() -> None:
    with pytest.raises(RegistryError) as raised:
        Registry.of(plugin("one", [operator("least")]), plugin("two", [operator("least")]))
    said = str(raised.value)
    assert "operator 'least' has 2 owners: module:one, module:two" in said
    assert '`"operators.least" = "module:one"` or `"operators.least" = "module:two"`' in said


def test_two_owners_of_a_letter_are_an_error_that_settles_it() -> None:
    plugins = (plugin("one", [operator("least", "l")]), plugin("two", [operator("lowest", "l")]))
    with pytest.raises(RegistryError, match=r"letter 'l' .*has 2 owners: module:one, module:two"):
        Registry.of(*plugins)
    registry = Registry.of(*plugins, file=RegistryFile(prefer={"letters.l": "module:two"}))
    assert registry.letters["l"] == "lowest"
    assert registry.names("operators") == ("least", "lowest")


def test_prefer_settles_a_name_and_its_letter() -> None:
    first, second = operator("least", "l"), operator("least", "l")
    file = RegistryFile(prefer={"operators.least": "module:two"})
    registry = Registry.of(plugin("one", [first]), plugin("two", [second]), file=file)
    assert registry.get("operators", "least") is second
    assert dict(registry.letters) == {"l": "least"}


def test_a_preferred_owner_that_is_broken_is_not_replaced_in_silence() -> None:
    file = RegistryFile(prefer={"operators.least": "module:no_such_lab"})
    registry = Registry.of(plugin("one", [operator("least"), operator("most")]), "no_such_lab", file=file)
    assert registry.names("operators") == ("most",)
    with pytest.raises(RegistryError, match=r'prefers "module:no_such_lab" .*quarantined: there is no'):
        registry.get("operators", "least")


def test_aliases() -> None:
    lab = plugin("lab", [operator("least")])
    file = RegistryFile(aliases={"operators.minimal": "least", "operators.old": "gone"})
    registry = Registry.of(lab, file=file)
    assert registry.entry("operators", "minimal").name == "least"
    assert registry.names("operators") == ("least",)
    with pytest.raises(RegistryError, match=r"unknown operator 'gone'.*alias of 'gone' in registry.toml"):
        registry.get("operators", "old")
    with pytest.raises(RegistryError, match=r'alias "operators.least" in registry.toml hides the operator'):
        Registry.of(lab, file=RegistryFile(aliases={"operators.least": "most"}))


def test_switched_off_plugins_are_not_imported_and_named() -> None:
    off = RegistryFile(default="off", plugins={"peirce-basics:basics": "on"})
    registry = Registry.discover(off)
    assert {plugin.name for plugin in registry.plugins} == {"peirce-basics:basics"}
    with pytest.raises(RegistryError, match=r"Switched off: .*peirce-folnet:folnet.*peirce plugins enable"):
        registry.get("operators", "join")
    added = Registry.discover(RegistryFile(default="off"), extra_plugins=["peirce-folnet:folnet"])
    assert "join" in added.names("operators")


def test_a_letter_that_a_wrong_preference_takes_away_is_explained() -> None:
    file = RegistryFile(prefer={"letters.j": "nobody:parts"})
    spec = load_spec("folnet-base")
    with pytest.raises(PlanError, match=r"unknown letter 'j'[\s\S]*prefers \"nobody:parts\" for letter 'j'"):
        resolve(spec, Registry.discover(file))


def test_a_registry_is_completed_where_a_name_and_a_letter_are_free() -> None:
    """Names, letters, aliases and preferences stay as they are, and so does the registry itself."""
    file = RegistryFile(aliases={"operators.short": "own"}, prefer={"operators.owed": "module:gone"})
    registry = Registry.of(plugin("one", [operator("own", "o"), operator("plain")]), file=file)
    named = {"own": None, "takes": "o", "short": None, "new": "n", "again": "n"}
    parts = [operator(name, letter) for name, letter in named.items()]
    whole = registry.completed(plugin("two", parts), "no_such_module_anywhere")
    assert [broken.plugin for broken in whole.quarantined] == ["module:no_such_module_anywhere"]
    found = {entry.name: entry.plugin for entry in whole.entries("operators")}
    assert found == {"own": "module:one", "plain": "module:one", "new": "module:two"}
    assert whole.letters == {"o": "own", "n": "new"}
    assert [known.name for known in whole.plugins] == ["module:one", "module:two"]
    assert registry.names("operators") == ("own", "plain")
    assert registry.letters == {"o": "own"}
