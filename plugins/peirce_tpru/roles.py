"""Which roles each token of a text binds: a trained model is run once, and its fillers are read by hooks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from peirce.compose import load
from peirce.errors import TaskError, escaped
from peirce.extras import check_picture
from peirce.files import whole_number, write_whole
from peirce.model import ASSETS, Model
from peirce_text import Tokenizer
from torch import Tensor

from peirce_tpru.entailment.formulas import check_proposition
from peirce_tpru.entailment.task import tokenizer as propositions
from peirce_tpru.operators.tpru import TPRU

TOKENIZER = "tokenizer.json"


@frozen(eq=False)
class Binding:
    """The fillers of one recurrence.

    Args:
        name: of the recurrence's module, such as `layers.0.forwards`.
        shares: float64 [x, N], the share of each role at each token. A row sums to 1, or to 0 where nothing is bound.
    """

    name: str
    shares: NDArray[np.float64]

    def strongest(self, count: int) -> list[int]:
        """The roles with the largest share at any token, the largest first."""
        order = np.argsort(-self.shares.max(0), kind="stable")
        return [int(role) for role in order[:count]]


@frozen(eq=False)
class Roles:
    """What is bound in a text.

    Args:
        tokens: the texts of its tokens.
        bindings: one for each recurrence, in the order of the network.
    """

    tokens: tuple[str, ...]
    bindings: tuple[Binding, ...]


def read_roles(folder: Path, texts: Sequence[str]) -> Roles:
    """Run a saved model on a text, or on a pair of texts, and read its fillers.

    Args:
        folder: of the saved model.
        texts: one or two. A model without a tokenizer takes token ids with spaces between them.

    Raises:
        ModelFileError: the model cannot be loaded.
        TaskError: it has no recurrence `tpru`, the text has no tokens, or is none for it.
    """
    model = load(folder).eval()
    units = {
        name.removeprefix("network."): module
        for name, module in model.named_modules()
        if isinstance(module, TPRU)
    }
    if not units:
        raise TaskError(f"{folder} has no recurrence `tpru`, so no roles are bound in it")
    tokens, inputs = _encoded(folder, model, texts)
    seen: dict[str, list[Tensor]] = {name: [] for name in units}

    def keep(name: str) -> Any:
        return lambda module, given, fillers: seen[name].append(fillers.detach())

    handles = [unit.fillers.register_forward_hook(keep(name)) for name, unit in units.items()]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    types = inputs.get("token_type_ids")
    lengths = [] if types is None else types[0].bincount(minlength=model.plan.dims.token_types).tolist()
    return Roles(tokens, tuple(Binding(name, _by_token(name, seen[name], lengths)) for name in units))


def draw(roles: Roles, count: int, path: Path, title: str = "") -> None:
    """Draw the strongest roles of each recurrence as a heat map, tokens by roles.

    Raises:
        TaskError: as `check_picture`.
    """
    check_picture(path, extra="train")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    form, picture = path.suffix.lower()[1:], io.BytesIO()
    with rc_context({"svg.fonttype": "none"}):
        size = 2 + 0.24 * len(roles.tokens), (1.4 + 0.22 * count) * len(roles.bindings)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(roles.bindings), 1, squeeze=False)[:, 0]
        for panel, binding in zip(panels, roles.bindings, strict=True):
            chosen = binding.strongest(count)
            image = panel.imshow(binding.shares[:, chosen].T, cmap="Blues", vmin=0.0, aspect="auto")
            words = [escaped(token) for token in roles.tokens]
            panel.set_xticks(range(len(words)), words, rotation=90, fontsize=8, parse_math=False)
            panel.set_yticks(range(len(chosen)), [str(role) for role in chosen], fontsize=8)
            panel.set_ylabel("role", fontsize=8)
            panel.set_title(binding.name, fontsize=9, parse_math=False)
            figure.colorbar(image, ax=panel, label="share")
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
        figure.savefig(picture, format=form, dpi=150, metadata={"Title": escaped(title), **dates})
    write_whole(path, picture.getvalue())


def _by_token(name: str, steps: list[Tensor], lengths: Sequence[int]) -> NDArray[np.float64]:
    """[x, N] from what each step saw, [rows, N]: a recurrence from the right met the tokens of each text reversed.

    One that reads both texts as one has one row; one that reads each by itself has a row for each.
    """
    shares = torch.stack(steps, 1).double().numpy()
    counts = lengths if len(shares) > 1 else [shares.shape[1]]
    back = name.rpartition(".")[2] == "backwards"
    rows = [row[:n][::-1] if back else row[:n] for row, n in zip(shares, counts, strict=True)]
    return np.concatenate(rows)


def _encoded(folder: Path, model: Model, texts: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """The tokens' texts and the inputs of one row."""
    given = {spec.name for spec in model.signature.inputs}
    if not any(text.strip() for text in texts):
        raise TaskError("the text is empty; give one with words")
    if len(texts) > 1 and "token_type_ids" not in given:
        raise TaskError(f"{folder} has no token types to tell two texts apart; give one text")
    if (folder / ASSETS / TOKENIZER).is_file():
        tokenizer = Tokenizer.load(folder)
        if tokenizer.content == propositions().content:
            for text in texts:
                check_proposition(text)
        encoding = tokenizer.encode(*texts, length=model.plan.dims.max_length)
        ids, types = list(encoding.ids), list(encoding.types)
        words = tuple(tokenizer.token(i) or str(i) for i in ids)
    else:
        words = tuple(word for text in texts for word in text.split())
        types = [i for i, text in enumerate(texts) for _ in text.split()]
        if wrong := [word for word in words if whole_number(word) is None]:
            raise TaskError(
                f"{folder} has no tokenizer, so its texts are token ids with spaces between them, such as '5 17 3'; "
                f"{wrong[0]!r} is none"
            )
        ids = list(map(int, words))
    if not ids:
        raise TaskError("the text has no tokens")
    inputs = {"input_ids": torch.tensor([ids])}
    if "token_type_ids" in given:
        inputs["token_type_ids"] = torch.tensor([types])
    return words, inputs
