"""Peirce's models as models of the package `transformers`, and back; and its models as architectures of Peirce.

`from peirce_hf import register; register()` makes `AutoModel...` and `pipeline` know Peirce's models.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
