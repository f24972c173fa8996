"""The plug-in of `peirce_training`: what its commands are for."""

from __future__ import annotations

from peirce.registry import hookimpl


@hookimpl
def register_commands() -> dict[str, str]:
    """What `peirce --help` says of them."""
    return {
        "train": "Train a model of a spec on a task.",
        "evaluate": "Evaluate a trained model on a task.",
        "finetune": "Train a saved model on a task, over a grid and several seeds.",
        "tune": "Search a few settings of a training, with optuna.",
        "experiments": "Reproduce the tables of a paper, at a scale of one's own.",
    }
