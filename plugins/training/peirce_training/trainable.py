"""Which parameters a training changes, and at which learning rates."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any, cast

from torch import nn

from peirce.errors import TaskError
from peirce.extras import require
from peirce.model import Model, shorten_list
from peirce_training.options import TrainingOptions

ADAPTER = "adapter"
"""The folder of low-rank updates beside a saved model, as peft writes and reads it."""
NEW, ALL = "new", "all"
"""Words that stand for what the model to start from lacks, and for every parameter."""


def freeze_others(model: Model, options: TrainingOptions) -> frozenset[str]:
    """Let all but the parameters to train have no gradients.

    Returns:
        The names of those that had them, in the state dict.

    Raises:
        TaskError: a name of the settings stands for no parameter.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    given = (options.trainable,) if isinstance(options.trainable, str) else options.trainable
    for setting, patterns in (("trainable", given), ("rates", options.rates), ("warmups", options.warmups)):
        for pattern in patterns:
            if not any(stands_for(pattern, name, model.gained) for name in parameters):
                raise TaskError(_unmatched(f"train.{setting}", pattern, parameters))
    trained = {
        parameter
        for name, parameter in parameters.items()
        if any(stands_for(each, name, model.gained) for each in given)
    }
    others = {n: p for n, p in parameters.items() if p.requires_grad and p not in trained}
    for parameter in others.values():
        parameter.requires_grad_(False)
    return frozenset(others)


def add_low_rank(model: Model, rank: int, frozen: Collection[str], start: str | None) -> Any:
    """Put low-rank updates around the linear maps of a model that are not trained; Hu et al. (2021), LoRA.

    Args:
        model: the model, whose maps are replaced by peft's until they are merged.
        rank: of the updates.
        frozen: the names of the parameters that are not trained.
        start: where the model began, which peft writes beside the updates.

    Returns:
        peft's model around it.

    Raises:
        TaskError: peft is not installed, or every map is trained.
    """
    require("train.rank", "peft", extra="peirce-training[lora]")
    from peft import LoraConfig, get_peft_model

    targets = [
        name
        for name, module in model.named_modules()
        if type(module) is nn.Linear and f"{name}.weight" in frozen and not name.startswith("heads.")
    ]
    if not targets:
        raise TaskError(
            "train.rank is for linear maps that are not trained, and all are; set train.trainable=new or heads.*"
        )
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = get_peft_model(cast(Any, model), LoraConfig(r=rank, lora_alpha=rank, target_modules=targets))
    found.peft_config["default"].base_model_name_or_path = start
    for parameter in trained:
        parameter.requires_grad_(True)
    return found


def stands_for(pattern: str, name: str, new: Iterable[str]) -> bool:
    """Whether `new`, `all` or a pattern such as `heads.*` stands for a parameter."""
    return pattern == ALL or (name in new if pattern == NEW else fnmatchcase(name, pattern))


def _unmatched(setting: str, pattern: str, names: Iterable[str]) -> str:
    if pattern == NEW:
        return (
            f"{setting} has 'new', and no parameter is new: start from a saved model with --from, or with a spec that "
            "has `from`, which lacks some of them"
        )
    places = dict.fromkeys(".".join(name.split(".")[:3]) for name in names)
    return (
        f"{setting} has {pattern!r}, which stands for no parameter; write new, all, or patterns of whole names with *, "
        f"such as those that begin with {shorten_list([*places])}"
    )
