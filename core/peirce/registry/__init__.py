"""Which parts there are: hooks, discovery of plug-ins, their loading and rules, and who owns a name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
