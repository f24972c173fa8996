"""A folnet with relative positions is trained on short sequences and used on longer ones."""

from __future__ import annotations

import pytest
import torch
from peirce.compose import build
from peirce.model import Model
from small_specs import FOLNET
from torch import Tensor

MASK, FIRST, COUNT, IGNORED = 1, 2, 12, -100
SPEC = FOLNET.replace(
    {
        "model.input.vocabulary": FIRST + COUNT,
        "model.input.max_length": 512,
        "model.dims.layers": 1,
        "model.operators.layer": "j.a",
        "model.heads": [{"use": "mlm"}],
        "model.regularisation.dropout": 0.0,
        "model.regularisation.init_std": 0.1,
    }
)


def counting(rows: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows that count upwards and begin again, with some tokens masked; the labels are what the masks hide."""
    start = torch.randint(0, COUNT, (rows, 1), generator=generator)
    ids = (start + torch.arange(length)) % COUNT + FIRST
    masked = torch.rand((rows, length), generator=generator) < 0.15
    return ids.masked_fill(masked, MASK), ids.masked_fill(~masked, IGNORED)


@pytest.fixture(scope="module")
def trained() -> Model:
    model = build(SPEC, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(120):
        ids, labels = counting(8, 32, generator)
        optimizer.zero_grad()
        model.loss("mlm", model(input_ids=ids), labels).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("length", [32, 128, 512])
def test_what_was_learned_at_32_holds_at_other_lengths(trained: Model, length: int) -> None:
    ids, labels = counting(2048 // length, length, torch.Generator().manual_seed(length))
    with torch.inference_mode():
        found = trained(input_ids=ids)["mlm_logits"].argmax(-1)
    hidden = labels != IGNORED
    accuracy = float((found == labels)[hidden].float().mean())
    assert accuracy > 0.85  # a guess is right once in twelve times
