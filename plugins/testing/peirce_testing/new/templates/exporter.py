"""new_part: an exporter of a model's weights as arrays of NumPy.

$ peirce export MODEL --to new_part -o weights.npz
"""

from pathlib import Path

import numpy as np
from attrs import frozen
from peirce import ExportError, Model
from peirce.model import Exporter, Report


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
    Options = NewPartOptions

    def export(self, model: Model, path: Path) -> Report:
        """Write `path`, read it back, and compare.

        Raises:
            ExportError: an array differs from its tensor.
        """
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in model.state_dict().items()}
        with path.open("wb") as file:
            (np.savez_compressed if self.options.compressed else np.savez)(file, **arrays)
        written = np.load(path)
        wrong = [name for name, array in arrays.items() if not np.array_equal(written[name], array)]
        if wrong:
            raise ExportError(f"{path}: {', '.join(wrong)} differ from the model's; write it again")
        return Report(file=path, passed=True, notes=(f"{len(arrays)} arrays",))
