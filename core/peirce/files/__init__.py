"""Files: how they are read, checked, locked and replaced, by one threat model (`docs/security.md`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
