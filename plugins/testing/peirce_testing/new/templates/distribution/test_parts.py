"""The conformance suite over the package; and each of its ready specs is a model that learns."""

from importlib.resources import files
from pathlib import Path

import peirce
import pytest
import torch
from peirce_testing import Conformance

SPECS = sorted(Path(str(files("new_package"))).glob("specs/*.toml"))

test_conformance = Conformance("new_package")


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_ready_spec_is_a_model_that_learns(path: Path) -> None:
    """Thirty steps bring its first output nearer to what is wanted of it."""
    torch.manual_seed(0)
    settings = {"model.input.vocabulary": 20, "model.regularisation.dropout": 0.0}
    model = peirce.build(peirce.load_spec(path, settings))
    ids = torch.randint(1, 20, (2, 6))
    name = model.signature.outputs[0].name
    wanted = torch.randn_like(model(input_ids=ids)[name]) / 4
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = (model(input_ids=ids)[name] - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
