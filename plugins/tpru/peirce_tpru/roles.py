"""Which roles each token of a text binds: a trained model is run once, and its fillers are read by hooks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from attrs import evolve, field, frozen, validators
from numpy.typing import NDArray
from torch import Tensor

from peirce.model import Model
from peirce_show import Matrix, Observe, View
from peirce_text import ReadTexts, Texts
from peirce_tpru.entailment.formulas import check_proposition
from peirce_tpru.entailment.task import tokenizer as propositions
from peirce_tpru.operators.tpru import TPRU

TYPES = "token_type_ids"


@frozen(kw_only=True)
class RolesOptions:
    """What is shown.

    Args:
        count: how many of the roles with the largest share at any token; a recurrence has hundreds.
    """

    count: int = field(default=8, validator=validators.ge(1))


class Roles(Texts):
    """The share of each role at each token, in every recurrence `tpru`, beside what else there is of the tokens."""

    Options = RolesOptions

    @classmethod
    def shows(cls, model: Model, assets: Collection[str]) -> bool:
        """Whether the model has such a recurrence."""
        return super().shows(model, assets) and bool(_units(model))

    def read(self, texts: Sequence[str]) -> ReadTexts:
        """Texts as the model reads them; a model of propositions refuses other texts."""
        tokenizer = self.tokenizer
        if tokenizer is not None and tokenizer.content == propositions().content:
            for text in texts:
                check_proposition(text)
        return super().read(texts)

    def view(self, texts: Sequence[str], observe: Observe) -> View:
        """The strongest roles of each recurrence, the strongest first; a model of propositions reads those alone."""
        tokenizer = self.tokenizer
        if tokenizer is not None and tokenizer.content == propositions().content:
            for text in texts:
                check_proposition(text)
        read, units = self.read(texts), _units(self.model)
        seen: dict[str, list[Tensor]] = {name: [] for name in units}

        def keep(name: str) -> Any:
            return lambda module, given, fillers: seen[name].append(fillers.detach())

        with ExitStack() as hooks:
            for name, unit in units.items():
                hooks.callback(unit.fillers.register_forward_hook(keep(name)).remove)
            view = super().view(texts, observe)
        types = read.inputs.get(TYPES)
        texts_of = self.model.plan.dims.token_types
        lengths = [] if types is None else np.bincount(types[0], minlength=texts_of).tolist()
        matrices = (self._matrix(name, read.tokens, _by_token(name, seen[name], lengths)) for name in units)
        return evolve(view, matrices=(*matrices, *view.matrices))

    def _matrix(self, name: str, tokens: tuple[str, ...], shares: NDArray[np.float32]) -> Matrix:
        """The shares [x, N] of the strongest roles, as a row each."""
        order = np.argsort(-shares.max(0), kind="stable")[: self.options.count]
        words = name.removeprefix("layers.").split(".")
        layer = next((str(int(word) + 1) for word in words if word.isdigit()), "1")
        return Matrix(
            layer=layer, operator="tpru", name=".".join(word for word in words if not word.isdigit()),
            rows=tuple(map(str, order)), columns=tokens, channels=("share",),
            values=shares[:, order].T[None], share=True, axes=("role", "token"),
        )  # fmt: skip


def _units(model: Model) -> dict[str, TPRU]:
    """The recurrences of a model, by their places in its network."""
    every = model.network.named_modules()
    return {name: module for name, module in every if isinstance(module, TPRU)}


def _by_token(name: str, steps: list[Tensor], lengths: Sequence[int]) -> NDArray[np.float32]:
    """[x, N] from what each step saw, [rows, N]: a recurrence from the right met the tokens of each text reversed.

    One that reads both texts as one has one row; one that reads each by itself has a row for each.
    """
    shares = torch.stack(steps, 1).float().numpy()
    counts = lengths if len(shares) > 1 else [shares.shape[1]]
    back = name.rpartition(".")[2] == "backwards"
    rows = [row[:n][::-1] if back else row[:n] for row, n in zip(shares, counts, strict=True)]
    return np.concatenate(rows)
