"""HTML pages that need no network: the frame that all share, and the page on which an exported model answers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
