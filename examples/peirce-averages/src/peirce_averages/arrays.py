"""arrays: a model of `averages` as one file of NumPy arrays, which its runtime computes with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from attrs import frozen

from peirce import ExportError, Model
from peirce.model import Exporter, Report
from peirce.parts import Signature
from peirce_averages.network import Averages
from peirce_averages.runtime import ArraysRuntime
from peirce_export import write_verified

HEAD = "classification"


@frozen(kw_only=True)
class ArraysOptions:
    """How the file is written.

    Args:
        half: whether word vectors are kept in float16, which halves the file and moves scores by about 0.001.
    """

    half: bool = False


class Arrays(Exporter):
    """Word vectors, layers and the classification head, if there is one, as arrays of NumPy."""

    name = "arrays"
    source = "https://numpy.org/doc/stable/reference/generated/numpy.savez_compressed.html"
    suffix = ".npz"
    Options = ArraysOptions

    def export(self, model: Model, path: Path) -> Report:
        """Write `path`, and hold it against the model.

        Raises:
            ExportError: the model is of another architecture, has other heads or augmenters, or the file differs.
        """
        network = model.network
        heads = list(model.heads)
        if not isinstance(network, Averages) or heads not in ([], [HEAD]) or model.spec.augmenters:
            has = ", ".join(heads) or "no head"
            raise ExportError(
                f"{self.name!r} writes models of architecture 'averages' with the head {HEAD!r} or none, and no "
                f"augmenter; {model.spec.name!r} is {model.spec.architecture!r} with {has}; use --to onnx"
            )
        state = model.state_dict()
        words = state["network.input.embedding.weight"]
        if (types := state.get("network.input.token_type.weight")) is not None:
            words = words + types[0]
        vectors = words.float().cpu().numpy()
        arrays = {"words": vectors.astype(np.float16) if self.options.half else vectors}
        dense = {str(number): f"network.layers.{number}" for number in range(len(network.layers))}
        dense |= {head: f"heads.{head}.dense" for head in heads}
        for number, name in dense.items():
            for leaf in ("weight", "bias"):
                arrays[f"{leaf}_{number}"] = state[f"{name}.{leaf}"].float().cpu().numpy()
        one_sequence = [spec for spec in model.signature.inputs if spec.name != "token_type_ids"]
        about = {
            "signature": Signature(one_sequence, model.signature.outputs).to_dict(),
            "spec": model.spec.to_toml(),
            "half": self.options.half,
        }
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)

        def write(fresh: Path) -> Report:
            with fresh.open("wb") as file:
                np.savez_compressed(file, **arrays)
            return ArraysRuntime().verify(fresh, model)

        return write_verified(path, "model.npz", write)
