"""The card beside a saved model: what it says, that a person's stays, and that the hub's own library reads it."""

from __future__ import annotations

from pathlib import Path

from small_specs import TRANSFORMER

import peirce
from peirce.model import CARD

SPEC = TRANSFORMER.replace({"model.name": 'a "b": c', "model.dims.layers": 1, "model.input.vocabulary": 20})


def test_a_card_is_written_anew_until_a_person_has_one(tmp_path: Path) -> None:
    model = peirce.build(SPEC, seed=0)
    model.save(tmp_path / "model")
    card = tmp_path / "model" / CARD
    written = card.read_text(encoding="utf-8")
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in written
    for spec in (*model.signature.inputs, *model.signature.outputs):
        assert f"| `{spec.name}` |" in written
    assert all(f"| `{part}` | peirce-" in written for part in model.provenance["parts"])
    card.write_text(written + "Trained on air.", encoding="utf-8")
    model.save(tmp_path / "model")
    assert card.read_text(encoding="utf-8") == written
    card.write_text("Mine.", encoding="utf-8")
    peirce.load(tmp_path / "model").save(tmp_path / "model")
    assert card.read_text(encoding="utf-8") == "Mine."
    card.unlink()
    assert peirce.verify(tmp_path / "model").passed
