"""The suite rejects each deliberately wrong part by the check that is about its flaw, and passes its correct twin.

By default a wrong part meets the check that must reject it, and a twin the checks that reject its wrong ones. With
`PEIRCE_BITE=all` each meets every check.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from wrong import PAIRS, Pair, announcing, mixing, recurring

import peirce
from peirce.registry import KINDS, Registry
from peirce_testing.check import Case
from peirce_testing.checks import CHECKS
from peirce_testing.compare import BrokenError, NotApplicableError, NotRunError
from peirce_testing.conformance import commands_of
from peirce_testing.stub_parts import with_stub_parts

for name in (
    "augmenting",
    "blending",
    "composing",
    "exporters",
    "indexing",
    "placing",
    "predicting",
    "reading",
    "stating",
    "tasks",
):
    import_module(f"wrong.{name}")

TWINS = {pair.right: pair for pair in PAIRS}
EVERYTHING = os.environ.get("PEIRCE_BITE") == "all"
ALONE = [check.name for check in CHECKS if check.name not in ("onnx", "tensorrt")]
"""What a part is held to without an exporter, whose graphs take seconds."""


def plugin_of(kind: str, registered: object) -> ModuleType:
    """A plug-in that registers something."""
    plugin = ModuleType("lab")
    vars(plugin)[f"register_{kind}"] = peirce.hookimpl(lambda: registered)
    return plugin


def rejections(kind: str, part: type[Any], checks: Iterable[str], *further: str) -> dict[str, str]:
    """The checks that reject a part, with what they say.

    Args:
        kind: its kind.
        part: the part.
        checks: the names of those that it meets.
        further: plug-ins beside the part; the suite's stub parts complete them.
    """
    plugin = plugin_of(kind, [part])
    needed = ("peirce_basics.plugin",) if kind in ("tasks", "exporters") else ()
    registry = with_stub_parts(Registry.of(plugin, *needed, *further))
    return rejections_of(Case(registry.entry(kind, part.name), registry), set(checks))


def rejections_of(case: Case, chosen: set[str] | None = None) -> dict[str, str]:
    found, ran = {}, 0
    for check in CHECKS:
        if check.applies(case.entry.kind, case.part) and (chosen is None or check.name in chosen):
            try:
                check.run(case)
            except BrokenError as error:
                found[check.name] = str(error)
            except (NotApplicableError, NotRunError):
                continue
            ran += 1
    assert ran
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.wrong.name)
def test_a_wrong_part_is_rejected_by_the_check_that_is_about_its_flaw(pair: Pair) -> None:
    found = rejections(pair.kind, pair.wrong, ALONE if EVERYTHING else [pair.check])
    assert pair.check in found, found
    message = found[pair.check]
    assert pair.wrong.name in message
    assert (
        f'read on:  the guide\'s page of conformance checks, "Check: {pair.check.replace("_", " ")}"'
        in message
    )


@pytest.mark.parametrize("wrong", recurring.SEEN_TWICE, ids=lambda wrong: wrong.name)
def test_a_flaw_that_two_checks_are_about_is_rejected_by_both(wrong: type[Any]) -> None:
    expected = recurring.SEEN_TWICE[wrong]
    assert set(rejections("operators", wrong, expected)) == expected


@pytest.mark.parametrize("pair", TWINS.values(), ids=lambda pair: pair.right.name)
def test_its_correct_twin_passes(pair: Pair) -> None:
    named = ["declaration", *(other.check for other in PAIRS if other.right is pair.right)]
    assert rejections(pair.kind, pair.right, ALONE if EVERYTHING else named) == {}


def test_a_length_that_is_fixed_in_the_graph_is_rejected_by_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pair, further = mixing.FIXES_LENGTH, "peirce_export.plugin"
    found = rejections(pair.kind, pair.wrong, [pair.check], further)
    assert list(found) == [pair.check]
    kept = re.search(r"The file that failed is kept: (.+)", found[pair.check])
    assert kept is not None
    assert Path(kept[1]).is_file()


@pytest.mark.skipif(find_spec("tensorrt_rtx") is None, reason="`tox -e tensorrt` has TensorRT for RTX")
def test_what_tensorrt_does_not_take_is_rejected_by_the_build() -> None:
    pair, further = mixing.SCATTERS, "peirce_export.plugin"
    found = rejections(pair.kind, pair.wrong, ["onnx", pair.check], further)
    assert list(found) == [pair.check]
    assert re.search(r"operators\.scatters: ScatterElements \(.*reduction=add", found[pair.check])
    assert rejections(pair.kind, pair.right, [pair.check], further) == {}


def test_every_kind_has_wrong_parts_and_every_name_is_there_once() -> None:
    kinds: dict[str, set[str]] = {}
    for pair in PAIRS:
        base = next(each.__name__ for each in pair.right.__mro__ if each.__module__.startswith("peirce."))
        kinds.setdefault(f"{pair.kind} {base}", set()).add(pair.wrong.name)
    assert min(map(len, kinds.values())) >= 3, kinds
    assert len({pair.wrong.name for pair in PAIRS}) == len(PAIRS)


def test_every_check_of_a_part_has_a_wrong_one() -> None:
    shown = {pair.check for pair in (*PAIRS, mixing.FIXES_LENGTH, mixing.SCATTERS)}
    of_parts = {check.name for check in CHECKS if not {*check.kinds}.isdisjoint(KINDS)}
    assert of_parts == shown | {"record"}  # which has tests of its own


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], dict[str, str]]]:
    """What the checks say of something announced, by its kind and name; one distribution announces all commands."""
    folder, cases = tmp_path_factory.mktemp("outside"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for kind, (right, attribute, flaws) in announcing.KINDS.items():
            targets = {}
            for name in ("right", *flaws):
                text = announcing.source(right, name, flaws)
                module = f"{kind}_{name.replace('-', '_')}"
                (folder / f"{module}.py").write_text(text, encoding="utf-8")
                targets[name] = f"{module}:{'app' if 'app = ' in text else attribute}"
            if kind == "commands":
                registry = distribution(folder, targets)
                entries = {entry.name: entry for entry in commands_of(registry.plugins)}
            else:
                registry = Registry.of(plugin_of(kind, targets))
                entries = {name: registry.entry(kind, name) for name in targets}
            cases |= {(kind, name): Case(entry, registry) for name, entry in entries.items()}
        yield lambda kind, name: rejections_of(cases[kind, name])


def distribution(folder: Path, commands: dict[str, str]) -> Registry:
    """The plug-in of a distribution in a folder that announces commands."""
    plugin = "import peirce\n\n\n@peirce.hookimpl\ndef register_commands():\n    return {}\n"
    (folder / "greetings.py").write_text(plugin)
    info = folder / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\nSummary: Greet.\n")
    lines = [f"{name} = {target}" for name, target in commands.items()]
    points = ["[peirce.plugins]", "own = greetings", "[peirce.commands]", *lines]
    (info / "entry_points.txt").write_text("\n".join(points))
    return Registry.of("greetings:own")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (*_, flaws) in announcing.KINDS.items() for name in flaws]
)
def test_what_is_announced_wrongly_is_rejected(kind: str, name: str, said: Any) -> None:
    assert list(said(kind, name)) == [kind.removesuffix("s")]


@pytest.mark.parametrize("kind", announcing.KINDS)
def test_what_is_announced_rightly_passes(kind: str, said: Any) -> None:
    assert said(kind, "right") == {}
