"""new_part: an exporter of a model's weights as arrays of NumPy.

$ peirce export MODEL --to new_part -o weights.npz
"""

from pathlib import Path

import numpy as np
import torch
from attrs import frozen
from peirce import Model
from peirce.model import Exporter, Report
from peirce_export import verify_read, write_verified


@frozen(kw_only=True)
class NewPartOptions:
    """How the file is written.

    Args:
        compressed: whether the arrays are compressed.
    """

    compressed: bool = False


class NewPart(Exporter):
    """The weights as arrays of NumPy, by the names of the state dict."""

    name = "new_part"
    source = "https://numpy.org/doc/stable/reference/generated/numpy.savez.html"
    suffix = ".npz"
    Options = NewPartOptions

    def export(self, model: Model, path: Path) -> Report:
        """Write `path` and verify it; the file gets its name once it has passed.

        Raises:
            ExportError: it cannot be written, or computes something else than the model.
        """

        def write(fresh: Path) -> Report:
            arrays = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
            with fresh.open("wb") as file:
                (np.savez_compressed if self.options.compressed else np.savez)(file, **arrays)
            return verify_read(self.read, fresh, model)

        return write_verified(path, "weights.npz", write)

    def read(self, path: Path, shell: Model) -> Model:
        """A model with the weights of the file."""
        with np.load(path) as arrays:
            shell.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
        return shell
