"""Exporters, the verification of what they wrote, and the runtime for exported files.

Of its names those that verify what another reads need torch: `verify_read`, `LEFT_OUT`, `CEILINGS`, `relative_error`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
