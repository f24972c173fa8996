"""What a plug-in has recorded of its parts: what they declare and compute, which saved models rely on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import attrs
import torch
from torch import Tensor

from peirce.errors import PeirceError
from peirce.parts import PureOperator
from peirce_testing.check import Case, check
from peirce_testing.checks.options import observations, with_option
from peirce_testing.compare import BrokenError, NotApplicableError
from peirce_testing.examples import PADDED, SCOPE_KINDS, dims_of, plain_view
from peirce_testing.harness import OTHER_NUMBERS, SEVERAL
from peirce_testing.harness.base import Harness, modules
from peirce_testing.options import variations

RECORDED = ("operators", "positions", "augmenters", "heads")
"""The kinds of parts that are recorded."""
_DECLARED = ("typing", "letter", "scope_rule", "pair", "needs", "tied")
_ADVICE = "If that is meant, tell your users, and record it anew: `peirce plugins check PLUGIN --record`"
NEAR = 1e-6
"""How far a number may lie from the recorded one, relative to it where it is larger than 1."""


def path_of(part: type[Any]) -> Path:
    """Where a part's plug-in keeps its record: `record.json` in its package, `NAME.record.json` beside a module."""
    module = sys.modules.get(part.__module__.partition(".")[0])
    file = Path(getattr(module, "__file__", None) or "nowhere.py")
    return file.with_name("record.json") if file.stem == "__init__" else file.with_suffix(".record.json")


def recorded(case: Case) -> dict[str, list[str | float]]:
    """What a part declares and computes, by choice of its options: a digest of each text, a number for each tensor."""
    several = [each for each in case.harnesses if each.kinds and each.label not in (OTHER_NUMBERS, SEVERAL)]
    found = {each.label: [*map(_summarise, _observations(each))] for each in several}
    first, numbers = case.harness, set[str]()
    for name, value in variations(first.options):
        label = f"{name} = {value!r}"
        if value is None or isinstance(value, bool | str) or label in found or name in numbers:
            continue
        with suppress(TypeError, ValueError, PeirceError):
            if (other := with_option(first, name, value)) is not None and other.kinds:
                found[label] = [*map(_summarise, _observations(other))]
                numbers.add(name)  # one number of each option is enough
    return found


def _observations(harness: Harness) -> Iterator[str | Tensor]:
    """As `observations`; with padding, a long text, and training too."""
    yield from observations(harness)
    part = harness.part
    declared = {name: getattr(part, name, None) for name in _DECLARED}
    yield str({name: sorted(v) if isinstance(v, frozenset) else v for name, v in declared.items()})
    bare = harness.resize(attrs.evolve(harness.dims, binary=0, feedforward_binary=0, token_types=1))
    with catch_warnings():
        simplefilter("ignore")  # torch warns of tensors without elements
        kinds = [k for k in SCOPE_KINDS if part.check(harness.options, harness.dims, k) is None]
        yield str((kinds, bare.kinds, [list(each.state_dict()) for each in modules(bare.make())]))
    padded = plain_view(harness.kinds[0], 2, 4, PADDED)
    large = attrs.evolve(dims_of(11, 2, 5, 6), max_length=512)
    long = plain_view(
        harness.kinds[-1], 1, 20 if getattr(part, "typing", "").startswith("B <- B x B") else 150
    )
    with_dropout = attrs.evolve(harness.dims, dropout=0.5)
    ways = (harness.dims, padded, False), (large, long, False), (with_dropout, padded, True)
    for dims, view, training in ways:
        other = harness.resize(dims)
        instance, tensors = other.make(), other.draw(view, 5)
        for module in modules(instance):
            module.train(training)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(6)
            results = other.run(instance, tensors, view)
        if isinstance(instance, PureOperator):
            yield repr((instance.readings(), instance.output()))
        yield from (tensor for _, tensor in results)


def _summarise(value: str | Tensor) -> str | float:
    """A text's digest; of a tensor a number that changes with its values and shape."""
    if isinstance(value, str):
        return sha256(value.encode()).hexdigest()[:12]
    flat = value.detach().flatten().double()
    shape = sum(size * (axis + 1) for axis, size in enumerate(value.shape))
    wave = torch.arange(1.0, len(flat) + 1, dtype=torch.float64).cos()
    return float(f"{float(flat @ wave) + 1e-3 * shape:.9g}")


@check(*RECORDED)
def record(case: Case) -> None:
    """A part declares and computes what its plug-in has recorded of it: saved models stay what they are. Sizes,
    readings, initial values, outputs and losses with each choice of its options, where there is a record.
    """
    path, name = path_of(case.part), f"{case.entry.kind}.{case.entry.name}"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if name not in known:
        message = f"{path.name} does not have it; `peirce plugins check PLUGIN --record` writes that"
        raise NotApplicableError(message)
    now = recorded(case)
    for label, expected in known[name].items():
        given = now.get(label)
        if given is None or len(given) != len(expected):
            raise BrokenError(f"with {label}: there are other outputs than {path.name} has. {_ADVICE}")
        for place, (one, other) in enumerate(zip(given, expected, strict=True)):
            if not _is_close(one, other):
                what = "what it declares" if isinstance(one, str) else "what it computes"
                unlike = f"{what} is not what {path.name} has (entry {place}: {one}, {other})"
                raise BrokenError(f"with {label}: {unlike}. {_ADVICE}")


def _is_close(one: str | float, other: str | float) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= NEAR * max(1.0, abs(other))


def write(cases: Iterable[Case]) -> list[Path]:
    """Record the parts of some cases, each in its plug-in's file, which is made anew; the files."""
    found: dict[Path, dict[str, Any]] = {}
    for case in {id(each): each for each in cases if each.entry.kind in RECORDED}.values():
        found.setdefault(path_of(case.part), {})[f"{case.entry.kind}.{case.entry.name}"] = recorded(case)
    for path, parts in found.items():
        lines = (
            f" {json.dumps(name)}: {{\n"
            + ",\n".join(f"  {json.dumps(label)}: {json.dumps(values)}" for label, values in by.items())
            + "\n }"
            for name, by in sorted(parts.items())
        )
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return list(found)
