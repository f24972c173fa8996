"""Exporters, the verification of what they wrote, and the runtime for exported files.

Of its names `verify_read` alone needs torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
