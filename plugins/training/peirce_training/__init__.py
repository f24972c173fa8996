"""Training a model on a task: the loop, the optimiser, checkpoints, several processes, a start from a saved model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
