"""The check of the conformance suite for layouts of checkpoints."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from peirce.model import Model, published_config
from peirce_hf.checkpoints.importing import CONFIG, export_transformers, import_transformers, layout_of
from peirce_testing import BrokenError, Case, check

LENGTHS = (9, 6, 4)
"""The real tokens of the texts that are compared."""
VOCABULARY = 50
NEAR = 1e-5


@check("layouts")
def layout_agrees(case: Case) -> None:
    """A model of transformers' own class with random weights gives the same scores as its import, with padding on
    either side. Written back, all weights are the same to the bit. Each setting that the class saves is read, or is
    among those that say nothing of the network.
    """
    with TemporaryDirectory() as folder:
        theirs, ours, again = (Path(folder, name) for name in ("theirs", "ours", "again"))
        published = example_model(case.entry.name, theirs, case.registry)
        layout = layout_of(case.entry.name, theirs, case.registry)
        if unread := layout.split_settings(published_config(theirs / CONFIG))[1]:
            raise BrokenError(
                f"it does not read the settings {', '.join(unread)} of {type(published).__name__}: give each a field, "
                "with `Literal` where another value is another network, or add it to `ignored` if it says nothing of it"
            )
        model = import_transformers(theirs, ours, registry=case.registry).double().eval()
        for side in ("right", "left"):
            if (found := largest_difference(published, model, side)) > NEAR:
                raise BrokenError(
                    f"with padding on the {side}, scores differ from {type(published).__name__} by {found:.2g} of the "
                    "largest; compare the layout's settings, and its table of tensors"
                )
        export_transformers(ours, again, registry=case.registry)
        wrong = differing_weights(type(published), theirs, again)
        if wrong:
            raise BrokenError(
                f"written back, {', '.join(wrong[:3])} differ; see the layout's table of tensors"
            )


def example_model(kind: str, folder: Path, registry: Any = None, **changes: Any) -> Any:
    """A small model of transformers' class with random weights, saved in float32; then in float64 where it can be.

    Args:
        kind: its `model_type`.
        folder: where it is saved.
        registry: where layouts are looked up.
        changes: settings in place of those of the layout's example.
    """
    import transformers

    name, settings = layout_of(kind, folder, registry).example
    cls = getattr(transformers, name)
    torch.manual_seed(0)
    config = cls.config_class(
        **{"vocab_size": VOCABULARY, "pad_token_id": 1, "initializer_range": 0.3, **settings, **changes}
    )
    config._experts_implementation = "eager"  # the others have no float64
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    # In float64, the eager attention of transformers makes NaN of rows that are padding alone.
    return model if model.config._attn_implementation == "eager" else model.double()


@torch.no_grad()
def largest_difference(published: Any, model: Model, side: str, *, counted: bool = True) -> float:
    """The largest difference of scores, or of atoms without a head, at real tokens; over the largest of them.

    Args:
        published: the model of transformers.
        model: its import.
        side: of the padding.
        counted: whether `published` is given positions that count real tokens, where it takes any.
    """
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, VOCABULARY, (len(LENGTHS), max(LENGTHS)), generator=generator)
    places = torch.arange(max(LENGTHS))
    mask = places < torch.tensor(LENGTHS).unsqueeze(1)
    if side == "left":
        mask = mask.flip(1)
    ids = torch.where(mask, ids, 1)
    given = {"input_ids": ids, "attention_mask": mask.long()}
    if counted and side == "left" and "position_ids" in signature(published.forward).parameters:
        start = getattr(published.config, "pad_token_id", 0) + 1 if _counts_from_padding(published) else 0
        given["position_ids"] = (mask.long().cumsum(1) - 1).clamp_min(0) + start
    found = published(**given)
    wanted = next(found[key] for key in ("logits", "prediction_logits", "last_hidden_state") if key in found)
    outputs = model(input_ids=ids, attention_mask=mask)
    scores = [name for name in outputs if name in ("mlm_logits", "causal_lm_logits", "unary")]
    return float((outputs[scores[-1]] - wanted)[mask].abs().max() / wanted[mask].abs().max())


def _counts_from_padding(published: Any) -> bool:
    return hasattr(getattr(published.base_model, "embeddings", None), "padding_idx")


def differing_weights(cls: Any, one: Path, other: Path) -> list[str]:
    """The weights that two folders do not have alike, to the bit."""
    states = [cls.from_pretrained(folder).state_dict() for folder in (one, other)]
    return [
        name
        for name in states[0].keys() | states[1].keys()
        if name not in states[0] or name not in states[1] or not torch.equal(states[0][name], states[1][name])
    ]
