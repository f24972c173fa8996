"""A part in a whole model: fused as unfused, from a cached state as in one pass, exported as in torch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import torch

from peirce.compose import export
from peirce.errors import ExportError
from peirce.parts import GenerativeArchitecture, TensorSpec
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.companions import companied
from peirce.testing.compare import same
from peirce.testing.composed import around, build_random, fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotApplicableError, NotRunError
from peirce.testing.subjects import ArchitectureSubject, Subject
from peirce.testing.views import plain_view


@check("architectures", contract="a fused model equals the unfused one in float64, with the same state dict")
def fused(case: Case) -> None:
    """One layer, to 1e-12 of the largest output."""

    def body(subject: Subject) -> None:
        assert isinstance(subject, ArchitectureSubject)
        for kind in subject.specs:
            spec = fitting(tiny_spec(subject.part, subject.options, scope=kind, layers=1), subject.registry)
            one = build_random(spec, subject.registry, fuse=True)
            two = build_random(spec, subject.registry, fuse=False)
            if list(one.state_dict()) != list(two.state_dict()):
                raise BrokenError("the state dict has other keys when the model is not fused")
            view = plain_view(kind, 2, 4)
            tensors = subject.draw(view, torch.Generator().manual_seed(0))
            results = subject.run({kind: one}, tensors, view), subject.run({kind: two}, tensors, view)
            for (slot, first), (_, second) in zip(*results, strict=True):
                size = max(float(first.detach().abs().max()), 1e-300)
                same(first / size, second / size, f"{slot.name} in a {kind} scope, fused", tolerance=1e-12)

    case.each(body)


@check(
    "operators",
    "positions",
    "augmenters",
    "architectures",
    contract="tokens that are inferred one by one from a cached state have the atoms that one pass gives them",
)
def memory(case: Case) -> None:
    """A tiny causal model that holds the part, to 1e-10 of the largest atom: two tokens, then one at a time."""
    # Where the example's options refuse a causal scope, another choice of one of them may take it.
    options = next((s.options for s in case.subjects if "causal" in s.kinds), case.subject.options)
    try:
        spec = around(case.entry, options, case.registry, scope="causal")
    except NotRunError as error:
        raise NotApplicableError(str(error)) from error
    network = build_random(spec, case.registry).network
    if not isinstance(network, GenerativeArchitecture):
        raise NotApplicableError(f"architecture {spec.architecture!r} has no cached state")
    generator = torch.Generator().manual_seed(0)
    inputs = {s.name: _drawn(s, generator) for s in network.inputs() if "prefix" not in s.name}
    real = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    real[0, 1] = real[1, 0] = False
    inputs |= {spec.name: real for spec in network.inputs() if spec.masks is not None}
    counted = {s.name: s.dims.index(network.rows) for s in network.inputs() if network.rows in s.dims}
    with torch.no_grad():
        whole = network(inputs)[0].unary
        pieces: list[torch.Tensor] = []
        kept: dict[str, torch.Tensor] = {}
        for start, stop in ((0, 2), *((at, at + 1) for at in range(2, LENGTH))):
            new = {
                n: inputs[n].narrow(axis, start, stop - start) for n, axis in counted.items() if n in inputs
            }
            encoded, _, kept = network.advance({**inputs, **new} if start == 0 else new, kept)
            pieces.append(encoded.unary)
    declared = [s.name for s in network.cached_state()]
    if list(kept) != declared:
        raise BrokenError(f"the architecture declares the cached state {declared}, and keeps {list(kept)}")
    size = max(float(whole.abs().max()), 1e-300)
    same(
        torch.cat(pieces, 1) / size,
        whole / size,
        f"in a {spec.architecture} model, one by one",
        tolerance=1e-10,
    )


BATCH, LENGTH = 2, 6
"""The sizes of the example of the check `memory`."""


def _drawn(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    shape = [dim if isinstance(dim, int) else BATCH if dim == "batch" else LENGTH for dim in spec.dims]
    if spec.dtype == "bool":
        return torch.ones(shape, dtype=torch.bool)
    return torch.randint(0, spec.high or 2, shape, generator=generator)


@check(
    *NETWORK,
    contract="an exported model gives in ONNX Runtime what torch gives, at other sizes than it was traced at",
)
def onnx(case: Case) -> None:
    """The smallest model that holds the part, by the registry's exporter, which verifies what it wrote.

    A thorough run takes an architecture of the registry's own.
    """
    _exported(case, "onnx")


@check(
    *NETWORK,
    contract="TensorRT parses an exported model and builds an engine of it, for every size of its dims",
    on_request=True,
)
def tensorrt(case: Case) -> None:
    """The model of the check `onnx`; the engine is not run, which needs a GPU."""
    _exported(case, "tensorrt")


def _exported(case: Case, to: str) -> None:
    if to not in case.registry.names("exporters"):
        raise NotRunError("not run: no exporter")
    registry = case.registry if case.thorough else companied(case.registry)
    spec = around(case.entry, case.subject.options, registry, small=not case.thorough)
    model = build_random(spec, registry, dtype=torch.float32)
    directory = Path(mkdtemp(prefix="peirce-check-"))
    try:
        export(model, path=directory / f"model.{to}", to=to, registry=registry)
    except ExportError as error:
        if isinstance(error.__cause__, ModuleNotFoundError):
            rmtree(directory)
            raise NotRunError(f"not run: {error}") from error
        with suppress(OSError):
            directory.rmdir()  # empty if nothing was written; a file that failed stays, since the error names it
        raise BrokenError(f"in a model of architecture {spec.architecture!r}: {error}") from error
    except ImportError as error:
        rmtree(directory)
        raise NotRunError(f"not run: {error}; install peirce[onnx]") from error
    rmtree(directory)
