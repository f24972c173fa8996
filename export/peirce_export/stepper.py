"""Two exported graphs as what generation steps through: one reads the prompts, one adds a token to each row.

The memory stays with ONNX Runtime, on the device that it runs on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]
from numpy.typing import NDArray
from peirce.errors import InputError
from peirce.model import Ids

from peirce_export.onnx.metadata import NEXT

if TYPE_CHECKING:
    from peirce_export.session import Session


class SessionStepper:
    """Generation with exported graphs.

    Args:
        prefill: the graph that reads prompts and gives their memory.
        step: the graph that adds a token.
        feeds: the prompts, checked.

    Raises:
        InputError: a prompt is empty.
    """

    def __init__(self, prefill: Session, step: Session, feeds: Mapping[str, NDArray[Any]]) -> None:
        self.prefill, self.following, self.feeds = prefill, step, feeds
        self.token, *self.names = (spec.name for spec in step.signature.inputs)
        self.logits = step.signature.outputs[0].name
        mask = "decoder_attention_mask" if self.token == "decoder_input_ids" else "attention_mask"
        self.real = feeds[mask]
        if not self.real.any(1).all():
            raise InputError(f"a prompt in {self.token!r} has no real token; begin it with one")
        self.memory: dict[str, Any] = {}

    def begin(self) -> NDArray[Any]:
        """Read the prompts, whichever side their padding is on."""
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in self.feeds.items()}
        logits, *memory = self.prefill.values(values, [self.logits, *self.names])
        self.memory = dict(zip(self.names, memory, strict=True))
        last = self.real.shape[1] - 1 - self.real[:, ::-1].argmax(1)
        return logits.numpy()[np.arange(len(last)), last]

    def step(self, tokens: Ids) -> NDArray[Any]:
        """Append a token to each row."""
        new = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tokens[:, None], np.int64))
        outputs = [self.logits, *(NEXT + name for name in self.names)]
        logits, *memory = self.following.values({self.token: new, **self.memory}, outputs)
        self.memory = dict(zip(self.names, memory, strict=True))
        return logits.numpy()[:, -1]

    def select(self, rows: Ids) -> None:
        """Go on with these rows."""
        self.memory = {
            name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value.numpy()[rows]))
            for name, value in self.memory.items()
        }
