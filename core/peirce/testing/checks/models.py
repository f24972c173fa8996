"""A part in a whole model: fused as unfused, and in ONNX Runtime as in torch."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from peirce.errors import ExportError
from peirce.exporting import export
from peirce.testing.check import Case, check
from peirce.testing.checks.declared import NETWORK
from peirce.testing.compare import same
from peirce.testing.composed import around, build_random, fitting, tiny_spec
from peirce.testing.failures import BrokenError, NotRunError
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
    *NETWORK,
    contract="an exported model gives in ONNX Runtime what torch gives, at other sizes than it was traced at",
)
def onnx(case: Case) -> None:
    """The smallest model that holds the part, by the registry's exporter, which verifies what it wrote."""
    if "onnx" not in case.registry.names("exporters"):
        raise NotRunError("not run: no exporter")
    subject = case.subject
    spec = around(case.entry, subject.options, case.registry)
    model = build_random(spec, case.registry, dtype=torch.float32)
    with TemporaryDirectory() as directory:
        try:
            export(model, path=Path(directory) / "model.onnx", to="onnx", registry=case.registry)
        except ExportError as error:
            raise BrokenError(f"in a model of architecture {spec.architecture!r}: {error}") from error
        except ImportError as error:
            raise NotRunError(f"not run: {error}; install peirce[onnx]") from error
