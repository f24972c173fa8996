"""Compose logic-biased neural networks from registered parts, train them, export them and run them.

Names are imported when they are first used, so that `import peirce` loads neither torch nor any plug-in. Authors of
parts import from `peirce.parts`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
