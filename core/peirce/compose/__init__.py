"""From a spec to a model, and from a saved folder back to one; the doors to exporters and runtimes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
