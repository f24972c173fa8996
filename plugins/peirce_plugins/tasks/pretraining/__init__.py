"""Language models from plain text: shards to tokens, tokens to pairs and masks, recipes, and `peirce pretrain`."""

from peirce_plugins.tasks.pretraining.plugin import register_tasks

__all__ = ["register_tasks"]
