"""The composed model, how it is saved, how it generates, and the contracts of what works on whole models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
