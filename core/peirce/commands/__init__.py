"""The command line of the core. It hands out what commands share for their output; each is imported when it runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
