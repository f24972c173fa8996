"""Generation steps through a model in torch: with a cached state, or recomputing the whole text at each token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from peirce.errors import InputError
from peirce.model.generation import Ids
from peirce.parts import Signature


class Steps(Protocol):
    """What a stepper asks of a model; `Model` is one."""

    signature: Signature

    def generates(self) -> tuple[str, str]:
        """The input whose tokens are generated, and the output that scores the next one."""
        ...

    def advance(
        self, inputs: Mapping[str, Tensor], cache: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Predict for tokens that follow others."""
        ...

    def __call__(self, **inputs: Tensor) -> dict[str, Tensor]:
        """Predict for whole texts."""
        ...


class ModelStepper:
    """Generation with a model.

    Args:
        model: the model, in evaluation mode.
        inputs: the prompts, as the model's signature says.
        cache: whether the state of the tokens before is cached; without it every step recomputes the whole text.

    Raises:
        InputError: the model does not generate, or a prompt is empty.
    """

    def __init__(self, model: Steps, inputs: Mapping[str, Tensor], *, cache: bool = True) -> None:
        self.model, self.cache = model, cache
        self.name, self.output = model.generates()
        self.inputs = dict(inputs)
        ids = inputs[self.name]
        mask = model.signature.mask(self.name)
        self.mask = None if mask is None else mask.name
        self.real = inputs.get(self.mask or "", torch.ones_like(ids, dtype=torch.bool))
        if not bool(self.real.any(1).all()):
            raise InputError(f"a prompt in {self.name!r} has no real token; begin it with one")
        self.cached: dict[str, Tensor] = {}

    @torch.no_grad()
    def begin(self) -> NDArray[Any]:
        """Read the prompts, whichever side their padding is on."""
        if self.cache:
            outputs, self.cached = self.model.advance(self.inputs, {})
        else:
            outputs = self.model(**self.inputs)
        places = torch.arange(self.real.shape[1], device=self.real.device)
        last = torch.where(self.real, places, -1).amax(1)
        logits = outputs[self.output]
        return _numpy(logits[torch.arange(len(logits), device=logits.device), last])

    @torch.no_grad()
    def step(self, tokens: Ids) -> NDArray[Any]:
        """Append a token to each row."""
        new = torch.from_numpy(np.asarray(tokens)).to(self.real.device).unsqueeze(1)
        if self.cache:
            outputs, self.cached = self.model.advance({self.name: new}, self.cached)
        else:
            self._append(new)
            outputs = self.model(**self.inputs)
        return _numpy(outputs[self.output][:, -1])

    def select(self, rows: Ids) -> None:
        """Go on with these rows."""
        chosen = torch.from_numpy(np.asarray(rows)).to(self.real.device)
        self.inputs = {name: value[chosen] for name, value in self.inputs.items()}
        self.cached = {name: value[chosen] for name, value in self.cached.items()}
        self.real = self.real[chosen]

    def _append(self, new: Tensor) -> None:
        """The inputs with one more token, of token type 0 as in a step."""
        self.real = torch.cat([self.real, torch.ones_like(new, dtype=torch.bool)], 1)
        self.inputs[self.name] = torch.cat([self.inputs[self.name], new], 1)
        if self.mask is not None:
            self.inputs[self.mask] = self.real
        if self.name == "input_ids" and "token_type_ids" in self.inputs:
            types = self.inputs["token_type_ids"]
            self.inputs["token_type_ids"] = torch.cat([types, torch.zeros_like(new)], 1)


def _numpy(logits: Tensor) -> NDArray[Any]:
    return logits.double().cpu().numpy()
