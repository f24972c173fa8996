"""Exporters that leave something behind, change something, or say something else than they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from attrs import field, frozen, validators

from peirce.errors import ExportError
from peirce.files import write_whole
from peirce.model import Exporter, Model, Report
from wrong import flaw, flawed, wrong


@frozen(kw_only=True)
class ListingOptions:
    """How numbers are written."""

    digits: int = field(default=6, validator=validators.ge(1))
    layout: Literal["wide", "narrow"] = field(default="narrow", validator=validators.in_(("wide", "narrow")))


class Listing(Exporter):
    """The parameters as JSON."""

    name = "listing"
    Options = ListingOptions

    def export(self, model: Model, path: Path) -> Any:
        if path.is_dir() or not path.parent.is_dir():
            raise ExportError(f"{path} is a folder, or in none; name a file")
        self.put(model, path)
        return self.report(path)

    def put(self, model: Model, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.text(model))

    def text(self, model: Model) -> str:
        """What the file holds."""
        lists = {name: self.rounded(value) for name, value in model.state_dict().items()}
        return json.dumps(lists, indent=2 if self.options.layout == "wide" else None)

    def rounded(self, value: torch.Tensor) -> Any:
        """A tensor's numbers."""
        return [round(number, self.options.digits) for number in value.flatten().tolist()]

    def report(self, path: Path) -> Any:
        """What came of it."""
        return Report(file=path, passed=True, notes=("as JSON",))


flaw(
    Listing, "export_report", "returns_the_path", "Returns where it wrote.",
    report=lambda self, path: path,
)  # fmt: skip
flaw(
    Listing, "export_report", "reports_another", "Reports another file than it was given.",
    report=lambda self, path: Report(file=path.with_suffix(".json"), passed=True),
)  # fmt: skip
flaw(
    Listing, "export_report", "never_sure", "Writes a file and says that it did not pass.",
    report=lambda self, path: Report(file=path, passed=False),
)  # fmt: skip


@flawed(Listing, "export", "export_overwrites")
def adds_a_suffix(self: Listing, model: Model, path: Path) -> Any:
    """Writes to the path with a suffix of its own."""
    Listing.export(self, model, path.with_suffix(".json"))
    return self.report(path)


@flawed(Listing, "put", "export_failure")
def opens_first(self: Listing, model: Model, path: Path) -> None:
    """Opens the file, and then makes what goes into it."""
    with path.open("w", encoding="utf-8") as file:
        file.write(self.text(model))


@flawed(Listing, "put", "export_overwrites")
def leaves_its_scratch(self: Listing, model: Model, path: Path) -> None:
    """Leaves the file that it wrote first."""
    path.with_name("scratch.json").write_text(self.text(model), encoding="utf-8")
    Listing.put(self, model, path)


@flawed(Listing, "put", "export_overwrites")
def writes_a_spec(self: Listing, model: Model, path: Path) -> None:
    """Writes the spec beside the file, over that of the saved model."""
    path.with_name("spec.toml").write_text("# see the JSON\n", encoding="utf-8")
    Listing.put(self, model, path)


@flawed(Listing, "put", "export_overwrites")
def appends(self: Listing, model: Model, path: Path) -> None:
    """Goes on where an older file ended."""
    text = self.text(model)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@flawed(Listing, "export", "export_overwrites")
def clears_the_place(self: Listing, model: Model, path: Path) -> Any:
    """Removes whatever stands at the path, folders included."""
    if path.is_dir():
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
    return Listing.export(self, model, path)


@flawed(Listing, "text", "export_report")
def rounds_the_model(self: Listing, model: Model) -> str:
    """Rounds the parameters where they are."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    return Listing.text(self, model)


@flawed(Listing, "text", "export_report")
def trains_the_model(self: Listing, model: Model) -> str:
    """Leaves the model in training mode."""
    model.train()
    return Listing.text(self, model)


@flawed(Listing, "text", "export_report")
def seeds_at_random(self: Listing, model: Model) -> str:
    """Seeds torch, to be sure."""
    torch.manual_seed(0)
    return Listing.text(self, model)


flaw(
    Listing, "export_options", "six_digits", "Has an option that nothing reads.",
    rounded=lambda self, value: [round(number, 6) for number in value.flatten().tolist()],
)  # fmt: skip
flaw(
    Listing, "export_options", "wide_fails", "Fails at a choice that it offers.",
    text=lambda self, model: (
        Listing.text(self, model) if self.options.layout == "narrow" else json.dumps(model.state_dict())
    ),
)  # fmt: skip


@frozen(kw_only=True)
class OutputOptions:
    """Where to."""

    output: str = "utf-8"


@wrong("export_options")
class HasAnOutput(Listing):
    """Calls an option as the command calls one of its own."""

    Options = OutputOptions

    def put(self, model: Model, path: Path) -> None:
        write_whole(path, Listing(ListingOptions()).text(model).encode(self.options.output))
