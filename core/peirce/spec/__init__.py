"""A spec as frozen values: read from TOML, checked key by key, written back. It knows no part and no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
