"""The command line of the core. Only the commands' shared output is handed out; each command is imported when it runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
