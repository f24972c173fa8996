"""The files of published models: what lacks bytes is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peirce.errors import ModelFileError
from peirce.model import published_tensors


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_lacks_bytes_is_refused(zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    torch.save({"weight": torch.ones(2, 3)}, file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    assert published_tensors(file)["weight"].shape == (2, 3)
    for place in range(0, len(whole), len(whole) // 40):
        file.write_bytes(whole[:place] + whole[place + 64 :])
        with pytest.raises(ModelFileError, match=r"model\.bin cannot be read as tensors; it must be"):
            published_tensors(file)
