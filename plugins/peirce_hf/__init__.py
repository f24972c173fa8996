"""Peirce's models as models of the package `transformers`, and back.

`from peirce_hf import register; register()` makes `AutoModel...` and `pipeline` know them.
Needs the extra `transformers`; nothing else in Peirce imports this package.
"""

import lazy_loader

from peirce_hf.absent import MissingTransformersError as MissingTransformersError

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
