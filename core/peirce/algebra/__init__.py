"""Atoms that flow through a network, their norms, the scope (who may attend to whom), and hooks that read attention.

Axis legend, used in every shape of the project: `b` batch, `x y a` tokens, `h` heads, `s w` within a head,
`d1` unary width, `d2` binary width, `v` vocabulary.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
