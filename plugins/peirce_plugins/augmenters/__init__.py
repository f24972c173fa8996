"""What is added to token embeddings before positions."""

import peirce

from peirce_plugins.augmenters.kge import Kge
from peirce_plugins.augmenters.logical import Logical
from peirce_plugins.augmenters.tpr import TensorProduct

__all__ = ["Kge", "Logical", "TensorProduct", "register_augmenters"]


@peirce.hookimpl
def register_augmenters() -> list[type]:
    """The augmenters that ship with Peirce."""
    return [Logical, TensorProduct, Kge]
