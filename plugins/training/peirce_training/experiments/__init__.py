"""Many runs: cells of a table, grids, fine-tuning, and results beside published figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
