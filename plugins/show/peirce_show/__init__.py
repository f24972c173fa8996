"""Pictures of models: what they are made of, how they compare, and what they attend to."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
